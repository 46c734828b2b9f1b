//! Signals: which of them mean what to `watch`.

use std::process;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;
use trueup::driver::Handle;

use super::reload::ReloadRequest;
use super::reporter::Reporter;
use super::screen::Waker;
use crate::host::Host;
use crate::output;

/// How long a pass may take to come to the end of its step once it was told to stop.
const STOP_TIMEOUT: Duration = Duration::from_secs(10);

/// Signals that do nothing by themselves any more, and wait to be seen to.
pub(super) struct SignalHandler(Signals);

impl SignalHandler {
    /// From now on.
    ///
    /// # Errors
    ///
    /// When the operating system refuses.
    pub(super) fn new() -> Result<SignalHandler> {
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]);
        Ok(SignalHandler(signals.context("cannot wait for signals")?))
    }

    /// Sees to them on a thread of its own: SIGINT and SIGTERM end the loop, and the second of them ends it at once; SIGHUP has the
    /// file read again. With a screen, that is drawn anew when its size has changed, and given back while the process is stopped.
    ///
    /// # Errors
    ///
    /// When the operating system refuses.
    pub(super) fn spawn(
        self,
        handle: Handle<Host>,
        reporter: Reporter,
        reload_request: ReloadRequest,
        screen: Option<Waker>,
    ) -> Result<()> {
        let SignalHandler(mut signals) = self;
        if screen.is_some() {
            for signal in [SIGWINCH, SIGTSTP] {
                signals
                    .add_signal(signal)
                    .context("cannot wait for signals")?;
            }
        }
        let handle_signals = move || {
            let mut is_stopping = false;
            for signal in signals.forever() {
                match (signal, &screen) {
                    (SIGHUP, _) => reload_request.send(),
                    (SIGWINCH, Some(screen)) => screen.wake(),
                    (SIGTSTP, Some(screen)) => screen.suspend(|| {
                        // If it does not stop it goes on.
                        let _ = emulate_default_handler(SIGTSTP);
                    }),
                    _ if is_stopping => leave(screen.as_ref(), "ended in the middle of a pass"),
                    _ => {
                        is_stopping = true;
                        handle.stop();
                        end(&handle, &reporter, screen.as_ref());
                    }
                }
            }
        };
        thread::Builder::new()
            .name("signals".into())
            .spawn(handle_signals)
            .context("cannot start a thread")?;
        Ok(())
    }
}

/// Tells of the end, and sees to it that there is one. Neither on this thread, which the next signal is to find.
fn end(handle: &Handle<Host>, reporter: &Reporter, screen: Option<&Waker>) {
    let (handle, reporter, screen) = (handle.clone(), reporter.clone(), screen.cloned());
    let tell = move || reporter.stopping();
    let wait = move || {
        if handle
            .wait_ended(STOP_TIMEOUT)
            .is_err_and(|error| error.is_timeout())
        {
            leave(screen.as_ref(), "a pass did not end in time, and was ended");
        }
    };
    let told = thread::Builder::new().spawn(tell);
    if thread::Builder::new().spawn(wait).and(told).is_err() {
        output::note("cannot start a thread, so the pass may take long to end");
    }
}

/// Ends the process. What a pass meant to do is in the journal, and the next one sees to it.
fn leave(screen: Option<&Waker>, why: &str) -> ! {
    if let Some(screen) = screen {
        screen.restore();
    }
    output::note(why);
    process::exit(1)
}

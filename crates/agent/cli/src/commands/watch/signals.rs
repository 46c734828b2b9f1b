//! The signals that `watch` handles.

use std::process;
use std::thread;
use std::time::Duration;

use anyhow::{Context as _, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use super::loops::Loops;
use super::reload::ReloadRequest;
use super::reporter::Reporter;
use super::screen::Waker;
use crate::output;

/// The time that a pass, or a command, may take to end its step after a stop.
pub(super) const STOP_TIMEOUT: Duration = Duration::from_secs(30);

/// Signals whose default action is off, until they are handled.
pub(super) struct SignalHandler(Signals);

impl SignalHandler {
    /// Starts to catch the signals.
    ///
    /// # Errors
    ///
    /// When the operating system refuses.
    pub(super) fn new() -> Result<SignalHandler> {
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]);
        Ok(SignalHandler(signals.context("cannot wait for signals")?))
    }

    /// Handles the signals on a thread of its own. SIGINT and SIGTERM end the loop, the second of
    /// them at once; SIGHUP reads the file again. With a screen, SIGWINCH redraws it, and SIGTSTP
    /// restores the terminal while the process is stopped.
    ///
    /// # Errors
    ///
    /// When the operating system refuses.
    pub(super) fn spawn(
        self,
        loops: Loops,
        reporter: Reporter,
        reload_request: ReloadRequest,
        screen: Option<Waker>,
    ) -> Result<()> {
        let SignalHandler(mut signals) = self;
        if screen.is_some() {
            for signal in [SIGWINCH, SIGTSTP] {
                signals.add_signal(signal).context("cannot wait for signals")?;
            }
        }
        let handle_signals = move || {
            let mut is_stopping = false;
            for signal in signals.forever() {
                match (signal, &screen) {
                    (SIGHUP, _) => reload_request.send(),
                    (SIGWINCH, Some(screen)) => screen.wake(),
                    (SIGTSTP, Some(screen)) => screen.suspend(|| {
                        // If it cannot stop, it goes on.
                        let _ = emulate_default_handler(SIGTSTP);
                    }),
                    _ if is_stopping => leave(screen.as_ref(), "ended in the middle of a pass"),
                    _ => {
                        is_stopping = true;
                        loops.stop();
                        end(&loops, &reporter, screen.as_ref());
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

/// Reports the end, and bounds the time until it. Both on threads of their own, because this one
/// waits for the next signal.
fn end(loops: &Loops, reporter: &Reporter, screen: Option<&Waker>) {
    let (loops, reporter, screen) = (loops.clone(), reporter.clone(), screen.cloned());
    let report = move || reporter.stopping();
    let wait = move || {
        if !loops.wait_ended(STOP_TIMEOUT) {
            leave(screen.as_ref(), "a pass did not end in time, and was ended");
        }
    };
    let reported = thread::Builder::new().spawn(report);
    if thread::Builder::new().spawn(wait).and(reported).is_err() {
        output::note("cannot start a thread, so the pass may take long to end");
    }
}

/// Ends the process. The journal has the open intents of the pass, and the next pass resolves them.
fn leave(screen: Option<&Waker>, why: &str) -> ! {
    if let Some(screen) = screen {
        screen.restore();
    }
    output::note(why);
    process::exit(1)
}

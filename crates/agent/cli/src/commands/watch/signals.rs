//! The signals that `watch` handles.

use std::process;
use std::thread;

use anyhow::{Context as _, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGTSTP, SIGWINCH};
use signal_hook::iterator::Signals;
use signal_hook::low_level::emulate_default_handler;

use trueup_agent::{Handle, STOP_TIMEOUT};

use super::screen::Waker;
use crate::output;

/// Signals without their default action, until they are handled.
pub(super) struct SignalHandler(Signals);

impl SignalHandler {
    /// Begins to catch the signals. Fails if the operating system refuses.
    pub(super) fn new() -> Result<SignalHandler> {
        let signals = Signals::new([SIGINT, SIGTERM, SIGHUP]);
        Ok(SignalHandler(signals.context("cannot wait for signals")?))
    }

    /// Handles the signals on a thread of its own. SIGINT and SIGTERM end the loop; a second one
    /// ends it at once. SIGHUP reads the file again. With a screen, SIGWINCH redraws it, and
    /// SIGTSTP restores the terminal while the process is stopped. Fails if the operating system
    /// refuses.
    pub(super) fn spawn(self, agent: Handle, screen: Option<Waker>) -> Result<()> {
        let SignalHandler(mut signals) = self;
        if screen.is_some() {
            for signal in [SIGWINCH, SIGTSTP] {
                signals.add_signal(signal).context("cannot wait for signals")?;
            }
        }
        let thread = thread::Builder::new().name("signals".into()).spawn(move || {
            let mut is_stopping = false;
            for signal in signals.forever() {
                match (signal, &screen) {
                    (SIGHUP, _) => agent.reload(),
                    (SIGWINCH, Some(screen)) => screen.wake(),
                    (SIGTSTP, Some(screen)) => screen.suspend(|| {
                        // If it cannot stop, it goes on.
                        let _ = emulate_default_handler(SIGTSTP);
                    }),
                    _ if is_stopping => leave(screen.as_ref(), "ended in the middle of a pass"),
                    _ => {
                        is_stopping = true;
                        end(&agent, screen.as_ref());
                    }
                }
            }
        });
        thread.map(drop).context("cannot start a thread")
    }
}

/// Stops the agent, and limits the time until its end. Both use threads of their own, because this
/// one waits for the next signal.
fn end(agent: &Handle, screen: Option<&Waker>) {
    let (stopped, waited, screen) = (agent.clone(), agent.clone(), screen.cloned());
    if thread::Builder::new().spawn(move || stopped.stop()).is_err() {
        agent.stop();
    }
    let waiting = thread::Builder::new().spawn(move || {
        if !waited.wait_ended(STOP_TIMEOUT) {
            leave(screen.as_ref(), "a pass did not end in time, and was ended");
        }
    });
    if waiting.is_err() {
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

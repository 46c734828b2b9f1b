//! The thread that keeps a session alive.

use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use super::{Renewed, Session, is_cut_off};
use crate::{Error, ErrorKind};

/// A thread that renews a session, until this is dropped: three times in its time to live, with
/// jitter, and sooner after a failure. That another session has replaced it is found within twice
/// its time to live, or with the next export.
#[derive(Debug)]
pub struct Keeper {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// So often a renewal looks whether the session's key is still this session's.
const CHECKED: u32 = 6;

/// What happens to a session. It never means that something is to be deleted on this host.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SessionEvent {
    /// The lease had ended, and all exports were gone: they are made again.
    Restored {
        /// The exports that are made again.
        exported: usize,
        /// Those that are not.
        failed: usize,
    },
    /// The store is not reached.
    CutOff {
        /// Since when.
        since: SystemTime,
        /// Why.
        error: Error,
    },
    /// The store is reached again, and the lease has not ended.
    Reconnected,
    /// The lease was not renewed for another reason. It is tried again.
    Failed(Error),
    /// A newer session of the owner has replaced this one, or it was ended: nothing is renewed any
    /// more.
    Ended(Error),
}

impl Session {
    /// Starts the thread that keeps the session alive. `on_event` is called on it.
    ///
    /// # Errors
    ///
    /// When the operating system refuses a thread.
    pub fn keep(
        &self,
        on_event: impl FnMut(SessionEvent) + Send + 'static,
    ) -> Result<Keeper, Error> {
        let (stop, stopped) = mpsc::channel();
        let session = self.clone();
        let keep = move || session.keep_until(&stopped, on_event);
        let thread = thread::Builder::new().name("world-session".into());
        let thread = thread.spawn(keep).map_err(|error| {
            let message = format!("the session's thread does not start: {error}");
            Error::new(ErrorKind::Store, message).with_source(error)
        })?;
        Ok(Keeper {
            stop: Some(stop),
            thread: Some(thread),
        })
    }

    fn keep_until(&self, stopped: &mpsc::Receiver<()>, mut tell: impl FnMut(SessionEvent)) {
        let (mut is_reached, mut wait) = (true, self.interval());
        // Not the same for all hosts that started at once.
        let mut unchecked = fastrand::u32(..CHECKED);
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(wait) {
            wait = self.interval();
            unchecked += 1;
            let renewed = self.renew_and_check(unchecked >= CHECKED);
            unchecked = match &renewed {
                Ok(Renewed::Alive(_)) => unchecked % CHECKED,
                // Whatever it was, it may concern the key.
                _ => CHECKED,
            };
            match renewed {
                Ok(Renewed::Alive(_)) => {
                    if !is_reached {
                        tell(SessionEvent::Reconnected);
                    }
                    is_reached = true;
                }
                Ok(Renewed::Restored { exported, failed }) => {
                    is_reached = true;
                    tell(SessionEvent::Restored { exported, failed });
                }
                Err(error) if self.status().ended.is_some() => {
                    tell(SessionEvent::Ended(error));
                    return;
                }
                Err(error) => {
                    wait /= 2;
                    let since = self.status().cut_off_since;
                    match since.filter(|_| is_cut_off(&error)) {
                        Some(since) if is_reached => {
                            is_reached = false;
                            tell(SessionEvent::CutOff { since, error });
                        }
                        Some(_) => {}
                        None => tell(SessionEvent::Failed(error)),
                    }
                }
            }
        }
    }

    /// Between a quarter and a third of the time to live: hosts that were started at once do not
    /// renew at once.
    fn interval(&self) -> Duration {
        self.ttl().mul_f64(0.25 + fastrand::f64() / 12.0)
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            drop(thread.join());
        }
    }
}

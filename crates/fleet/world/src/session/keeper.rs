//! The thread that keeps a session alive.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::thread::{self, JoinHandle};
use std::time::{Duration, SystemTime};

use super::{Exported, Session, is_cut_off};
use crate::{Error, threads};

/// A thread that [keeps](Session::keep) a session alive, or [leads](Session::schedule) a scheduler
/// with it. It ends when this is dropped.
pub struct Keeper {
    stop: Option<Box<dyn FnOnce() + Send + Sync>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    pub(super) fn start(
        name: &str,
        work: impl FnOnce() + Send + 'static,
        stop: impl FnOnce() + Send + Sync + 'static,
    ) -> Result<Keeper, Error> {
        let thread = threads::start(name, work)?;
        Ok(Keeper { stop: Some(Box::new(stop)), thread: Some(thread) })
    }
}

/// The number of renewals for each check that the session's key is still this session's.
const CHECKED: u32 = 6;

/// An event of a session, or of a scheduler that it leads. No event requires a deletion on this
/// host.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SessionEvent {
    /// The lease had ended, and with it all exports. They are made again.
    Restored {
        /// The number of exports that were made again.
        exported: usize,
        /// The number of exports that failed.
        failed: usize,
    },
    /// The store is unreachable.
    CutOff {
        /// The start of the outage.
        since: SystemTime,
        /// The error that showed it.
        error: Error,
    },
    /// The lease is renewed again, and has not ended.
    Reconnected,
    /// This host leads a scheduler, and has chosen these hosts.
    Chosen(BTreeSet<String>),
    /// The lease was not renewed for another reason, or this host could not lead. It will retry.
    /// The event comes again only for a different reason.
    Failed(Error),
    /// A newer session of the owner has replaced this one, or it was ended. The lease is no longer
    /// renewed. For a scheduler, this host no longer leads, or the store denies the required
    /// access.
    Ended(Error),
}

impl Session {
    /// Starts a thread that keeps the session alive. It renews the lease three times in the time to
    /// live, with jitter, and sooner after a failure. If another session has replaced this one, it
    /// notices within twice the time to live, or with the next export. `on_event` runs on the
    /// thread.
    ///
    /// # Errors
    ///
    /// Fails if the operating system refuses a thread.
    pub fn keep(
        &self,
        on_event: impl FnMut(SessionEvent) + Send + 'static,
    ) -> Result<Keeper, Error> {
        let (stop, stopped) = mpsc::channel();
        let session = self.clone();
        Keeper::start(
            "world-session",
            move || session.keep_until(&stopped, on_event),
            move || drop::<Sender<()>>(stop),
        )
    }

    fn keep_until(&self, stopped: &mpsc::Receiver<()>, mut report: impl FnMut(SessionEvent)) {
        let (mut reported, mut wait) = (Reported::default(), self.interval());
        // Differs between hosts that started at once.
        let mut unchecked = fastrand::u32(..CHECKED);
        while let Err(RecvTimeoutError::Timeout) = stopped.recv_timeout(wait) {
            wait = self.interval();
            unchecked += 1;
            let renewed = self.renew_and_check(unchecked >= CHECKED);
            unchecked = match &renewed {
                Ok(None) => unchecked % CHECKED,
                // The cause may concern the key.
                _ => CHECKED,
            };
            let event = match renewed {
                Ok(renewed) => reported.renewed(renewed.as_ref()),
                Err(error) if self.status().ended.is_some() => {
                    report(SessionEvent::Ended(error));
                    return;
                }
                Err(error) => {
                    wait /= 2;
                    reported.failed(error, self.status().cut_off_since)
                }
            };
            event.into_iter().for_each(&mut report);
        }
    }

    /// Returns a time between a quarter and a third of the time to live. So hosts that started at
    /// once do not renew at once.
    pub(super) fn interval(&self) -> Duration {
        self.ttl().mul_f64(0.25 + fastrand::f64() / 12.0)
    }
}

/// The last report about a session. The same report is not repeated at each renewal.
#[derive(Debug, Default)]
struct Reported {
    is_cut_off: bool,
    /// The last failure of another kind.
    failure: Option<String>,
    /// The number of failed exports, if the last renewal made none of them.
    not_made: Option<usize>,
}

impl Reported {
    fn renewed(&mut self, restored: Option<&Exported>) -> Option<SessionEvent> {
        let before = std::mem::take(self);
        match restored {
            Some(restored) => {
                let failed = restored.failed();
                let exported = restored.outcomes.len() - failed;
                self.not_made = (exported == 0).then_some(failed);
                let is_new = self.not_made.is_none() || self.not_made != before.not_made;
                is_new.then_some(SessionEvent::Restored { exported, failed })
            }
            None => {
                (before.is_cut_off || before.failure.is_some()).then_some(SessionEvent::Reconnected)
            }
        }
    }

    fn failed(&mut self, error: Error, cut_off_since: Option<SystemTime>) -> Option<SessionEvent> {
        if let Some(since) = cut_off_since.filter(|_| is_cut_off(&error)) {
            let is_new = !std::mem::replace(&mut self.is_cut_off, true);
            return is_new.then_some(SessionEvent::CutOff { since, error });
        }
        let failure = Some(error.to_string());
        let is_new = self.failure != failure;
        self.failure = failure;
        is_new.then_some(SessionEvent::Failed(error))
    }
}

impl fmt::Debug for Keeper {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keeper(..)")
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        if let Some(stop) = self.stop.take() {
            stop();
        }
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            drop(thread.join());
        }
    }
}

#[cfg(test)]
#[path = "../../tests/unit/keeper.rs"]
mod tests;

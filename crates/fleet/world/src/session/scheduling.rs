//! Schedulers of a session: the host's offers, which end with its lease, and the lead of a
//! scheduler.

use std::time::Duration;

use super::keeper::{Keeper, SessionEvent};
use super::{ATTEMPTS, Session, State, lock};
use crate::threads::{Running, Stopped};
use crate::watch::Event;
use crate::world::{fence, write};
use crate::{Error, ErrorKind, Schedule, Watch, WatchConfig};

/// The time between two tries after a failure, while nothing changes.
const RETRY: Duration = Duration::from_secs(1);

impl Session {
    /// Leads a scheduler with this session, while no other host does. A [`Keeper`](super::Keeper)
    /// must keep the session alive. `on_event` runs on the thread that this starts.
    ///
    /// # Errors
    ///
    /// Fails if the operating system refuses a thread.
    pub fn schedule(
        &self,
        scheduler: &str,
        schedule: Schedule,
        config: WatchConfig,
        on_event: impl FnMut(SessionEvent) + Send + 'static,
    ) -> Result<Keeper, Error> {
        let watch = self.world().watch_schedule(scheduler, config)?;
        let stopper = watch.stopper();
        let running = Running::default();
        let (session, scheduler, stopped) = (self.clone(), scheduler.to_owned(), running.stopped());
        Keeper::start(
            "world-schedule",
            move || session.lead_until(&stopped, &scheduler, schedule, watch, on_event),
            move || {
                drop(running);
                stopper.stop();
            },
        )
    }

    fn lead_until(
        &self,
        stopped: &Stopped,
        scheduler: &str,
        schedule: Schedule,
        mut watch: Watch<Option<String>, ()>,
        mut report: impl FnMut(SessionEvent),
    ) {
        let mut failure: Option<String> = None;
        loop {
            let wait = failure.as_ref().map_or_else(|| self.interval(), |_| RETRY);
            let ended = match watch.next(wait) {
                // The known state still holds.
                Ok(Some(Event::Interrupted { .. })) => continue,
                Ok(_) => None,
                Err(error) => Some(error),
            };
            if stopped.get() {
                return;
            }
            if let Some(error) = ended.or_else(|| self.status().ended) {
                report(SessionEvent::Ended(error));
                return;
            }
            let led = self.lead(scheduler, schedule).and_then(|is_changed| {
                is_changed.unwrap_or(false).then(|| self.world().choice(scheduler)).transpose()
            });
            match led {
                Ok(choice) => {
                    failure = None;
                    choice.flatten().map(SessionEvent::Chosen).into_iter().for_each(&mut report);
                }
                Err(error) => {
                    let why = Some(error.to_string());
                    if failure != why {
                        report(SessionEvent::Failed(error));
                        failure = why;
                    }
                }
            }
        }
    }

    pub(crate) fn set_offer(&self, scheduler: &str, is_offered: bool) -> Result<(), Error> {
        let mut state = lock(&self.0.state);
        if is_offered {
            state.offers.insert(scheduler.to_owned());
        } else {
            state.offers.remove(scheduler);
        }
        let result = self.write_offer(&state, scheduler);
        if result.as_ref().is_err_and(Error::is_retryable) {
            self.set_behind();
        }
        result
    }

    /// Writes all offers. If all exports are declared, withdraws an earlier session's offers.
    pub(super) fn sync_offers(&self, state: &State) -> Result<(), Error> {
        let world = &self.0.world;
        let mut schedulers = state.offers.clone();
        if state.is_declared {
            let prefix = world.keys.below_host(world.host(), "offers");
            for entry in world.store.read(&prefix, None)?.1 {
                if let Ok((_, _, Some(scheduler))) = world.keys.parse_host(&entry.key) {
                    schedulers.insert(scheduler);
                }
            }
        }
        schedulers.iter().try_for_each(|it| self.write_offer(state, it))
    }

    fn write_offer(&self, state: &State, scheduler: &str) -> Result<(), Error> {
        let world = &self.0.world;
        let key = world.keys.named_of_host(world.host(), "offers", scheduler);
        for _ in 0..ATTEMPTS {
            if let Some(ended) = lock(&self.0.status).ended.clone() {
                return Err(ended);
            }
            let entry = world.entry(&key)?;
            let lease = self.lease();
            let value = state.offers.contains(scheduler).then(Vec::new);
            let is_same = match &entry {
                Some(entry) => value.is_some() && entry.lease == Some(lease),
                None => value.is_none(),
            };
            if is_same {
                return Ok(());
            }
            let compares = [self.fence(), fence(&key, entry.as_ref())];
            match world.store.commit(&compares, &[write(&key, value, Some(lease))]) {
                Ok(Some(_)) => return Ok(()),
                Ok(None) if self.stale()?.kind() == ErrorKind::Conflict => {}
                Ok(None) => self.acquire_again()?,
                Err(error) => match error.kind() {
                    ErrorKind::Indeterminate => {}
                    ErrorKind::LeaseEnded => self.acquire_again()?,
                    _ => return Err(error),
                },
            }
        }
        Err(self.changes_all_the_time())
    }
}

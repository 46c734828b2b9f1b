//! Leading a scheduler as long as a session lives.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use super::Session;
use crate::watch::{Event, Stopper};
use crate::{Change, Choice, Error, ErrorKind, Schedule, WatchConfig};

/// A thread that leads a scheduler while no other host does, until this is dropped. It chooses
/// whenever the offers change, and takes over at once when the leader is lost.
#[derive(Debug)]
pub struct Scheduling {
    stopper: Stopper,
    is_stopped: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// What happens to a scheduler that this host leads, or may lead.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SchedulingEvent {
    /// This host has chosen anew.
    Chosen(Choice),
    /// It could not lead. It is tried again, and reported again once the reason is another one.
    Failed(Error),
    /// It leads no more: the session has ended, or the store denies what it takes.
    Ended(Error),
}

/// How often it is tried again after a failure, while nothing changes.
const RETRY: Duration = Duration::from_secs(1);

impl Session {
    /// Leads a scheduler with this session, while no other host does. A [`Keeper`](super::Keeper)
    /// has to keep the session alive. `on_event` is called on the thread that is started here.
    ///
    /// # Errors
    ///
    /// When the operating system refuses a thread.
    pub fn schedule(
        &self,
        scheduler: &str,
        schedule: Schedule,
        config: WatchConfig,
        mut on_event: impl FnMut(SchedulingEvent) + Send + 'static,
    ) -> Result<Scheduling, Error> {
        let mut watch = self.world().watch_schedule(scheduler, config)?;
        let stopper = watch.stopper();
        let is_stopped = Arc::new(AtomicBool::new(false));
        let (session, scheduler) = (self.clone(), scheduler.to_owned());
        let has_stopped = Arc::clone(&is_stopped);
        let lead = move || {
            let mut failure: Option<String> = None;
            loop {
                let wait = match failure {
                    Some(_) => RETRY,
                    None => session.interval(),
                };
                let ended = match watch.next(wait) {
                    // What was known still holds.
                    Ok(Some(Event::Interrupted { .. })) => continue,
                    Ok(_) => None,
                    Err(error) => Some(error),
                };
                if has_stopped.load(Ordering::SeqCst) {
                    return;
                }
                let ended = ended.or_else(|| session.status().ended);
                if let Some(error) = ended {
                    on_event(SchedulingEvent::Ended(error));
                    return;
                }
                let led = session.lead(&scheduler, schedule).and_then(|change| {
                    let is_changed = change == Some(Change::Changed);
                    is_changed.then(|| session.world().choice(&scheduler)).transpose()
                });
                match led {
                    Ok(choice) => {
                        failure = None;
                        let choice = choice.flatten();
                        choice.into_iter().for_each(|it| on_event(SchedulingEvent::Chosen(it)));
                    }
                    Err(error) => {
                        let why = Some(error.to_string());
                        if failure != why {
                            on_event(SchedulingEvent::Failed(error));
                            failure = why;
                        }
                    }
                }
            }
        };
        let thread = thread::Builder::new().name("world-schedule".into());
        let thread = thread.spawn(lead).map_err(|error| {
            let message = format!("the scheduler's thread does not start: {error}");
            Error::new(ErrorKind::Store, message).with_source(error)
        })?;
        Ok(Scheduling { stopper, is_stopped, thread: Some(thread) })
    }
}

impl Drop for Scheduling {
    fn drop(&mut self) {
        self.is_stopped.store(true, Ordering::SeqCst);
        self.stopper.stop();
        if let Some(thread) = self.thread.take()
            && thread.thread().id() != thread::current().id()
        {
            drop(thread.join());
        }
    }
}

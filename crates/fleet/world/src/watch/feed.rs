//! The thread that keeps a copy of one prefix. It lists at a revision, watches from there, resumes,
//! and lists again if it cannot resume.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use super::mirror::{Entries, Mirror};
use crate::session::is_cut_off;
use crate::threads::Stopped;
use crate::{Entry, Error, ErrorKind, Limits, Revision, Store, StoreEvent, StoreWatch};

/// The settings of a watch: its comparisons, its retries, and its limits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct WatchConfig {
    /// The interval of full comparisons with the store, which has been seen to skip an event
    /// without an error. 10 minutes by default, with jitter.
    pub full_interval: Duration,
    /// The longest time between two attempts to connect. 5 seconds by default. The first times are
    /// shorter, and all have jitter. The first list comes at a random time within a twentieth of
    /// this, so that hosts with the same start do not list at once.
    pub max_backoff: Duration,
    /// The limits of the copy. If the store has more, the watch is
    /// [interrupted](super::Event::Interrupted) and its copy stays as it was. The watch lists again
    /// after twelve times the longest backoff.
    pub limits: Limits,
}

impl Default for WatchConfig {
    fn default() -> WatchConfig {
        WatchConfig {
            full_interval: Duration::from_secs(600),
            max_backoff: Duration::from_secs(5),
            limits: Limits::default(),
        }
    }
}

pub(super) struct Feed {
    pub(super) store: Arc<dyn Store>,
    pub(super) mirror: Arc<Mirror>,
    pub(super) prefix: Vec<u8>,
    /// The position among the mirror's prefixes.
    pub(super) index: usize,
    pub(super) config: WatchConfig,
    pub(super) stopped: Stopped,
}

/// The time after which a quiet watch checks if it is stopped.
const SLICE: Duration = Duration::from_millis(500);

const FIRST_BACKOFF: Duration = Duration::from_millis(50);

/// The pause after a list that exceeds the limits, in multiples of the longest backoff. The next
/// list costs as much.
const TOO_LARGE_PAUSE: u32 = 12;

/// The schedule of progress requests to the store, while a revision is wanted.
struct Question {
    due: Instant,
    /// The pause after the next request. It doubles until there is progress.
    pause: Duration,
}

/// A store may confirm its own answer only after another one, a second later.
const FIRST_PAUSE: Duration = Duration::from_millis(1100);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

impl Question {
    fn new() -> Question {
        Question { due: Instant::now(), pause: FIRST_PAUSE }
    }

    /// Returns how long to wait for an event before the next request may be due.
    fn wait(&self) -> Duration {
        match self.due.saturating_duration_since(Instant::now()) {
            Duration::ZERO => SLICE,
            left => left.min(SLICE),
        }
    }

    /// Returns true if a request is due now.
    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let is_due = now >= self.due;
        if is_due {
            self.due = now + self.pause;
            self.pause = (2 * self.pause).min(LONGEST_PAUSE);
        }
        is_due
    }
}

impl Feed {
    /// Runs until it is stopped, or until a permanent error.
    pub(super) fn run(self) {
        let mut position = None;
        let mut backoff = self.first_backoff();
        self.sleep(self.spread());
        while !self.stopped.get() {
            let Err(error) = self.connect(&mut position, &mut backoff) else {
                return;
            };
            let kind = error.kind();
            let is_passing = is_cut_off(&error) || error.is_retryable();
            if !is_passing {
                return self.mirror.end(error);
            }
            // The known state stays until the new list can be compared with it.
            if matches!(kind, ErrorKind::Compacted | ErrorKind::TooLarge) {
                position = None;
            }
            // A compaction is not reported, unless it happens again and again.
            if kind != ErrorKind::Compacted || backoff > self.first_backoff() {
                self.mirror.interrupt(self.index, SystemTime::now(), error);
            }
            let pause = match kind {
                ErrorKind::TooLarge => self.config.max_backoff.saturating_mul(TOO_LARGE_PAUSE),
                _ => backoff,
            };
            // If a member ends, the watches of all its hosts begin again at once.
            let jitter = pause.mul_f64(fastrand::f64()).max(self.spread());
            self.sleep(pause / 2 + jitter / 2);
            backoff = (backoff * 2).min(self.config.max_backoff);
        }
    }

    fn first_backoff(&self) -> Duration {
        FIRST_BACKOFF.min(self.config.max_backoff)
    }

    /// Returns a random time that spreads simultaneous requests of many hosts.
    fn spread(&self) -> Duration {
        (self.config.max_backoff / 20).mul_f64(fastrand::f64())
    }

    fn sleep(&self, time: Duration) {
        let end = Instant::now() + time;
        while !self.stopped.get() {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            std::thread::sleep(left.min(SLICE));
        }
    }

    /// If there is no position, lists. Then watches from there until an error or a stop.
    fn connect(
        &self,
        position: &mut Option<Revision>,
        backoff: &mut Duration,
    ) -> Result<(), Error> {
        let mut after = match *position {
            Some(after) => after,
            None => self.list(position)?,
        };
        let mut watch = self.store.watch(&self.prefix, after)?;
        let begun = Instant::now();
        let mut next_full = self.next_full();
        let mut question = Question::new();
        while !self.stopped.get() {
            after = self.next(&mut *watch, after, &mut question)?;
            *position = Some(after);
            // A store that ends each watch soon is asked less and less often.
            if begun.elapsed() >= self.config.max_backoff {
                *backoff = self.first_backoff();
            }
            if Instant::now() >= next_full {
                self.compare(after)?;
                next_full = self.next_full();
            }
        }
        Ok(())
    }

    /// Waits for an event. Returns the revision up to which the prefix has been watched.
    fn next(
        &self,
        watch: &mut dyn StoreWatch,
        after: Revision,
        question: &mut Question,
    ) -> Result<Revision, Error> {
        match watch.next(question.wait())? {
            Some(StoreEvent::Changes { revision, changes }) => {
                // Never back: an event that was delivered before a reconnect is not delivered
                // again.
                if revision > after {
                    self.mirror.change(self.index, revision, changes)?;
                }
                Ok(revision.max(after))
            }
            Some(StoreEvent::Progress(revision)) => {
                let newest = revision.max(after);
                self.mirror.progress(self.index, newest);
                *question = Question::new();
                Ok(newest)
            }
            None => {
                // Another prefix has a mark of this revision. Is an earlier change missing here?
                if self.mirror.wanted() > after && question.is_due() {
                    watch.request_progress()?;
                }
                Ok(after)
            }
        }
    }

    fn list(&self, position: &mut Option<Revision>) -> Result<Revision, Error> {
        let (revision, list) = self.store.read(&self.prefix, None)?;
        self.mirror.list(self.index, revision, entries(list))?;
        *position = Some(revision);
        Ok(revision)
    }

    fn next_full(&self) -> Instant {
        let jitter = 0.75 + fastrand::f64() / 2.0;
        Instant::now() + self.config.full_interval.mul_f64(jitter)
    }

    /// Compares the copy with the store, at exactly the revision that has been watched up to. If
    /// that is compacted, as after a long quiet time, the error leads to a new list, which compares
    /// as well.
    fn compare(&self, at: Revision) -> Result<(), Error> {
        let (_, list) = self.store.read(&self.prefix, Some(at))?;
        self.mirror.compare(self.index, at, entries(list))
    }
}

fn entries(entries: Vec<Entry>) -> Entries {
    entries.into_iter().map(|it| (it.key.clone(), Arc::new(it))).collect()
}

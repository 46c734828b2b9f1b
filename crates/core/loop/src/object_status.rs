//! The objects' statuses, and their changes as a stream.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use futures_core::Stream;
use trueup_reconcile::{OpKey, Status};

use crate::board::Board;
use crate::sync::{WakerId, after, now};
use crate::{Error, ErrorKind, Revision};

/// The status of an object that is not simply in place.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ObjectStatus {
    /// The object's key, the same in each pass; the status has its kind and name in words.
    pub key: OpKey,
    /// The object's condition, with its reason.
    pub status: Arc<Status>,
    /// The time since which the object has had a status, though not always this one.
    pub since: SystemTime,
    /// The number of failed tries since its op last succeeded; 0 if the op was not tried.
    pub tries: u32,
    /// The latest time of the op's next try; `None` if it waits for something other than time.
    pub next_try: Option<Instant>,
}

/// The result for the objects that a revision changed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tried {
    /// The revision that the caller asked about.
    pub revision: Revision,
    /// The objects that the revision changed, each with its current status, if it has one. `None`
    /// if the source does not know the objects, as after a new desired state or many changes:
    /// [`Handle::exceptions`](crate::Handle::exceptions) returns all objects with a status.
    pub objects: Option<Vec<(OpKey, Option<ObjectStatus>)>>,
    is_in_place: bool,
}

impl Tried {
    pub(crate) fn of(revision: Revision, objects: Vec<(OpKey, Option<ObjectStatus>)>) -> Tried {
        Tried {
            revision,
            is_in_place: objects.iter().all(|(_, status)| status.is_none()),
            objects: Some(objects),
        }
    }

    pub(crate) fn of_unknown(revision: Revision, is_in_place: bool) -> Tried {
        Tried { revision, objects: None, is_in_place }
    }

    /// True if each object is in place, or gone if no longer desired. If the objects are not known:
    /// true if the whole desired state has converged.
    pub fn is_in_place(&self) -> bool {
        self.is_in_place
    }
}

/// A change of an object's status.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// An object has a new status.
    Changed {
        /// The object's key, the same in each pass; the status has its kind and name in words.
        key: OpKey,
        /// The new status.
        status: Arc<Status>,
    },
    /// An object no longer has a status: it is in place, or neither present nor desired.
    Cleared {
        /// The object's key, the same in each pass; the status has its kind and name in words.
        key: OpKey,
        /// The former status.
        status: Arc<Status>,
    },
    /// The reader was too slow and lost these events. [`Handle::exceptions`] returns the current
    /// statuses.
    ///
    /// [`Handle::exceptions`]: crate::Handle::exceptions
    Lost {
        /// The number of lost events.
        count: u64,
    },
}

/// The changes of statuses from some moment on, for one reader. A slow reader does not delay the
/// loop: the last 4,096 changes are kept for all readers, and a slower one learns how many it has
/// lost.
///
/// It ends once the loop has ended and all events are read. As a [`Stream`] it needs no runtime.
pub struct Events {
    board: Arc<Board>,
    /// The next event's number.
    next: u64,
    waker: WakerId,
}

impl Events {
    pub(crate) fn new(board: Arc<Board>) -> Events {
        let next = board.locked.with(|it| it.end_of_events());
        let waker = WakerId::default();
        Events { board, next, waker }
    }

    /// Returns the next event; `None` if there is none yet.
    pub fn try_next(&mut self) -> Option<Event> {
        let (event, next) = self.board.locked.with(|it| it.event(self.next))?;
        self.next = next;
        Some(event)
    }

    /// Waits for the next event, at most for `timeout`.
    ///
    /// # Errors
    ///
    /// [`Timeout`](ErrorKind::Timeout); [`Ended`](ErrorKind::Ended).
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Event, Error> {
        let answer = self.board.locked.wait(after(now(), timeout), |it| it.next(self.next));
        match answer {
            Some(Some((event, next))) => {
                self.next = next;
                Ok(event)
            }
            Some(None) => Err(Error::new(ErrorKind::Ended)),
            None => Err(Error::new(ErrorKind::Timeout)),
        }
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let this = self.get_mut();
        let polled = this.board.locked.poll(&mut this.waker, context, |it| it.next(this.next));
        polled.map(|answer| {
            let (event, next) = answer?;
            this.next = next;
            Some(event)
        })
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        self.board.locked.forget(&self.waker);
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("next", &self.next).finish_non_exhaustive()
    }
}

//! The statuses of objects, and their changes as a stream.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant, SystemTime};

use futures_core::Stream;
use trueup_reconcile::{OpKey, Status};

use crate::board::{Board, WakerId};
use crate::sync::{after, now, wait_while};
use crate::{Error, ErrorKind, Revision};

/// The status of an object that is not simply in place.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct ObjectStatus {
    /// The key of the object.
    pub key: OpKey,
    /// What is the matter with it.
    pub status: Arc<Status>,
    /// When it came to have a status, whichever that was.
    pub since: SystemTime,
    /// How often its op has failed since it last succeeded; 0 if it was not tried.
    pub tries: u32,
    /// When its op is tried again at the latest; `None` if it waits for something else.
    pub next_try: Option<Instant>,
}

/// What became of the objects that a revision changed.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Tried {
    /// The revision.
    pub revision: Revision,
    /// The objects that the revision changed, each with its status now, if it has one. `None` if the
    /// source does not know which these are, as of a new desired state or of many changes:
    /// [`Handle::exceptions`](crate::Handle::exceptions) has all that have a status.
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

    /// True if each of the objects is in place, or gone if it is not desired any more. If it is not
    /// known which these are: if the whole desired state has converged.
    pub fn is_in_place(&self) -> bool {
        self.is_in_place
    }
}

/// A change of a status.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// An object has this status now.
    Changed {
        /// The key of the object.
        key: OpKey,
        /// Its status.
        status: Arc<Status>,
    },
    /// An object has no status any more: it is in place, or neither there nor desired.
    Cleared {
        /// The key of the object.
        key: OpKey,
        /// The status that it had.
        status: Arc<Status>,
    },
    /// The reader was too slow: these events are lost. [`Handle::exceptions`] has what is now.
    ///
    /// [`Handle::exceptions`]: crate::Handle::exceptions
    Lost {
        /// Their number.
        count: u64,
    },
}

/// The changes of statuses from some moment on, for one reader. It keeps the loop from nothing: the
/// last 4,096 changes are kept for all readers, and a slower one learns how many it has lost.
///
/// It ends once the loop has ended, and all events are read. As a [`Stream`] it needs no runtime.
pub struct Events {
    board: Arc<Board>,
    /// The number of the next event.
    next: u64,
    waker: WakerId,
}

impl Events {
    pub(crate) fn new(board: Arc<Board>) -> Events {
        let next = board.lock().end_of_events();
        let waker = WakerId::default();
        Events { board, next, waker }
    }

    /// Returns the next event, if there is one now.
    pub fn try_next(&mut self) -> Option<Event> {
        let (event, next) = self.board.lock().event(self.next)?;
        self.next = next;
        Some(event)
    }

    /// Waits for the next event.
    ///
    /// # Errors
    ///
    /// [`Timeout`](ErrorKind::Timeout); [`Ended`](ErrorKind::Ended).
    pub fn next_timeout(&mut self, timeout: Duration) -> Result<Event, Error> {
        let next = self.next;
        let locked = self.board.lock();
        let locked = wait_while(&self.board.news, locked, after(now(), timeout), |locked| {
            locked.event(next).is_none() && !locked.has_ended
        });
        match locked.event(next) {
            Some((event, next)) => {
                self.next = next;
                Ok(event)
            }
            None if locked.has_ended => Err(Error::new(ErrorKind::Ended)),
            None => Err(Error::new(ErrorKind::Timeout)),
        }
    }
}

impl Stream for Events {
    type Item = Event;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Event>> {
        let this = self.get_mut();
        let mut locked = this.board.lock();
        match locked.event(this.next) {
            Some((event, next)) => {
                this.next = next;
                Poll::Ready(Some(event))
            }
            None if locked.has_ended => Poll::Ready(None),
            None => {
                locked.wake(&mut this.waker, context.waker());
                Poll::Pending
            }
        }
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        let waker = self.board.lock().forget(&self.waker);
        // After the lock: it may own anything.
        drop(waker);
    }
}

impl fmt::Debug for Events {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Events").field("next", &self.next).finish_non_exhaustive()
    }
}

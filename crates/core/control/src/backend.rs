//! The backend: an API that observes objects, and starts actions that take a while.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use trueup_reconcile::{Drained, ErrorClass, Hints, Subscribed};

use crate::{Action, Error, ErrorKind, Object, Objects};

/// An API with tasks.
///
/// Its methods are called from several threads at once, and bound their own waits. A panic in one
/// counts as no answer. `start`, `task` and `find` of the objects of one [`lane`](Self::lane) are
/// called one at a time; `observe`, `is_benign` and `cancel` at any time.
pub trait Backend: Send + Sync + 'static {
    /// Returns all objects that there are, and which ones could not be read.
    ///
    /// - An object that could not be read belongs into [`Observed::unread`]: nothing is done to it,
    ///   and everything else goes on. Asking an object that does not answer holds up the pass, so
    ///   ask objects in parallel, or wait less for one that did not answer the last time.
    /// - An object that is in neither counts as not there. If this agent created it, its ownership
    ///   ends at once: it is foreign when it comes back, and is not destroyed any more. So never
    ///   leave out an object that is gone for a moment only, such as while it migrates or restarts,
    ///   or because a list does not show yet what was just created: return it as unread, or as it
    ///   is to come back.
    ///
    /// # Errors
    ///
    /// When it is not known which objects there are: nothing is done in that pass.
    fn observe(&self) -> Result<Observed, Error>;

    /// Returns the lane of the object with this key: actions on the objects of one lane are started
    /// one at a time, in the order of their keys. By default each object has its own. Let a guest
    /// and its disks share one if the backend cannot change them at the same time.
    ///
    /// The answer for a key is always the same.
    fn lane(&self, key: &str) -> String {
        key.to_owned()
    }

    /// Subscribes for hints that objects may have changed, or tasks ended, as
    /// [`Source::subscribe`](trueup_reconcile::Source::subscribe): they make a pass begin before
    /// the driver's timer does. By default there are none.
    fn subscribe(&self, _hints: Hints) -> Subscribed<Box<dyn Subscription>, Error> {
        Subscribed::Unsupported
    }

    /// Returns true if an action loses no data and stops no service; `observed` is its object. What
    /// is not known is not benign: it is destructive, and needs an approval.
    fn is_benign(&self, _action: &Action, _observed: Option<&Object>) -> bool {
        false
    }

    /// Starts an action. `request` names this one request: a backend that takes idempotency keys or
    /// labels of tasks gets it as such. It has at most 64 characters of `a-z0-9-`.
    fn start(&self, action: &Action, request: &str) -> Started;

    /// Returns how far a task is.
    ///
    /// # Errors
    ///
    /// When the backend did not answer: the task then counts as running.
    fn task(&self, task: &str) -> Result<Task, Error>;

    /// Asks for the end of a task. What became of it is asked of the task.
    ///
    /// # Errors
    ///
    /// When the backend did not answer, refused, or cannot cancel.
    fn cancel(&self, _task: &str) -> Result<(), Error> {
        let message = "the backend cannot cancel tasks";
        Err(Error::new(ErrorKind::Backend, message))
    }

    /// Returns what became of a request whose answer was lost. It is asked after a crash too.
    ///
    /// By default the backend does not say. Then the object is compared with the action: a request
    /// of which that shows nothing is in doubt, and the operator decides. So look `request` up,
    /// if the backend keeps requests, or labels tasks by them.
    ///
    /// # Errors
    ///
    /// When the backend did not answer: it is asked again in the next pass.
    fn find(&self, _request: &str) -> Result<Found, Error> {
        Ok(Found::NotSaid)
    }
}

/// A subscription of a backend or a [`Provider`](crate::Provider), which ends when it is dropped.
///
/// It either has a thread of its own and calls [`Hints::request_pass`], or it has a descriptor,
/// which the driver polls on its own thread beside its timer. `()` is the subscription of what only
/// calls `request_pass`.
pub trait Subscription: Send {
    /// Returns a descriptor that is readable while events wait.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Reads all events that wait, without blocking. The driver calls it when the descriptor is
    /// readable.
    ///
    /// # Errors
    ///
    /// When no more events will come. The driver drops the subscription, and subscribes again
    /// later.
    fn drain(&mut self) -> Result<Drained, Error> {
        Ok(Drained::Nothing)
    }
}

impl Subscription for () {}

/// The objects of a backend, as far as they could be read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Observed {
    /// The objects that were read.
    pub objects: Objects,
    /// What could not be read, with the reason: keys of objects, or lanes, which stand for all of
    /// their objects. What is here and in `objects` counts as not read.
    pub unread: BTreeMap<String, String>,
}

impl Observed {
    /// Makes an observation in which everything was read.
    pub fn new(objects: Objects) -> Observed {
        Observed { objects, unread: BTreeMap::new() }
    }

    /// Adds an object, or a lane, that could not be read, with the reason.
    #[must_use]
    pub fn with_unread(mut self, key: impl Into<String>, why: impl Into<String>) -> Observed {
        self.unread.insert(key.into(), why.into());
        self
    }
}

impl From<Objects> for Observed {
    fn from(objects: Objects) -> Observed {
        Observed::new(objects)
    }
}

/// The answer to a request that starts an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Started {
    /// It is done.
    Done,
    /// A task does it, with this id. An empty one says that it is done, and one of more than 4096
    /// bytes counts as a lost answer.
    Task(String),
    /// It was refused: there is no effect, and there will be none.
    Refused {
        /// The class of the refusal, which says when it is tried again.
        class: ErrorClass,
        /// The backend's words for it.
        message: String,
    },
    /// It is not known: the answer was lost, came too late (such as Proxmox's 596), or says
    /// nothing.
    Indeterminate {
        /// What is known.
        message: String,
    },
}

/// The state of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// It runs.
    Running {
        /// How far it is, in the backend's words: `40 %`.
        progress: Option<String>,
    },
    /// It took effect.
    Succeeded,
    /// It failed, for this reason: it did not do what it was for.
    Failed(String),
    /// The backend does not know it (any more).
    Unknown,
}

/// What became of a request whose answer was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// It took effect.
    Done,
    /// A task does it, or did, with this id.
    Task(String),
    /// It never arrived, and never will.
    Never,
    /// It is not known, and may be made again: the backend's actions are idempotent, and a request
    /// finds what an earlier one did. If the object shows its whole effect, it took effect.
    Repeatable,
    /// The backend does not say.
    NotSaid,
}

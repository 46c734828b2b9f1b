//! The trait of a backend: an API that observes objects and starts actions, which may take a while.

use std::collections::BTreeMap;
use std::os::fd::BorrowedFd;

use trueup_reconcile::{Drained, ErrorClass, Hints, Subscribed};

use crate::{Action, Error, ErrorKind, Object, Objects};

/// An API with tasks.
///
/// Several threads call its methods at once. The methods must limit their own waits, and a panic
/// counts as no answer. Calls of `start`, `task` and `find` for the objects of one
/// [`lane`](Self::lane) come one at a time; calls of `observe`, `is_benign` and `cancel` come at
/// any time.
pub trait Backend: Send + Sync + 'static {
    /// Returns all existing objects, and the ones that could not be read.
    ///
    /// - Put an object that could not be read into [`Observed::unread`]: the engine leaves it alone
    ///   and continues with the others. A silent object delays the pass, so ask objects in
    ///   parallel, or wait less for one that was silent the last time.
    /// - An object in neither list counts as gone. If this agent created it, the agent's ownership
    ///   ends at once: when the object comes back, it is foreign, and is not destroyed. So never
    ///   leave out an object that is gone for a moment only, because it migrates or restarts, or
    ///   because a list does not show it yet after its creation. Return such an object as unread,
    ///   or in its coming state.
    ///
    /// # Errors
    ///
    /// The set of objects is not known: that pass does nothing.
    fn observe(&self) -> Result<Observed, Error>;

    /// Returns the lane of the object with this key. Actions on the objects of one lane start one
    /// at a time, in the order of their keys. By default, each object has its own lane. If the
    /// backend cannot change a guest and its disks at the same time, put them into one lane.
    ///
    /// The answer for a key must never change.
    fn lane(&self, key: &str) -> String {
        key.to_owned()
    }

    /// Subscribes for hints that objects may have changed or tasks may have ended, like
    /// [`Source::subscribe`](trueup_reconcile::Source::subscribe). A hint makes a pass begin before
    /// the driver's timer does. By default there are none.
    fn subscribe(&self, _hints: Hints) -> Subscribed<Box<dyn Subscription>, Error> {
        Subscribed::Unsupported
    }

    /// Returns true if an action loses no data and stops no service; `observed` is the action's
    /// object. Unclassified actions count as destructive, and need an approval.
    fn is_benign(&self, _action: &Action, _observed: Option<&Object>) -> bool {
        false
    }

    /// Starts an action. `request` names this one request, for backends that take idempotency keys
    /// or labels of tasks. It has at most 64 characters of `a-z0-9-`.
    fn start(&self, action: &Action, request: &str) -> Started;

    /// Returns the state of a task that [`start`](Self::start) began, by the id that the backend
    /// gave it.
    ///
    /// # Errors
    ///
    /// The backend did not answer: the task then counts as running.
    fn task(&self, task: &str) -> Result<Task, Error>;

    /// Asks the backend to end a task. The engine learns the result from [`task`](Self::task).
    ///
    /// # Errors
    ///
    /// The backend did not answer, refused, or cannot cancel.
    fn cancel(&self, _task: &str) -> Result<(), Error> {
        let message = "the backend cannot cancel tasks";
        Err(Error::new(ErrorKind::Backend, message))
    }

    /// Returns the result of a request whose answer was lost, perhaps in a crash.
    ///
    /// By default the backend gives no answer. The engine then compares the object with the action.
    /// If the object does not show a result, the request is in doubt, and the operator decides. So
    /// look `request` up if the backend keeps requests, or labels tasks by them.
    ///
    /// # Errors
    ///
    /// The backend did not answer: the next pass asks again.
    fn find(&self, _request: &str) -> Result<Found, Error> {
        Ok(Found::NotSaid)
    }
}

/// A subscription of a backend or a [`Provider`](crate::Provider), which ends when it is dropped.
///
/// It either has its own thread and calls [`Hints::request_pass`], or it has a descriptor, which
/// the driver polls on the driver's thread. `()` is a subscription that only calls `request_pass`.
pub trait Subscription: Send {
    /// Returns a descriptor that is readable while events wait; `None` by default.
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Reads all waiting events without blocking. The driver calls it when the descriptor is
    /// readable.
    ///
    /// # Errors
    ///
    /// No more events will come. The driver drops the subscription, and subscribes again later.
    fn drain(&mut self) -> Result<Drained, Error> {
        Ok(Drained::Nothing)
    }
}

impl Subscription for () {}

/// A backend's objects, as far as they could be read.
///
/// ```
/// use trueup_control::{Object, Objects, Observed};
///
/// let objects = Objects::from([("vm7".to_owned(), Object::new())]);
/// let observed = Observed::new(objects).with_unread("vm8", "no answer in 5 s");
/// assert!(observed.unread.contains_key("vm8")); // the engine leaves it alone
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Observed {
    /// The objects that were read, by key.
    pub objects: Objects,
    /// The keys of objects that could not be read, each with the reason. A lane stands for all of
    /// its objects. A key here overrides the same key in `objects`.
    pub unread: BTreeMap<String, String>,
}

impl Observed {
    /// Creates an observation in which everything was read.
    pub fn new(objects: Objects) -> Observed {
        Observed { objects, unread: BTreeMap::new() }
    }

    /// Adds an object or a lane that could not be read, with the reason.
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

/// The backend's answer to [`Backend::start`]: done, in progress, refused, or lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Started {
    /// The action is complete.
    Done,
    /// A task with this id carries it out. An empty id means done; an id of more than 4096 bytes
    /// counts as a lost answer.
    Task(String),
    /// The backend refused it: it has no effect, now or later.
    Refused {
        /// The refusal's class, which determines the next try.
        class: ErrorClass,
        /// The reason, in the backend's words.
        message: String,
    },
    /// The result is not known: the answer was lost, came too late (such as Proxmox's 596), or is
    /// unclear.
    Indeterminate {
        /// The known facts, for the operator.
        message: String,
    },
}

/// A task's state, as [`Backend::task`] returns it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Task {
    /// The task has not ended.
    Running {
        /// The progress, in the backend's words, such as `40 %`; `None` if not known.
        progress: Option<String>,
    },
    /// The task took effect.
    Succeeded,
    /// The task failed for this reason, and did not achieve its purpose.
    Failed(String),
    /// The backend does not know the task, or no longer.
    Unknown,
}

/// The result of a request whose answer was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// The request took effect.
    Done,
    /// A task with this id carries it out, or did.
    Task(String),
    /// The request never arrived, and never will.
    Never,
    /// The backend does not know, but the request may be repeated: the backend's actions are
    /// idempotent, and a request finds the effect of an earlier one. If the object shows its whole
    /// effect, it took effect.
    Repeatable,
    /// The backend keeps no requests, so it cannot answer. This is the default.
    NotSaid,
}

//! The backend: an API that observes objects, and starts actions that take a while.

use trueup_reconcile::ErrorClass;

use crate::{Action, Class, Error, ErrorKind, Object, Objects};

/// An API with tasks.
///
/// Its methods are called from several threads at once, and bound their own waits. A panic in one
/// counts as no answer.
pub trait Backend: Send + Sync + 'static {
    /// Returns all objects that there are.
    ///
    /// # Errors
    ///
    /// When not all of them could be read: nothing is done in that pass. An object that was left
    /// out would count as not there.
    fn observe(&self) -> Result<Objects, Error>;

    /// Returns how much an action can cost; `observed` is its object. What is not known is
    /// destructive.
    fn class(&self, _action: &Action, _observed: Option<&Object>) -> Class {
        Class::Destructive
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

/// The answer to a request that starts an action.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Started {
    /// It is done.
    Done,
    /// A task does it, with this id.
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

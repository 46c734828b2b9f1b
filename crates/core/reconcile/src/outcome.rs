//! The outcome of an op, for all sources.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

use crate::{Condition, ErrorClass};

/// The outcome of an op. Every op of a pass has exactly one, so the list is exhaustive.
///
/// `F` is the reason for a failure, and `P` the reason why an op was not tried. A driver sees only
/// the error's class: `Outcome`, without parameters.
///
/// ```
/// use trueup_reconcile::{ErrorClass, Outcome};
///
/// let failed: Outcome = Outcome::Failed(ErrorClass::Busy);
/// assert!(failed.is_failure() && !failed.is_applied());
/// assert_eq!(failed.failure(), Some(&ErrorClass::Busy));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<F = ErrorClass, P = ()> {
    /// It was applied, or there was nothing left to do.
    Applied,
    /// It was refused, or its answer was lost. A report with such an op has not converged.
    Failed(F),
    /// It was refused, and is not part of the desired state: another host only offers it. It is
    /// retried like a failed op.
    Declined(F),
    /// It was not tried, for this reason.
    Pending(P),
}

impl<F, P> Outcome<F, P> {
    /// Returns true for [`Applied`](Self::Applied): the op was carried out.
    pub fn is_applied(&self) -> bool {
        matches!(self, Outcome::Applied)
    }

    /// Returns the reason why the op failed or was declined; `None` otherwise.
    pub fn failure(&self) -> Option<&F> {
        match self {
            Outcome::Failed(failure) | Outcome::Declined(failure) => Some(failure),
            Outcome::Applied | Outcome::Pending(_) => None,
        }
    }

    /// Returns the reason why the op was not tried; `None` if it was.
    pub fn pending(&self) -> Option<&P> {
        match self {
            Outcome::Pending(pending) => Some(pending),
            Outcome::Applied | Outcome::Failed(_) | Outcome::Declined(_) => None,
        }
    }

    /// Returns the outcome with the classes of its errors only, for a driver.
    pub fn classified(&self, class: impl FnOnce(&F) -> ErrorClass) -> Outcome {
        match self {
            Outcome::Applied => Outcome::Applied,
            Outcome::Failed(failure) => Outcome::Failed(class(failure)),
            Outcome::Declined(failure) => Outcome::Declined(class(failure)),
            Outcome::Pending(_) => Outcome::Pending(()),
        }
    }
}

impl<P> Outcome<ErrorClass, P> {
    /// Returns true if the op's goal is reached: it was applied, or the kernel had it already.
    pub fn is_done(&self) -> bool {
        match self {
            Outcome::Applied => true,
            Outcome::Failed(class) => class.is_done(),
            Outcome::Declined(_) | Outcome::Pending(_) => false,
        }
    }

    /// Returns true if the op failed or was declined for a reason other than
    /// [`ErrorClass::DoneAlready`].
    pub fn is_failure(&self) -> bool {
        self.failure().is_some_and(|class| !class.is_done())
    }
}

/// Formats the outcome as `applied`, `failed, no such device (dependency)` or `pending, …`.
impl<F: fmt::Display, P: fmt::Display> fmt::Display for Outcome<F, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Applied => f.write_str("applied"),
            Outcome::Failed(failure) => write!(f, "failed, {failure:#}"),
            Outcome::Declined(failure) => write!(f, "declined, {failure:#}"),
            Outcome::Pending(pending) => write!(f, "pending, {pending}"),
        }
    }
}

/// The reason why an op failed. `D` is the source's own detail.
///
/// ```
/// use trueup_reconcile::{ErrorClass, Failure};
///
/// let failure: Failure = Failure::new(ErrorClass::Busy, "eth0 is busy").with_errno(Some(16));
/// assert_eq!(failure.to_string(), "eth0 is busy");
/// assert_eq!(failure.condition().name(), "failed");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure<D = ()> {
    /// The error's class, which determines the next try.
    pub class: ErrorClass,
    /// The operating system's error number, if it gave one.
    pub errno: Option<i32>,
    /// The object, the event and the remedy, in words.
    pub message: String,
    /// The source's own detail; `()` without one.
    pub detail: D,
}

impl<D: Default> Failure<D> {
    /// Creates a failure without an error number.
    pub fn new(class: ErrorClass, message: impl fmt::Display) -> Failure<D> {
        Failure { class, errno: None, message: message.to_string(), detail: D::default() }
    }
}

impl<D> Failure<D> {
    /// Sets the operating system's error number.
    #[must_use]
    pub fn with_errno(self, errno: Option<i32>) -> Self {
        Failure { errno, ..self }
    }

    /// Sets the source's own detail.
    #[must_use]
    pub fn with_detail(self, detail: D) -> Self {
        Failure { detail, ..self }
    }

    /// Returns the condition of the op's object, for its status.
    pub fn condition(&self) -> Condition {
        let Failure { class, errno, message, .. } = self;
        Condition::Failed { class: *class, errno: *errno, message: message.clone() }
    }
}

/// Formats the failure as its message, or with `{:#}` as its message and its class: `no such device
/// (dependency)`.
impl<D> fmt::Display for Failure<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        if f.alternate() {
            write!(f, " ({})", self.class)?;
        }
        Ok(())
    }
}

impl<D: fmt::Debug> Error for Failure<D> {}

/// The reason why an op was not tried. `R` is a reason that only its source has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pending<R = Infallible> {
    /// It failed before, and the next try comes after this time.
    Backoff(Duration),
    /// The driver's limits ended the pass before it.
    Cut,
    /// Its intent could not be recorded in the ledger.
    Unrecorded,
    /// A reason of the source's own.
    Own(R),
}

impl<R> From<R> for Pending<R> {
    fn from(reason: R) -> Pending<R> {
        Pending::Own(reason)
    }
}

impl<R: fmt::Display> fmt::Display for Pending<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pending::Backoff(left) => {
                let seconds = left.as_millis().div_ceil(1000);
                write!(f, "it failed before and is not tried again for {seconds} s")
            }
            Pending::Cut => f.write_str("the pass ended before its turn"),
            Pending::Unrecorded => f.write_str("the ledger could not record it"),
            Pending::Own(reason) => reason.fmt(f),
        }
    }
}

/// The numbers of ops by outcome. If an op is pending or fails in several passes, each pass counts.
///
/// ```
/// use trueup_reconcile::{Ops, Outcome};
///
/// let mut ops = Ops::default();
/// ops.count(Outcome::Applied);
/// assert_eq!((ops.applied, ops.tried(), ops.pending), (1, 1, 0));
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ops {
    /// The number of ops that were carried out, or found done already.
    pub applied: u64,
    /// The number of ops that were refused, or got no answer.
    pub failed: u64,
    /// The number of refused ops that another host only offers.
    pub declined: u64,
    /// The number of ops that were not tried.
    pub pending: u64,
}

impl Ops {
    /// Adds an outcome to its number.
    pub fn count(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Pending(()) => &mut self.pending,
            Outcome::Declined(_) => &mut self.declined,
            _ if outcome.is_failure() => &mut self.failed,
            _ => &mut self.applied,
        } += 1;
    }

    /// Returns the number of tried ops: all but the pending ones.
    pub fn tried(&self) -> u64 {
        self.applied + self.failed + self.declined
    }
}

impl AddAssign for Ops {
    fn add_assign(&mut self, other: Ops) {
        self.applied += other.applied;
        self.failed += other.failed;
        self.declined += other.declined;
        self.pending += other.pending;
    }
}

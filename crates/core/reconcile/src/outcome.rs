//! What became of an op, whatever the source.

use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::ops::AddAssign;
use std::time::Duration;

use crate::{Condition, ErrorClass};

/// The outcome of an op. Every op of a pass has exactly one, so the list is exhaustive.
///
/// `F` says why an op failed, and `P` why it was not tried. A driver sees the class of the error
/// alone: `Outcome`, without parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome<F = ErrorClass, P = ()> {
    /// It was applied, or there was nothing left to do.
    Applied,
    /// It was refused, or its answer was lost. A report that has one has not converged.
    Failed(F),
    /// It was refused, and is no part of the desired state: another host only offers it. It is
    /// tried again as what failed.
    Declined(F),
    /// It was not tried.
    Pending(P),
}

impl<F, P> Outcome<F, P> {
    /// Returns true if it was applied.
    pub fn is_applied(&self) -> bool {
        matches!(self, Outcome::Applied)
    }

    /// Returns why it failed or was declined.
    pub fn failure(&self) -> Option<&F> {
        match self {
            Outcome::Failed(failure) | Outcome::Declined(failure) => Some(failure),
            Outcome::Applied | Outcome::Pending(_) => None,
        }
    }

    /// Returns why it was not tried.
    pub fn pending(&self) -> Option<&P> {
        match self {
            Outcome::Pending(pending) => Some(pending),
            Outcome::Applied | Outcome::Failed(_) | Outcome::Declined(_) => None,
        }
    }

    /// Returns the part that a driver sees.
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
    /// Returns true if what the op was to bring about is there: it was applied, or the kernel had it
    /// already.
    pub fn is_done(&self) -> bool {
        match self {
            Outcome::Applied => true,
            Outcome::Failed(class) => class.is_done(),
            Outcome::Declined(_) | Outcome::Pending(_) => false,
        }
    }

    /// Returns true if the op failed or was declined, and not because its purpose was fulfilled
    /// already.
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

/// Why an op failed. `D` is what a source knows beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure<D = ()> {
    /// The class of the error.
    pub class: ErrorClass,
    /// The operating system's number, if it gave one.
    pub errno: Option<i32>,
    /// What happened to which object, and the remedy.
    pub message: String,
    /// What else the source knows.
    pub detail: D,
}

impl<D: Default> Failure<D> {
    /// Makes a failure without a number.
    pub fn new(class: ErrorClass, message: impl fmt::Display) -> Failure<D> {
        Failure { class, errno: None, message: message.to_string(), detail: D::default() }
    }
}

impl<D> Failure<D> {
    /// Sets the operating system's number.
    #[must_use]
    pub fn with_errno(self, errno: Option<i32>) -> Self {
        Failure { errno, ..self }
    }

    /// Sets what else the source knows.
    #[must_use]
    pub fn with_detail(self, detail: D) -> Self {
        Failure { detail, ..self }
    }

    /// Returns the condition of the op's object.
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

/// Why an op was not tried. `R` is a reason that only its source has.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Pending<R = Infallible> {
    /// It failed before, and is not tried again for this long.
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

/// The numbers of ops by outcome. An op that is pending, or fails, in several passes counts in each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ops {
    /// Applied.
    pub applied: u64,
    /// Refused, or without an answer.
    pub failed: u64,
    /// Refused, and only offered by another host.
    pub declined: u64,
    /// Not tried.
    pub pending: u64,
}

impl Ops {
    /// Counts an outcome.
    pub fn count(&mut self, outcome: Outcome) {
        *match outcome {
            Outcome::Pending(()) => &mut self.pending,
            Outcome::Declined(_) => &mut self.declined,
            _ if outcome.is_failure() => &mut self.failed,
            _ => &mut self.applied,
        } += 1;
    }

    /// Returns the number of ops tried.
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

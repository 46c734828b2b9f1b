//! The trait that a subsystem implements. Not the driver: when passes run is none of a source's business.

use std::error::Error;

use crate::{Hints, Ledger, PassLimits, Report, Subscription};

/// A subsystem that can be made to agree with a declared state.
///
/// - A call of [`reconcile`](Self::reconcile) is one pass: look, compare, change, look again, report.
/// - A pass that completed, even if only in part, gives a report. An error is for a pass that could not run at all, because
///   the world could not be read or the desired state is invalid; then what it owned before it still owns.
/// - A source remembers nothing between passes that it needs for correctness: that is what the [`Ledger`] is for.
///   What it keeps (sockets, caches) it can lose.
/// - A pass never undoes what it did because a later part failed. The next pass goes on from there.
/// - A pass ends: a source bounds its own waits. A driver cannot interrupt it.
/// - What is not known is not deleted.
///
/// Only the source looks into scope, desired state, ledger and options; a driver passes them on unchanged.
pub trait Source {
    /// Where to act: a namespace, a directory, a host.
    type Scope;
    /// What is declared.
    type Desired;
    /// How a pass is to go about it: budgets, policies.
    type Options;
    /// What a completed pass tells.
    type Report: Report;
    /// What [`observe`](Self::observe) shows; `()` for a source that does not.
    type Observed;
    /// Why a pass could not run, or why there are no hints.
    type Error: Error + Send + Sync + 'static;
    /// What keeps hints coming. Dropped, it ends them. `()` for a source that gives none.
    type Subscription: Subscription<Self::Error>;

    /// Runs one pass and tells what came of it.
    ///
    /// `ledger` is this source's in this scope: what earlier passes, and earlier processes, made ours. The pass records there
    /// what it means to do before it does it, and what came of it after it has looked again.
    ///
    /// # Errors
    ///
    /// Only when the pass could not run at all. Ops that failed are in the report.
    fn reconcile(
        &mut self,
        scope: &Self::Scope,
        desired: &Self::Desired,
        ledger: &mut dyn Ledger,
        options: &Self::Options,
    ) -> Result<Self::Report, Self::Error>;

    /// Runs one pass on a driver's terms. A source that knows nothing of terms need not implement it: it then runs a whole one.
    ///
    /// # Errors
    ///
    /// As [`reconcile`](Self::reconcile).
    fn reconcile_within(
        &mut self,
        scope: &Self::Scope,
        desired: &Self::Desired,
        ledger: &mut dyn Ledger,
        options: &Self::Options,
        _limits: &PassLimits<'_>,
    ) -> Result<Self::Report, Self::Error> {
        self.reconcile(scope, desired, ledger, options)
    }

    /// Whether an error is the last: the scope has ended, and what bears its name by now, if anything does, is another. A driver
    /// then ends as well, and whoever started it decides what comes next.
    fn is_scope_gone(_error: &Self::Error) -> bool {
        false
    }

    /// Shows the state as the source sees it, for diagnostics. Changes nothing. Optional.
    ///
    /// # Errors
    ///
    /// When the state could not be read.
    fn observe(
        &mut self,
        _scope: &Self::Scope,
        _options: &Self::Options,
    ) -> Result<Observation<Self::Observed>, Self::Error> {
        Ok(Observation::Unsupported)
    }

    /// Asks for a hint whenever something in `scope` may have changed, from this call on until the subscription is dropped.
    /// Optional: without it passes run by timer only.
    fn subscribe(
        &mut self,
        _scope: &Self::Scope,
        _hints: Hints,
    ) -> Subscribed<Self::Subscription, Self::Error> {
        Subscribed::Unsupported
    }
}

/// A source can be lent to a driver and had back afterwards.
impl<S: Source> Source for &mut S {
    type Scope = S::Scope;
    type Desired = S::Desired;
    type Options = S::Options;
    type Report = S::Report;
    type Observed = S::Observed;
    type Error = S::Error;
    type Subscription = S::Subscription;

    fn reconcile(
        &mut self,
        scope: &Self::Scope,
        desired: &Self::Desired,
        ledger: &mut dyn Ledger,
        options: &Self::Options,
    ) -> Result<Self::Report, Self::Error> {
        (**self).reconcile(scope, desired, ledger, options)
    }

    fn reconcile_within(
        &mut self,
        scope: &Self::Scope,
        desired: &Self::Desired,
        ledger: &mut dyn Ledger,
        options: &Self::Options,
        limits: &PassLimits<'_>,
    ) -> Result<Self::Report, Self::Error> {
        (**self).reconcile_within(scope, desired, ledger, options, limits)
    }

    fn is_scope_gone(error: &Self::Error) -> bool {
        S::is_scope_gone(error)
    }

    fn observe(
        &mut self,
        scope: &Self::Scope,
        options: &Self::Options,
    ) -> Result<Observation<Self::Observed>, Self::Error> {
        (**self).observe(scope, options)
    }

    fn subscribe(
        &mut self,
        scope: &Self::Scope,
        hints: Hints,
    ) -> Subscribed<Self::Subscription, Self::Error> {
        (**self).subscribe(scope, hints)
    }
}

/// What [`Source::observe`] answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Observation<T> {
    /// The state as seen.
    Observed(T),
    /// This source has nothing to show.
    Unsupported,
}

impl<T> Observation<T> {
    /// What was seen, if the source shows anything.
    pub fn observed(self) -> Option<T> {
        match self {
            Observation::Observed(observed) => Some(observed),
            Observation::Unsupported => None,
        }
    }
}

/// What [`Source::subscribe`] answers. In the last two cases passes run by timer only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subscribed<S, E> {
    /// Hints come for as long as this is kept.
    Active(S),
    /// This source gives no hints. That is no fault.
    Unsupported,
    /// This source would give hints, but could not: a driver says so aloud.
    Failed(E),
}

impl<S, E> Subscribed<S, E> {
    /// The same answer, by reference.
    pub fn as_ref(&self) -> Subscribed<&S, &E> {
        match self {
            Subscribed::Active(subscription) => Subscribed::Active(subscription),
            Subscribed::Unsupported => Subscribed::Unsupported,
            Subscribed::Failed(error) => Subscribed::Failed(error),
        }
    }

    /// Hints come.
    pub fn is_active(&self) -> bool {
        matches!(self, Subscribed::Active(_))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::{Claim, LedgerError, MemoryLedger};

    /// Adds one each pass until the desired number is reached; implements nothing that is optional.
    struct Counter;

    struct Counted {
        converged: bool,
    }

    impl Report for Counted {
        fn converged(&self) -> bool {
            self.converged
        }
    }

    impl Source for Counter {
        type Scope = ();
        type Desired = u8;
        type Options = ();
        type Report = Counted;
        type Observed = ();
        type Error = LedgerError;
        type Subscription = ();

        fn reconcile(
            &mut self,
            _: &(),
            desired: &u8,
            ledger: &mut dyn Ledger,
            _: &(),
        ) -> Result<Counted, LedgerError> {
            let last = ledger.owned()?.get(&b"at"[..]).map_or(0, |at| at[0]);
            let at = *desired.min(&(last + 1));
            ledger.commit_outcomes(BTreeMap::from([(b"at".to_vec(), Claim::Ours(vec![at]))]))?;
            Ok(Counted {
                converged: at == *desired,
            })
        }
    }

    #[test]
    fn what_is_optional_says_unsupported() {
        let mut source = Counter;
        let nothing = source.observe(&(), &()).unwrap();
        assert_eq!(nothing, Observation::Unsupported);
        assert_eq!(Observation::<u8>::Unsupported.observed(), None);
        let answer = source.subscribe(&(), Hints::new(|| {}));
        assert!(matches!(answer, Subscribed::Unsupported));
        assert!(!answer.is_active());
    }

    #[test]
    fn a_lent_source_goes_on_from_what_is_in_the_ledger() {
        fn until_converged<S>(mut source: S) -> u32
        where
            S: Source<Scope = (), Desired = u8, Options = ()>,
        {
            let mut ledger = MemoryLedger::default();
            for pass in 1..=10 {
                let report = source.reconcile(&(), &3, &mut ledger, &()).unwrap();
                if report.converged() {
                    return pass;
                }
            }
            panic!("never converged");
        }

        let mut source = Counter;
        assert_eq!(until_converged(&mut source), 3);
        // The source itself remembers nothing: with an empty ledger it is the same way again.
        assert_eq!(until_converged(source), 3);
    }
}

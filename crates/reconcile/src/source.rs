//! The trait that a subsystem implements. Not the driver: when passes run is none of a source's business.

use std::error::Error;

use crate::{Hints, Report};

/// A subsystem that can be made to agree with a declared state.
///
/// - A call of [`reconcile`](Self::reconcile) is one pass: look, compare, change, look again, report.
/// - A pass that completed, even if only in part, gives a report. An error is for a pass that could not run at all, because
///   the world could not be read or the desired state is invalid; then the previous `last_applied` stays in force.
/// - A source remembers nothing between passes that it needs for correctness: that is what `last_applied` is for.
///   What it keeps (sockets, caches) it can lose.
/// - A pass never undoes what it did because a later part failed. The next pass goes on from there.
/// - A pass ends: a source bounds its own waits. A driver cannot interrupt it.
/// - What is not known is not deleted.
///
/// Only the source looks into scope, desired state, `last_applied` and options; a driver passes them on unchanged.
pub trait Source {
    /// Where to act: a namespace, a directory, a host.
    type Scope;
    /// What is declared.
    type Desired;
    /// What the source remembers of its own doing, so that it can later delete or revert no more than that.
    /// The default value is the empty one: nothing was ever applied.
    type LastApplied: Default;
    /// How a pass is to go about it: budgets, policies.
    type Options;
    /// What a completed pass tells.
    type Report: Report<LastApplied = Self::LastApplied>;
    /// What [`observe`](Self::observe) shows; `()` for a source that does not.
    type Observed;
    /// Why a pass could not run, or why there are no hints.
    type Error: Error + Send + Sync + 'static;
    /// What keeps hints coming. Dropped, it ends them. `()` for a source that gives none.
    type Subscription;

    /// Runs one pass and tells what came of it.
    ///
    /// `last_applied` is that of the last report, or the empty value if there was none, or what an earlier process saved.
    ///
    /// # Errors
    ///
    /// Only when the pass could not run at all. Ops that failed are in the report.
    fn reconcile(
        &mut self,
        scope: &Self::Scope,
        desired: &Self::Desired,
        last_applied: &Self::LastApplied,
        options: &Self::Options,
    ) -> Result<Self::Report, Self::Error>;

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
    type LastApplied = S::LastApplied;
    type Options = S::Options;
    type Report = S::Report;
    type Observed = S::Observed;
    type Error = S::Error;
    type Subscription = S::Subscription;

    fn reconcile(
        &mut self,
        scope: &Self::Scope,
        desired: &Self::Desired,
        last_applied: &Self::LastApplied,
        options: &Self::Options,
    ) -> Result<Self::Report, Self::Error> {
        (**self).reconcile(scope, desired, last_applied, options)
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
    Seen(T),
    /// This source has nothing to show.
    Unsupported,
}

impl<T> Observation<T> {
    /// What was seen, if the source shows anything.
    pub fn seen(self) -> Option<T> {
        match self {
            Observation::Seen(seen) => Some(seen),
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
    use std::convert::Infallible;

    use super::*;

    /// Adds one each pass until the desired number is reached; implements nothing that is optional.
    struct Counter;

    struct Counted {
        at: u32,
        converged: bool,
    }

    impl Report for Counted {
        type LastApplied = u32;

        fn converged(&self) -> bool {
            self.converged
        }

        fn last_applied(&self) -> &u32 {
            &self.at
        }
    }

    impl Source for Counter {
        type Scope = ();
        type Desired = u32;
        type LastApplied = u32;
        type Options = ();
        type Report = Counted;
        type Observed = ();
        type Error = Infallible;
        type Subscription = ();

        fn reconcile(
            &mut self,
            _: &(),
            desired: &u32,
            last: &u32,
            _: &(),
        ) -> Result<Counted, Infallible> {
            let at = desired.min(&(last + 1)).to_owned();
            Ok(Counted {
                at,
                converged: at == *desired,
            })
        }
    }

    #[test]
    fn what_is_optional_says_unsupported() {
        let mut source = Counter;
        assert_eq!(source.observe(&(), &()).unwrap(), Observation::Unsupported);
        assert_eq!(Observation::<u8>::Unsupported.seen(), None);
        let answer = source.subscribe(&(), Hints::new(|| {}));
        assert_eq!(answer, Subscribed::Unsupported);
        assert!(!answer.is_active());
    }

    #[test]
    fn a_lent_source_goes_on_from_what_is_handed_to_it() {
        fn until_converged<S>(mut source: S) -> u32
        where
            S: Source<Scope = (), Desired = u32, LastApplied = u32, Options = ()>,
        {
            let mut last = S::LastApplied::default();
            for pass in 1..=10 {
                let report = source.reconcile(&(), &3, &last, &()).unwrap();
                if report.converged() {
                    return pass;
                }
                last = *report.last_applied();
            }
            panic!("never converged");
        }

        let mut source = Counter;
        assert_eq!(until_converged(&mut source), 3);
        // The source itself remembers nothing: from the empty value it is the same way again.
        assert_eq!(until_converged(source), 3);
    }
}

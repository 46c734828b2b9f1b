//! The source.

use std::collections::{BTreeMap, BTreeSet};

use trueup_netlink::Namespace;
use trueup_reconcile::{Claim, Ledger, LedgerError, Observation, PassLimits, Source};

use crate::look::Place;
use crate::pass::Pass;
use crate::{Desired, Error, Files, Key, Observed, Options, ProcSys, Report};

/// The sysctl source, of one namespace: the one that its first pass meets. Where that has ended, and another bears its name, a
/// pass is an error and [`Source::is_scope_gone`].
///
/// Between passes it keeps nothing else that correctness needs, no descriptor, and no thread.
pub struct Sysctl {
    files: Box<dyn Files>,
    /// The cookie of the namespace, from the first pass on.
    cookie: Option<u64>,
    /// What was declared last, to be shown.
    last: BTreeSet<Key>,
    /// What was not there in the last pass.
    absent: BTreeSet<Key>,
}

impl Sysctl {
    /// A source that has seen nothing yet.
    pub fn new() -> Sysctl {
        Sysctl::with_files(ProcSys)
    }

    /// One that reads and writes through something else than the kernel's files.
    pub fn with_files(files: impl Files + 'static) -> Sysctl {
        Sysctl {
            files: Box::new(files),
            cookie: None,
            last: BTreeSet::new(),
            absent: BTreeSet::new(),
        }
    }

    /// What a pass would do now: each op is pending. Changes nothing, neither in the kernel nor in the ledger.
    ///
    /// # Errors
    ///
    /// As [`Source::reconcile`].
    pub fn plan(
        &self,
        scope: &Namespace,
        desired: &Desired,
        ledger: &dyn Ledger,
        options: &Options,
    ) -> Result<Report, Error> {
        let mut cookie = self.cookie;
        let place = Place::enter(scope, &*self.files, &mut cookie)?;
        Pass {
            place: &place,
            desired,
            options,
            limits: &PassLimits::default().with_ops(0),
            ledger: &mut Unchanged(ledger),
            absent: &mut BTreeSet::new(),
        }
        .run()
    }
}

impl Default for Sysctl {
    fn default() -> Sysctl {
        Sysctl::new()
    }
}

impl Source for Sysctl {
    type Scope = Namespace;
    type Desired = Desired;
    type Options = Options;
    type Report = Report;
    type Observed = Observed;
    type Error = Error;
    type Subscription = ();

    fn reconcile(
        &mut self,
        scope: &Namespace,
        desired: &Desired,
        ledger: &mut dyn Ledger,
        options: &Options,
    ) -> Result<Report, Error> {
        self.reconcile_within(scope, desired, ledger, options, &PassLimits::default())
    }

    /// Each pass is whole, as there is nothing that could tell it what is doubtful.
    fn reconcile_within(
        &mut self,
        scope: &Namespace,
        desired: &Desired,
        ledger: &mut dyn Ledger,
        options: &Options,
        limits: &PassLimits<'_>,
    ) -> Result<Report, Error> {
        self.last = desired.keys().cloned().collect();
        let place = Place::enter(scope, &*self.files, &mut self.cookie)?;
        Pass {
            place: &place,
            desired,
            options,
            limits,
            ledger,
            absent: &mut self.absent,
        }
        .run()
    }

    fn is_scope_gone(error: &Error) -> bool {
        error.is_gone()
    }

    /// The values of the keys that the last pass was about, and of those in [`Options::with_shown`].
    fn observe(
        &mut self,
        scope: &Namespace,
        options: &Options,
    ) -> Result<Observation<Observed>, Error> {
        let mut cookie = self.cookie;
        let place = Place::enter(scope, &*self.files, &mut cookie)?;
        let seen = place.look(self.last.union(options.shown()))?;
        let shown = seen
            .into_iter()
            .map(|(key, seen)| (key, seen.map(Option::unwrap_or_default)));
        Ok(Observation::Observed(shown.collect()))
    }
}

/// A ledger that says what it knows, and takes nothing.
struct Unchanged<'a>(&'a dyn Ledger);

type Bytes = Vec<u8>;

impl Ledger for Unchanged<'_> {
    fn owned(&self) -> Result<BTreeMap<Bytes, Bytes>, LedgerError> {
        self.0.owned()
    }

    fn open_intents(&self) -> Result<BTreeMap<Bytes, Claim>, LedgerError> {
        self.0.open_intents()
    }

    fn begin(&mut self, _: BTreeMap<Bytes, Claim>) -> Result<(), LedgerError> {
        Ok(())
    }

    fn commit_outcomes(&mut self, _: BTreeMap<Bytes, Claim>) -> Result<(), LedgerError> {
        Ok(())
    }
}

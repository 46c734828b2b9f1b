//! The source: [`Sysctl`], and the options of its passes.

use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use trueup_netlink::Namespace;
use trueup_reconcile::{
    Claim, Drained, Hints, Ledger, LedgerError, PassInput, PassLimits, Source, Status, Subscribed,
};

use crate::changes::Changes;
use crate::namespace::EnteredNamespace;
use crate::pass::Pass;
use crate::{Desired, Error, Files, Key, Observed, ProcSys, Report};

/// The sysctl source of one namespace: the one of its first pass. Once the namespace is gone, or
/// another has its name, a pass fails and [`Source::is_scope_gone`] is true.
///
/// Correctness depends on nothing else that it keeps between passes. It keeps no thread.
///
/// ```no_run
/// use trueup_reconcile::{PassInput, Report as _, Source as _};
/// use trueup_sysctl::{Desired, MemoryLedger, Namespace, Options, Sysctl};
///
/// let desired = Desired::parse([("net.ipv4.ip_forward", "1")])?;
/// let (here, options) = (Namespace::current(), Options::default());
/// let mut ledger = MemoryLedger::default();
/// let report = Sysctl::new().reconcile(PassInput::new(&here, &desired, &mut ledger, &options))?;
/// println!("converged: {}", report.converged());
/// # Ok::<(), trueup_sysctl::Error>(())
/// ```
pub struct Sysctl {
    files: Box<dyn Files>,
    /// The cookie of the namespace, set by the first pass.
    cookie: Option<u64>,
    /// The keys declared last, for `observe`.
    last: BTreeSet<Key>,
    /// The declared keys that did not exist in the last pass.
    absent: BTreeSet<Key>,
    /// The keys that the last pass left undone, with their status.
    undone: BTreeMap<Key, Arc<Status>>,
    /// Its events, while subscribed.
    events: Option<Changes>,
}

impl Sysctl {
    /// Makes a source for a namespace that its first pass enters.
    pub fn new() -> Sysctl {
        Sysctl::with_files(ProcSys)
    }

    /// Makes a source that reads and writes through `files` instead of the kernel's files.
    pub fn with_files(files: impl Files + 'static) -> Sysctl {
        Sysctl {
            files: Box::new(files),
            cookie: None,
            last: BTreeSet::new(),
            absent: BTreeSet::new(),
            undone: BTreeMap::new(),
            events: None,
        }
    }

    /// Returns the report of a pass now, with each op pending. Changes neither the kernel nor the
    /// ledger.
    ///
    /// ```no_run
    /// use trueup_sysctl::{Desired, MemoryLedger, Namespace, Options, Sysctl};
    ///
    /// let desired = Desired::parse([("net.ipv4.ip_forward", "1")])?;
    /// let (ledger, options) = (MemoryLedger::default(), Options::default());
    /// let plan = Sysctl::new().plan(&Namespace::current(), &desired, &ledger, &options)?;
    /// for op in plan.ops() {
    ///     println!("sysctl -w {}", op.command());
    /// }
    /// # Ok::<(), trueup_sysctl::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// The same as [`Source::reconcile`].
    pub fn plan(
        &self,
        scope: &Namespace,
        desired: &Desired,
        ledger: &dyn Ledger,
        options: &Options,
    ) -> Result<Report, Error> {
        let mut cookie = self.cookie;
        let namespace = EnteredNamespace::enter(scope, &*self.files, &mut cookie)?;
        Pass {
            namespace: &namespace,
            desired,
            options,
            limits: &PassLimits::default().with_ops(0),
            ledger: &mut ReadOnlyLedger(ledger),
            absent: &mut BTreeSet::new(),
        }
        .run()
    }

    /// Records in a report the statuses that have changed since the last one.
    fn note_statuses(&mut self, report: &mut Report) {
        let mut before = std::mem::take(&mut self.undone);
        for op in &report.ops {
            let Some(status) = op.status() else { continue };
            let known = before.remove(&op.key);
            let status = match known {
                Some(known) if op.is_put_off() || *known == status => known,
                _ => {
                    let status = Arc::new(status);
                    let changed = (op.key.op_key(), Some(Arc::clone(&status)));
                    report.statuses.push(changed);
                    status
                }
            };
            self.undone.insert(op.key.clone(), status);
        }
        let cleared = before.into_keys().map(|key| (key.op_key(), None));
        report.statuses.extend(cleared);
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

    const ANNOUNCES: bool = true;

    /// Each pass observes everything, since not all changes are reported.
    fn reconcile(&mut self, input: PassInput<'_, Self>) -> Result<Report, Error> {
        let PassInput { scope, desired, ledger, options, limits } = input;
        self.last = desired.keys().cloned().collect();
        let namespace = EnteredNamespace::enter(scope, &*self.files, &mut self.cookie)?;
        if let Some(watched) = self.events.as_ref().map(Changes::files) {
            // Before the values are read, so that no later change is missed.
            namespace.run(|files| {
                for key in desired.keys() {
                    // Without a watch, the timer finds changes.
                    let _unwatched = files.watch(key, watched);
                }
            })?;
        }
        let pass = Pass {
            namespace: &namespace,
            desired,
            options,
            limits: &limits,
            ledger,
            absent: &mut self.absent,
        };
        let mut report = pass.run()?;
        self.note_statuses(&mut report);
        Ok(report)
    }

    fn is_scope_gone(error: &Error) -> bool {
        error.is_gone()
    }

    /// Subscribes to the events that may mean a changed value:
    ///
    /// - Links that come, go and change, since their values do so with them.
    /// - The groups `RTNLGRP_IPV4_NETCONF` and `RTNLGRP_IPV6_NETCONF`: forwarding, reverse path
    ///   filters, proxies for ARP and neighbour discovery, changed by any writer.
    /// - Writes to the declared keys' files in `/proc/sys`, by inotify, in this mount of `/proc`.
    ///
    /// The driver's timer finds other changes. If a writer answers each correction, trueup does not
    /// keep its pace: after 20 to 60 corrections it corrects every five seconds.
    fn subscribe(&mut self, scope: &Namespace, hints: Hints) -> Subscribed<(), Error> {
        self.events = None;
        match Changes::open(scope, hints) {
            Ok(changes) => {
                self.events = Some(changes);
                Subscribed::Active(())
            }
            Err(error) => Subscribed::Failed(error),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.events.as_ref().map(Changes::descriptor)
    }

    fn drain(&mut self) -> Result<Drained, Error> {
        let Some(events) = &mut self.events else {
            return Ok(Drained::Nothing);
        };
        events.drain().inspect_err(|_| self.events = None)
    }

    /// Returns the values of the keys declared in the last pass, and of those in
    /// [`Options::with_shown`].
    fn observe(&mut self, scope: &Namespace, options: &Options) -> Result<Option<Observed>, Error> {
        let mut cookie = self.cookie;
        let namespace = EnteredNamespace::enter(scope, &*self.files, &mut cookie)?;
        let values = namespace.read(self.last.union(options.shown()))?;
        let shown =
            values.into_iter().map(|(key, value)| (key, value.map(Option::unwrap_or_default)));
        Ok(Some(shown.collect()))
    }
}

/// A ledger that can be read, and ignores writes.
struct ReadOnlyLedger<'a>(&'a dyn Ledger);

type Bytes = Vec<u8>;

impl Ledger for ReadOnlyLedger<'_> {
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

/// The options of a pass: reverting, and keys to observe.
///
/// ```
/// use trueup_sysctl::Options;
///
/// let options = Options::default().with_revert(true);
/// assert!(options.revert() && options.shown().is_empty());
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    revert: bool,
    shown: BTreeSet<Key>,
}

impl Options {
    /// Sets true to restore the original value of a key that is no longer declared, if it still has
    /// ours. By default it keeps ours.
    #[must_use]
    pub fn with_revert(self, revert: bool) -> Options {
        Options { revert, ..self }
    }

    /// Sets the keys that [`observe`](trueup_reconcile::Source::observe) returns besides the last
    /// pass's.
    #[must_use]
    pub fn with_shown(self, keys: impl IntoIterator<Item = Key>) -> Options {
        Options { shown: keys.into_iter().collect(), ..self }
    }

    /// Returns true if keys that are no longer declared are reverted.
    pub fn revert(&self) -> bool {
        self.revert
    }

    /// Returns the keys that `observe` returns besides the last pass's.
    pub fn shown(&self) -> &BTreeSet<Key> {
        &self.shown
    }
}

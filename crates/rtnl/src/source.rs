//! The rtnetlink source: what it keeps between passes.

use std::fmt;
use std::time::Instant;

use trueup_diff::{Desired, Kind, Kinds};
use trueup_netlink::{Markers, Namespace, Socket, markers};
use trueup_observe::{DirtySet, Observer, ReadScope, Snapshot};
use trueup_reconcile::{Extent, Hints, Ledger, Observation, PassLimits, Source, Subscribed};

use crate::history::History;
use crate::monitor::{MonitorHandle, Watch};
use crate::ownership::policy::policy;
use crate::pass::baseline::Baseline;
use crate::pass::scope::PassScope;
use crate::pass::{Pass, PassPlan, RouteRows};
use crate::why::{self, Explanation, Query};
use crate::{Error, ErrorKind, Options, Planned, Report};

/// The rtnetlink source.
///
/// It keeps nothing between passes that correctness needs: each pass opens its socket anew, so that
/// a namespace that was recreated under its old name is met as what it is. What it keeps is for
/// other writers' sake (see [`Options::with_grace`] and [`Options::with_contention`]), and lets a
/// pass read no more than what is dirty.
///
/// Subscribed, it is bound to the namespace of the subscription: once that is gone, or another
/// bears its name, a pass ends with [`ErrorKind::Ended`](crate::ErrorKind::Ended) and has changed
/// nothing.
pub struct Rtnl {
    clock: Box<dyn Fn() -> Instant + Send + Sync>,
    history: History,
    /// What this kernel stores a protocol on, and the cookie of the namespace that was asked.
    markers: Option<(u64, Markers)>,
    monitor: Option<MonitorHandle>,
    /// What the last pass found, unless it failed.
    baseline: Option<Baseline>,
}

impl Rtnl {
    /// Returns a source that has run no pass yet.
    pub fn new() -> Rtnl {
        Rtnl::with_clock(Instant::now)
    }

    /// Returns a source with a clock of the caller's, which never goes back.
    pub fn with_clock(clock: impl Fn() -> Instant + Send + Sync + 'static) -> Rtnl {
        Rtnl {
            clock: Box::new(clock),
            history: History::default(),
            markers: None,
            monitor: None,
            baseline: None,
        }
    }

    /// Returns what a pass would do now. Changes nothing, neither in the kernel nor in the ledger.
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
    ) -> Result<Planned, Error> {
        let (_, next) = self.dry_run(scope, desired, ledger, options, Kinds::NONE)?;
        Ok(next.planned)
    }

    /// Explains the objects that `query` asks about: what the kernel holds, whose it is and by what
    /// proof, what is desired, and what a pass would do. Without a desired state nothing is
    /// managed. Changes nothing, neither in the kernel nor in the ledger.
    ///
    /// # Errors
    ///
    /// As [`plan`](Self::plan).
    pub fn why(
        &self,
        scope: &Namespace,
        desired: Option<&Desired>,
        ledger: &dyn Ledger,
        options: &Options,
        query: &Query,
    ) -> Result<Explanation, Error> {
        let nothing = Desired::default();
        let desired = desired.unwrap_or(&nothing);
        let asked = Kinds::NONE.with(query.kind());
        let (mut pass, next) = self.dry_run(scope, desired, ledger, options, asked)?;
        let resolved = pass.resolve_all(&next)?;
        let view = &pass.ledger_view;
        why::explain(&mut pass.observer, view, &resolved, next.planned, query)
    }

    /// Runs a pass up to its first plan. Its policy is also for objects of the kinds in `more`.
    fn dry_run<'a>(
        &self,
        scope: &Namespace,
        desired: &'a Desired,
        ledger: &dyn Ledger,
        options: &'a Options,
        more: Kinds,
    ) -> Result<(Pass<'a>, PassPlan), Error> {
        let mut observer = Observer::open(scope)?;
        let is_asked = |kind: &Kind| desired.managed().contains(*kind) || more.contains(*kind);
        let kinds = Kind::ALL.into_iter().filter(is_asked).collect();
        let markers = self.markers(observer.socket(), kinds)?;
        let policy = policy(markers.map(|(_, markers)| markers), options)?;
        let everything = PassScope::Everything(RouteRows::All);
        let mut pass = Pass::open(observer, everything, desired, options, policy, ledger)?;
        let next = pass.dry_run(&mut self.history.clone(), &self.clock)?;
        Ok((pass, next))
    }

    /// Finds out what this kernel stores a protocol on. It is asked once for a namespace, and only
    /// where that matters.
    fn markers(&self, socket: &mut Socket, kinds: Kinds) -> Result<Option<(u64, Markers)>, Error> {
        let matters = |kind: &Kind| {
            // With a link go addresses, of which not all are foreign.
            *kind != Kind::Route && *kind != Kind::Nexthop && kinds.contains(*kind)
        };
        if !Kind::ALL.iter().any(matters) {
            return Ok(None);
        }
        let cookie = socket.netns_cookie()?;
        match &self.markers {
            Some((known, markers)) if *known == cookie => Ok(Some((cookie, *markers))),
            _ => Ok(Some((cookie, markers(socket)?))),
        }
    }

    /// Opens the namespace, which has to be that of the subscription, if there is one.
    fn open(&self, scope: &Namespace) -> Result<Observer, Error> {
        let bound = self.monitor.as_ref().and_then(MonitorHandle::cookie);
        let Some(cookie) = bound else {
            return Ok(Observer::open(scope)?);
        };
        let mut observer = Observer::open(scope).map_err(Error::of_reopening)?;
        match observer.socket().netns_cookie()? == cookie {
            true => Ok(observer),
            false => Err(Error::replaced(scope)),
        }
    }
}

impl Default for Rtnl {
    fn default() -> Rtnl {
        Rtnl::new()
    }
}

impl fmt::Debug for Rtnl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Rtnl").finish_non_exhaustive()
    }
}

impl Source for Rtnl {
    type Scope = Namespace;
    type Desired = Desired;
    type Options = Options;
    type Report = Report;
    type Observed = Snapshot;
    type Error = Error;
    type Subscription = Watch;

    fn reconcile(
        &mut self,
        scope: &Namespace,
        desired: &Desired,
        ledger: &mut dyn Ledger,
        options: &Options,
    ) -> Result<Report, Error> {
        self.reconcile_within(scope, desired, ledger, options, &PassLimits::default())
    }

    fn reconcile_within(
        &mut self,
        namespace: &Namespace,
        desired: &Desired,
        ledger: &mut dyn Ledger,
        options: &Options,
        limits: &PassLimits<'_>,
    ) -> Result<Report, Error> {
        // If this pass fails, the next one is over everything.
        let mut baseline = self.baseline.take();
        if let Some(baseline) = &mut baseline {
            baseline.follow(desired, options.protocol());
        }
        let dirty = self.monitor.as_ref().and_then(MonitorHandle::take_dirty);
        // Without a subscription nothing is known of what happened since the last pass.
        let dirty = dirty.unwrap_or_else(DirtySet::everything);
        if let Some(monitor) = &self.monitor {
            monitor.cover(desired.managed(), options.protocol());
        }
        let mut observer = self.open(namespace)?;
        let markers = self.markers(observer.socket(), desired.managed())?;
        self.markers = markers.or(self.markers);
        let policy = policy(markers.map(|(_, markers)| markers), options)?;
        let scope = match limits.extent() {
            Extent::Everything => PassScope::Everything(RouteRows::OutOfSync),
            Extent::Dirty => {
                PassScope::decide(baseline.as_ref(), &self.history, desired, options, &dirty)
            }
        };
        let pass = Pass::open(observer, scope, desired, options, policy, ledger)?;
        let pass = pass.with_limits(limits).with_monitor(self.monitor.clone());
        let (clock, history) = (&self.clock, &mut self.history);
        let (report, next) = pass.run(history, baseline, &dirty, ledger, clock)?;
        self.baseline = next;
        Ok(report)
    }

    fn observe(
        &mut self,
        scope: &Namespace,
        _options: &Options,
    ) -> Result<Observation<Snapshot>, Error> {
        let mut observer = Observer::open(scope)?;
        Ok(Observation::Observed(
            observer.snapshot(&ReadScope::whole())?,
        ))
    }

    fn subscribe(&mut self, scope: &Namespace, _hints: Hints) -> Subscribed<Watch, Error> {
        self.baseline = None;
        match Watch::open(scope) {
            Ok((watch, monitor)) => {
                self.monitor = Some(monitor);
                Subscribed::Active(watch)
            }
            Err(error) => Subscribed::Failed(error),
        }
    }

    fn is_scope_gone(error: &Error) -> bool {
        error.kind() == ErrorKind::Ended
    }
}

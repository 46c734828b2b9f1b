//! The rtnetlink source, with its state between passes.

use std::borrow::Cow;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use trueup_net::{Desired, Kind, Kinds, Plan};
use trueup_netlink::{Namespace, NamespaceId};
use trueup_observe::{DirtySet, Observer, ReadScope, Snapshot};
use trueup_reconcile::{
    Drained, Extent, Hints, Ledger, OpKey, PassInput, PassLimits, Source, Subscribed,
};

use crate::connection::Connection;
use crate::events::Events;
use crate::history::History;
use crate::history::fingerprint::DesiredFingerprint;
use crate::ownership::policy;
use crate::pass::baseline::Baseline;
use crate::pass::mode::{Facts, Mode};
use crate::pass::{Pass, PassPlan};
use crate::why::{self, Explanation, Query};
use crate::{Error, ErrorKind, Options, Report};

/// The rtnetlink source.
///
/// Correctness does not depend on its state between passes. The state serves other writers (see
/// [`Options::with_grace`] and [`Options::with_contention`]), and lets a pass read only dirty
/// objects.
///
/// A subscription keeps the sockets and binds the source to its namespace. If the namespace is gone
/// or another has its name, a pass ends with [`ErrorKind::Ended`](crate::ErrorKind::Ended) and
/// changes nothing.
///
/// ```no_run
/// use std::time::Duration;
/// use trueup_loop::{Config, Loop};
/// use trueup_net::Desired;
/// use trueup_rtnl::{MemoryLedger, Namespace, Options, Rtnl};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let desired = Desired::default().with_routes([]); // manages routes, and wants none
/// let (here, ledger) = (Namespace::named("blue")?, MemoryLedger::default());
/// let running =
///     Loop::new(Rtnl::new(), here, desired, ledger, Options::default(), Config::default())
///         .spawn("blue")?;
/// running.handle().force(Duration::from_secs(10))?;
/// # Ok(())
/// # }
/// ```
pub struct Rtnl {
    clock: Box<dyn Fn() -> Instant + Send + Sync>,
    history: History,
    /// The sockets of the last pass, while subscribed, unless it failed.
    connection: Option<Connection>,
    /// Its events, while subscribed.
    events: Option<Events>,
    /// The result of the last pass, unless it failed.
    baseline: Option<Baseline>,
    /// The desired state that a driver last asked about.
    asked: DesiredFingerprint,
}

impl Rtnl {
    /// Makes a source that has run no pass yet.
    pub fn new() -> Rtnl {
        Rtnl::with_clock(Instant::now)
    }

    /// Makes a source with the caller's clock, which must never go back.
    pub fn with_clock(clock: impl Fn() -> Instant + Send + Sync + 'static) -> Rtnl {
        Rtnl {
            clock: Box::new(clock),
            history: History::default(),
            connection: None,
            events: None,
            baseline: None,
            asked: DesiredFingerprint::default(),
        }
    }

    /// Returns the plan that a pass would carry out now, and the observation. The latter has all
    /// managed objects, but only foreign routes that matter to the plan. Nothing is deleted of a
    /// kind that could not be read whole. Changes neither the kernel nor the ledger.
    ///
    /// ```
    /// use trueup_net::Desired;
    /// use trueup_rtnl::{MemoryLedger, Namespace, Options, Rtnl};
    ///
    /// let (here, desired) = (Namespace::current(), Desired::default().with_routes([]));
    /// # let here = trueup_testkit::model::Kernel::new().namespace();
    /// let (ledger, options) = (MemoryLedger::default(), Options::default());
    /// let (plan, _observed) = Rtnl::new().plan(&here, &desired, &ledger, &options)?;
    /// print!("{}", plan.text()); // nothing is changed
    /// # Ok::<(), trueup_rtnl::Error>(())
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
    ) -> Result<(Plan, Snapshot), Error> {
        let connection = &mut self.open(scope, desired)?;
        let limits = PassLimits::default();
        let nothing = Kinds::NONE;
        let (_, next) = self.dry_run(connection, desired, ledger, options, &limits, nothing)?;
        Ok((next.plan, next.seen.snapshot))
    }

    /// Explains the objects in `query`: their state in the kernel, their owner with the proof,
    /// their declaration, and the next pass's ops on them. Without a desired state nothing is
    /// managed. Changes neither the kernel nor the ledger.
    ///
    /// A source that has run passes knows which objects are contended, stored differently, or in
    /// their grace. To ask the source of a running loop, use [`why_within`](Self::why_within).
    ///
    /// # Errors
    ///
    /// The same as [`plan`](Self::plan).
    pub fn why(
        &self,
        scope: &Namespace,
        desired: Option<&Desired>,
        ledger: &dyn Ledger,
        options: &Options,
        query: &Query,
    ) -> Result<Explanation, Error> {
        self.why_within(scope, desired, ledger, options, query, &PassLimits::default())
    }

    /// Like [`why`](Self::why), for a pass within a driver's limits, of which the backoff counts.
    /// Use it to ask a running loop, with its whole state.
    ///
    /// # Errors
    ///
    /// The same as [`plan`](Self::plan). Also [`ErrorKind::Ended`](crate::ErrorKind::Ended) if the
    /// namespace is not the subscription's.
    pub fn why_within(
        &self,
        scope: &Namespace,
        desired: Option<&Desired>,
        ledger: &dyn Ledger,
        options: &Options,
        query: &Query,
        limits: &PassLimits<'_>,
    ) -> Result<Explanation, Error> {
        let declared = desired.map_or_else(Cow::default, Cow::Borrowed);
        let asked = Kinds::NONE.with(query.kind());
        let connection = &mut self.open(scope, &declared)?;
        let (pass, next) = self.dry_run(connection, &declared, ledger, options, limits, asked)?;
        why::explain(pass, next, query)
    }

    /// Runs a pass up to its first plan. The policy also covers the kinds in `more`.
    fn dry_run<'a>(
        &self,
        connection: &'a mut Connection,
        desired: &'a Desired,
        ledger: &dyn Ledger,
        options: &'a Options,
        limits: &PassLimits<'a>,
        more: Kinds,
    ) -> Result<(Pass<'a>, PassPlan), Error> {
        let kinds = Kind::ALL
            .into_iter()
            .filter(|kind| desired.managed().contains(*kind) || more.contains(*kind))
            .collect();
        let policy = policy(connection.unstored(kinds)?, options)?;
        let mode = (Facts::default(), Mode::look());
        let observer = &mut connection.observer;
        let mut pass = Pass::open(observer, mode, desired, options, policy, ledger, limits)?;
        let next = pass.dry_run(&mut self.history.clone(), &self.clock)?;
        Ok((pass, next))
    }

    /// Opens sockets in the namespace. If there is a subscription, it must be the subscription's.
    fn open(&self, scope: &Namespace, desired: &Desired) -> Result<Connection, Error> {
        let pinned = scope.pinned().map_err(|error| self.open_error(error))?;
        self.require_bound(scope, &pinned)?;
        let opened = match self.events {
            Some(_) => Connection::open(&pinned),
            None => Connection::open_once(&pinned, desired),
        };
        opened.map_err(|error| self.open_error(error))
    }

    /// Refuses a namespace that is not the subscription's, if there is one.
    fn require_bound(&self, scope: &Namespace, now: &Namespace) -> Result<(), Error> {
        let Some(bound) = self.bound_to() else {
            return Ok(());
        };
        match now.id().map_err(|error| self.open_error(error))? {
            id if id == bound => Ok(()),
            _ => Err(Error::replaced(scope)),
        }
    }

    /// Returns the subscription's namespace, if there is one.
    fn bound_to(&self) -> Option<NamespaceId> {
        self.events.as_ref().map(Events::namespace)
    }

    fn open_error(&self, error: trueup_netlink::Error) -> Error {
        match self.bound_to() {
            Some(_) => Error::of_reopening(error),
            None => Error::from(error),
        }
    }

    /// Takes the last pass's sockets, or opens new ones, in the namespace. If there is a
    /// subscription, it must be the subscription's.
    fn connect(&mut self, scope: &Namespace, desired: &Desired) -> Result<Connection, Error> {
        let kept = self.connection.take();
        // After the subscription has ended, a pass may cover another namespace.
        if let Some(kept) = kept.filter(|_| self.bound_to().is_some()) {
            self.require_bound(scope, scope)?;
            return Ok(kept);
        }
        if let Some(events) = &mut self.events {
            // Another program may have the closed socket's port by now.
            events.ignore_own_writes(None);
        }
        self.open(scope, desired)
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

    const ANNOUNCES: bool = true;

    fn reconcile(&mut self, input: PassInput<'_, Self>) -> Result<Report, Error> {
        let PassInput { scope: namespace, desired, ledger, options, limits } = input;
        // If this pass fails, the next one covers everything.
        let mut baseline = self.baseline.take();
        // Without a subscription, changes since the last pass are unknown.
        let dirty = self.events.as_mut().map_or_else(DirtySet::everything, Events::take_dirty);
        if let Some(baseline) = &mut baseline {
            baseline.note_shared(&dirty, desired);
        }
        if let Some(events) = &mut self.events {
            events.cover(desired.managed(), options.protocol());
        }
        let mut connection = self.connect(namespace, desired)?;
        let port = connection.observer.socket().port_id();
        if let Some(events) = &mut self.events {
            events.ignore_own_writes(Some(port));
        }
        let policy = policy(connection.unstored(desired.managed())?, options)?;
        if let Some(baseline) = &mut baseline {
            baseline.follow(desired, &policy);
        }
        let mode = match (limits.extent(), baseline.as_mut()) {
            (Extent::Dirty, Some(baseline)) => {
                baseline.decide(&self.history, desired, options, &dirty, limits.due(), &policy)
            }
            _ => Mode::everything(desired, self.events.is_some()),
        };
        let observer = &mut connection.observer;
        let pass = Pass::open(observer, mode, desired, options, policy, ledger, &limits)?
            .subscribed(self.events.as_mut(), baseline, &dirty);
        let (report, next) = pass.run(&mut self.history, &dirty, ledger, &self.clock)?;
        self.baseline = next;
        // Without a subscription the next pass may be far off, or never come.
        self.connection = self.events.as_ref().map(|_| {
            connection.observer.rest();
            connection
        });
        Ok(report)
    }

    fn observe(
        &mut self,
        scope: &Namespace,
        _options: &Options,
    ) -> Result<Option<Snapshot>, Error> {
        let mut observer = match self.events {
            Some(_) => Observer::open(scope)?,
            None => Observer::open_lazily(scope)?,
        };
        Ok(Some(observer.snapshot(&ReadScope::whole())?))
    }

    fn subscribe(&mut self, scope: &Namespace, _hints: Hints) -> Subscribed<(), Error> {
        // Close the old ones first, or both sockets would receive each event.
        (self.baseline, self.connection, self.events) = (None, None, None);
        match Events::open(scope) {
            Ok(events) => {
                self.events = Some(events);
                Subscribed::Active(())
            }
            Err(error) => Subscribed::Failed(error),
        }
    }

    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        self.events.as_ref().map(Events::descriptor)
    }

    fn drain(&mut self) -> Result<Drained, Error> {
        let Some(events) = &mut self.events else {
            return Ok(Drained::Nothing);
        };
        events.drain().inspect_err(|_| self.events = None)
    }

    fn changed_keys(&mut self, desired: &Desired, options: &Options) -> Option<Vec<OpKey>> {
        self.asked.changed_keys(desired, options)
    }

    fn is_scope_gone(error: &Error) -> bool {
        error.kind() == ErrorKind::Ended
    }
}

//! The rtnetlink source: what it keeps between passes.

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
/// Correctness needs nothing of what it keeps between passes. That is for other writers' sake (see
/// [`Options::with_grace`] and [`Options::with_contention`]), and lets a pass read no more than
/// what is dirty.
///
/// A subscription keeps the sockets and binds the source to its namespace. Once that is gone, or
/// another bears its name, a pass ends with [`ErrorKind::Ended`](crate::ErrorKind::Ended) and
/// changes nothing.
pub struct Rtnl {
    clock: Box<dyn Fn() -> Instant + Send + Sync>,
    history: History,
    /// The sockets of the last pass, while subscribed, unless it failed.
    connection: Option<Connection>,
    /// Its events, while subscribed.
    events: Option<Events>,
    /// What the last pass found, unless it failed.
    baseline: Option<Baseline>,
    /// The desired state that a driver last asked about.
    asked: DesiredFingerprint,
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
            connection: None,
            events: None,
            baseline: None,
            asked: DesiredFingerprint::default(),
        }
    }

    /// Returns what a pass would do now, and what was observed: all that is managed, but of foreign
    /// routes only those that matter to the plan. Of a kind that could not be read whole nothing is
    /// deleted. Changes nothing, neither in the kernel nor in the ledger.
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
    ) -> Result<(Plan, Snapshot), Error> {
        let connection = &mut self.open(scope, desired)?;
        let limits = PassLimits::default();
        let nothing = Kinds::NONE;
        let (_, next) = self.dry_run(connection, desired, ledger, options, &limits, nothing)?;
        Ok((next.plan, next.seen.snapshot))
    }

    /// Explains the objects that `query` asks about: what the kernel holds, whose it is and by what
    /// proof, what is desired, and what a pass would do. Without a desired state nothing is
    /// managed. Changes nothing, neither in the kernel nor in the ledger.
    ///
    /// A source that has run passes knows what these found contended, stored otherwise, or in its
    /// grace. That of a running loop is asked by [`why_within`](Self::why_within).
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
        self.why_within(scope, desired, ledger, options, query, &PassLimits::default())
    }

    /// As [`why`](Self::why), of a pass within a driver's limits: of these the backoff counts. It
    /// is for a question to a running loop, with all that such a question sees.
    ///
    /// # Errors
    ///
    /// As [`plan`](Self::plan). [`ErrorKind::Ended`](crate::ErrorKind::Ended) if the namespace is
    /// not that of the subscription.
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

    /// Runs a pass up to its first plan. Its policy is also for objects of the kinds in `more`.
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

    /// Opens sockets in the namespace, which has to be that of the subscription, if there is one.
    fn open(&self, scope: &Namespace, desired: &Desired) -> Result<Connection, Error> {
        let pinned = scope.pinned().map_err(|error| self.open_error(error))?;
        self.require_bound(scope, &pinned)?;
        let opened = match self.events {
            Some(_) => Connection::open(&pinned),
            None => Connection::open_once(&pinned, desired),
        };
        opened.map_err(|error| self.open_error(error))
    }

    /// Refuses a namespace that is not that of the subscription, if there is one.
    fn require_bound(&self, scope: &Namespace, now: &Namespace) -> Result<(), Error> {
        let Some(bound) = self.bound_to() else {
            return Ok(());
        };
        match now.id().map_err(|error| self.open_error(error))? {
            id if id == bound => Ok(()),
            _ => Err(Error::replaced(scope)),
        }
    }

    /// The namespace of the subscription, if there is one.
    fn bound_to(&self) -> Option<NamespaceId> {
        self.events.as_ref().map(Events::namespace)
    }

    fn open_error(&self, error: trueup_netlink::Error) -> Error {
        match self.bound_to() {
            Some(_) => Error::of_reopening(error),
            None => Error::from(error),
        }
    }

    /// Takes the sockets of the last pass, or opens others, in the namespace, which has to be that
    /// of the subscription, if there is one.
    fn connect(&mut self, scope: &Namespace, desired: &Desired) -> Result<Connection, Error> {
        let kept = self.connection.take();
        // Once the subscription has ended, a pass may be over another namespace.
        if let Some(kept) = kept.filter(|_| self.bound_to().is_some()) {
            self.require_bound(scope, scope)?;
            return Ok(kept);
        }
        if let Some(events) = &mut self.events {
            // The port of a socket that is closed may be another's by now.
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
        // If this pass fails, the next one is over everything.
        let mut baseline = self.baseline.take();
        if let Some(baseline) = &mut baseline {
            baseline.follow(desired, options.protocol());
        }
        // Without a subscription nothing is known of what happened since the last pass.
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
        let mode = match (limits.extent(), baseline.as_mut()) {
            (Extent::Dirty, Some(baseline)) => {
                baseline.decide(&self.history, desired, options, &dirty, limits.due())
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
        // The old ones first: two sockets would be given each event twice.
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

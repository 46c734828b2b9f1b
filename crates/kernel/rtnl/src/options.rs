//! The options of a pass: the proof of ownership, and the treatment of foreign objects.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use trueup_net::{DEFAULT_PROTOCOL, Domain, Kind, Kinds, MaxDeletes, Ownership, Protocols};

use crate::Error;

/// Options of a pass.
///
/// [`Options::default`] gives the defaults, and their assumptions.
///
/// ```
/// use std::time::Duration;
/// use trueup_rtnl::Options;
///
/// let options = Options::default().with_adopt(true).with_grace(Duration::from_secs(60));
/// assert_eq!(options.protocol(), 116); // the default marker
/// assert_eq!(options.grace(), Duration::from_secs(60));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    protocol: u8,
    by_marker: Kinds,
    by_ledger: Kinds,
    adopt: bool,
    adopt_protocols: Protocols,
    take: bool,
    grace: Duration,
    contention: (u32, Duration),
    domain: Arc<Domain>,
    strict: bool,
    max_deletes: Option<MaxDeletes>,
    allow_deletes: Option<Allowance>,
}

/// Allows the next full pass to delete the objects that it would hold. Two are equal only if they
/// share one switch.
#[derive(Clone, Debug)]
struct Allowance(Arc<AtomicBool>);

impl PartialEq for Allowance {
    fn eq(&self, other: &Allowance) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Allowance {}

impl Options {
    /// Sets the marker, the protocol number of our objects, instead of [`DEFAULT_PROTOCOL`].
    ///
    /// ```
    /// use trueup_rtnl::Options;
    ///
    /// let options = Options::default().with_protocol(200)?;
    /// assert_eq!(options.protocol(), 200);
    /// assert!(Options::default().with_protocol(2).is_err()); // `kernel`
    /// # Ok::<(), trueup_rtnl::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// For 0 to 4 and 9 (unspecified, redirect, kernel, boot, static, router advertisement), since
    /// the kernel and manual commands use them. Also for a number that is
    /// [registered](Protocols::REGISTERED) for another program.
    pub fn with_protocol(self, protocol: u8) -> Result<Options, Error> {
        match Protocols::registered_name(protocol) {
            Some(_) => Err(Error::reserved(protocol)),
            None => self.with_registered_protocol(protocol),
        }
    }

    /// Sets the marker like [`with_protocol`](Self::with_protocol), but accepts a registered
    /// number. Only for the program to which it is registered.
    ///
    /// # Errors
    ///
    /// For 0 to 4 and 9.
    pub fn with_registered_protocol(self, protocol: u8) -> Result<Options, Error> {
        if Protocols::UNMARKED.contains(protocol) {
            return Err(Error::reserved(protocol));
        }
        Ok(Options { protocol, ..self })
    }

    /// Sets the proof of ownership for a kind, regardless of this kernel. By default it is the
    /// marker if the kernel stores one, else the ledger. Links have no marker, and nexthop objects
    /// always go by it.
    #[must_use]
    pub fn with_ownership(mut self, kind: Kind, ownership: Ownership) -> Options {
        self.by_marker = self.by_marker.without(kind);
        self.by_ledger = self.by_ledger.without(kind);
        match ownership {
            Ownership::Marker => self.by_marker = self.by_marker.with(kind),
            Ownership::Ledger => self.by_ledger = self.by_ledger.with(kind),
        }
        self
    }

    /// Makes foreign objects ours if they are already as desired. Off by default. Objects whose
    /// protocol may be another agent's marker also need [`Options::with_adopt_protocols`].
    #[must_use]
    pub fn with_adopt(self, adopt: bool) -> Options {
        Options { adopt, ..self }
    }

    /// Sets the protocols whose objects may be adopted besides [`Protocols::UNMARKED`]. None by
    /// default, since any other may be the marker of an agent that still manages its objects.
    #[must_use]
    pub fn with_adopt_protocols(self, adopt_protocols: Protocols) -> Options {
        Options { adopt_protocols, ..self }
    }

    /// Replaces foreign objects on desired keys if that is possible in place. Their former state is
    /// recorded, and restored once the keys are no longer desired. Off by default: foreign objects
    /// stay, and the report lists them as conflicts.
    #[must_use]
    pub fn with_take(self, take: bool) -> Options {
        Options { take, ..self }
    }

    /// Sets the time for which an object with our marker is left alone if this source never saw it
    /// declared: another agent with our marker may have created it. 0 by default.
    #[must_use]
    pub fn with_grace(self, grace: Duration) -> Options {
        Options { grace, ..self }
    }

    /// Sets the number of losses to another writer within `window` from which an object counts as
    /// contended. Three in a minute by default.
    #[must_use]
    pub fn with_contention(self, times: u32, window: Duration) -> Options {
        Options { contention: (times, window), ..self }
    }

    /// Limits the agent to a part of the namespace. All of it by default. Objects outside are
    /// another writer's, even with our marker.
    #[must_use]
    pub fn with_domain(self, domain: impl Into<Arc<Domain>>) -> Options {
        Options { domain: domain.into(), ..self }
    }

    /// Refuses the whole desired state if an object names a device that neither exists nor is
    /// declared. By default only that object is pending until the device appears.
    #[must_use]
    pub fn with_strict(self, strict: bool) -> Options {
        Options { strict, ..self }
    }

    /// Holds all deletes of a kind if more of its objects than this are no longer desired, until
    /// they are few enough or [allowed](Self::with_allow_deletes). Other ops go on. No limit by
    /// default. Recreated objects do not count.
    ///
    /// ```
    /// use trueup_net::MaxDeletes;
    /// use trueup_rtnl::Options;
    ///
    /// let options = Options::default().with_max_deletes(MaxDeletes::Percent(50));
    /// assert_eq!(options.max_deletes(), Some(MaxDeletes::Percent(50)));
    /// assert_eq!(options.with_no_max_deletes().max_deletes(), None);
    /// ```
    #[must_use]
    pub fn with_max_deletes(self, max_deletes: MaxDeletes) -> Options {
        Options { max_deletes: Some(max_deletes), ..self }
    }

    /// Removes the limit of [`with_max_deletes`](Self::with_max_deletes): a pass may delete any
    /// number of objects.
    #[must_use]
    pub fn with_no_max_deletes(self) -> Options {
        Options { max_deletes: None, ..self }
    }

    /// Sets the switch that releases held deletes in a running loop. If it is true, the next full
    /// pass deletes the objects that it would hold, and resets it to false. A pass that is cut
    /// short leaves the rest held.
    #[must_use]
    pub fn with_allow_deletes(self, allow_deletes: Arc<AtomicBool>) -> Options {
        Options { allow_deletes: Some(Allowance(allow_deletes)), ..self }
    }

    /// Returns the protocol number of our objects.
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// Returns the proof set for a kind, or `None` for the default.
    pub fn ownership(&self, kind: Kind) -> Option<Ownership> {
        if self.by_marker.contains(kind) {
            Some(Ownership::Marker)
        } else if self.by_ledger.contains(kind) {
            Some(Ownership::Ledger)
        } else {
            None
        }
    }

    /// Returns true if foreign objects that are as desired are adopted.
    pub fn adopt(&self) -> bool {
        self.adopt
    }

    /// Returns the protocols of other agents whose objects may be adopted.
    pub fn adopt_protocols(&self) -> Protocols {
        self.adopt_protocols
    }

    /// Returns true if foreign objects on desired keys are replaced.
    pub fn take(&self) -> bool {
        self.take
    }

    /// Returns the time for which an orphan is left alone.
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// Returns the number of losses from which an object counts as contended, and the window in
    /// which they count.
    pub fn contention(&self) -> (u32, Duration) {
        self.contention
    }

    /// Returns the limit on undesired objects of a kind that a pass may delete, or `None` for no
    /// limit.
    pub fn max_deletes(&self) -> Option<MaxDeletes> {
        self.max_deletes
    }

    /// Returns true, once, if the caller has allowed the deletes of this pass.
    pub(crate) fn take_allowance(&self) -> bool {
        self.allow_deletes.as_ref().is_some_and(|it| it.0.swap(false, Ordering::Relaxed))
    }

    /// Returns true if one missing device makes the whole desired state an error.
    pub fn strict(&self) -> bool {
        self.strict
    }

    /// Returns the part of the namespace that this agent manages.
    pub fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }
}

impl Default for Options {
    /// Assumes that only one agent uses a marker in a namespace, and declares all of its objects
    /// there. Any other object with the marker is an orphan of an earlier run, and is deleted.
    ///
    /// If several agents, or several short runs of one, share a namespace, give each its own marker
    /// ([`with_protocol`](Options::with_protocol)), or its own ledger and [`Ownership::Ledger`] for
    /// each kind ([`with_ownership`](Options::with_ownership)).
    fn default() -> Options {
        Options {
            protocol: DEFAULT_PROTOCOL,
            by_marker: Kinds::NONE,
            by_ledger: Kinds::NONE,
            adopt: false,
            adopt_protocols: Protocols::NONE,
            take: false,
            grace: Duration::ZERO,
            contention: (3, Duration::from_secs(60)),
            domain: Arc::default(),
            strict: false,
            max_deletes: None,
            allow_deletes: None,
        }
    }
}

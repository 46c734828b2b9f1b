//! What proves an object ours, and what a pass does where nothing does.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use trueup_net::{DEFAULT_PROTOCOL, Domain, Kind, Kinds, MaxDeletes, Ownership, Protocols};

use crate::Error;

/// Options of a pass.
///
/// [`Options::default`] says what they are unless set otherwise, and what that assumes.
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

/// Tells the next pass over everything that it may delete what it would hold. Two are equal if they
/// are one.
#[derive(Clone, Debug)]
struct Allowance(Arc<AtomicBool>);

impl PartialEq for Allowance {
    fn eq(&self, other: &Allowance) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Allowance {}

impl Options {
    /// With another marker than [`DEFAULT_PROTOCOL`]: the protocol number that our objects bear
    /// and that proves them ours.
    ///
    /// # Errors
    ///
    /// For 0 to 4 and 9 (unspecified, redirect, kernel, boot, static, router advertisement):
    /// objects that bear those are made by the kernel and by hand. And for a number that is
    /// [registered](Protocols::REGISTERED) for another program.
    pub fn with_protocol(self, protocol: u8) -> Result<Options, Error> {
        match Protocols::registered_name(protocol) {
            Some(_) => Err(Error::reserved(protocol)),
            None => self.with_registered_protocol(protocol),
        }
    }

    /// As [`with_protocol`](Self::with_protocol), for a number that may be registered: only for the
    /// program whose number it is.
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

    /// With a proof of ownership for the objects of a kind, whatever this kernel stores. By default
    /// it is the marker if the kernel stores one, otherwise the ledger. Links have no marker, and
    /// nexthop objects are always proven by it.
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

    /// Adopts foreign objects that are as desired: they become ours. Not the default. Objects with
    /// a protocol that may be another agent's marker need [`Options::with_adopt_protocols`], too.
    #[must_use]
    pub fn with_adopt(self, adopt: bool) -> Options {
        Options { adopt, ..self }
    }

    /// Allows objects with these protocols to be adopted; none by default. Any protocol but
    /// [`Protocols::UNMARKED`] may be the marker of an agent that still looks after its objects.
    #[must_use]
    pub fn with_adopt_protocols(self, adopt_protocols: Protocols) -> Options {
        Options { adopt_protocols, ..self }
    }

    /// Replaces foreign objects on desired keys where that can be done in place. Their former state
    /// is remembered, and restored once the keys are no longer desired. Not the default: they stay,
    /// and the report says so.
    #[must_use]
    pub fn with_take(self, take: bool) -> Options {
        Options { take, ..self }
    }

    /// With the time for which an object is left alone that bears our marker and that this source
    /// has not seen declared: another agent with our marker may have created it. 0 by default.
    #[must_use]
    pub fn with_grace(self, grace: Duration) -> Options {
        Options { grace, ..self }
    }

    /// With the number of losses to another writer within `window` from which on an object counts
    /// as contended. Three in a minute by default.
    #[must_use]
    pub fn with_contention(self, times: u32, window: Duration) -> Options {
        Options { contention: (times, window), ..self }
    }

    /// With the part of the namespace that this agent speaks for; all of it by default. Objects
    /// outside are another writer's, whatever they bear.
    #[must_use]
    pub fn with_domain(self, domain: impl Into<Arc<Domain>>) -> Options {
        Options { domain: domain.into(), ..self }
    }

    /// Refuses the whole desired state if one object names a device that neither exists nor is
    /// declared. By default such an object alone is pending until the device comes.
    #[must_use]
    pub fn with_strict(self, strict: bool) -> Options {
        Options { strict, ..self }
    }

    /// Holds all deletes of a kind if more of its objects than this are no longer desired, until
    /// they are few enough or [allowed](Self::with_allow_deletes). All else goes on. No limit by default.
    /// Recreated objects do not count.
    #[must_use]
    pub fn with_max_deletes(self, max_deletes: impl Into<Option<MaxDeletes>>) -> Options {
        Options { max_deletes: max_deletes.into(), ..self }
    }

    /// Sets what releases held deletes in a running loop: once it is true, the next pass over
    /// everything deletes what it would hold, and makes it false again. A pass that is cut short
    /// leaves the rest held.
    #[must_use]
    pub fn with_allow_deletes(self, allow_deletes: Arc<AtomicBool>) -> Options {
        Options { allow_deletes: Some(Allowance(allow_deletes)), ..self }
    }

    /// The marker.
    pub fn protocol(&self) -> u8 {
        self.protocol
    }

    /// What was said of the objects of a kind.
    pub fn ownership(&self, kind: Kind) -> Option<Ownership> {
        if self.by_marker.contains(kind) {
            Some(Ownership::Marker)
        } else if self.by_ledger.contains(kind) {
            Some(Ownership::Ledger)
        } else {
            None
        }
    }

    /// Returns true if foreign objects as desired are adopted.
    pub fn adopt(&self) -> bool {
        self.adopt
    }

    /// The protocols of other agents whose objects may be adopted.
    pub fn adopt_protocols(&self) -> Protocols {
        self.adopt_protocols
    }

    /// Returns true if foreign objects on desired keys are replaced.
    pub fn take(&self) -> bool {
        self.take
    }

    /// How long an orphan is left alone.
    pub fn grace(&self) -> Duration {
        self.grace
    }

    /// The number of losses from which on an object counts as contended, and the time within which
    /// they count.
    pub fn contention(&self) -> (u32, Duration) {
        self.contention
    }

    /// The most objects of a kind that a pass deletes as no longer desired.
    pub fn max_deletes(&self) -> Option<MaxDeletes> {
        self.max_deletes
    }

    /// Returns true if the caller has allowed the deletes of the pass that asks.
    pub(crate) fn take_allowance(&self) -> bool {
        self.allow_deletes.as_ref().is_some_and(|it| it.0.swap(false, Ordering::Relaxed))
    }

    /// Returns true if one missing device is an error of the whole desired state.
    pub fn strict(&self) -> bool {
        self.strict
    }

    /// The part of the namespace that this agent speaks for.
    pub fn domain(&self) -> &Arc<Domain> {
        &self.domain
    }
}

impl Default for Options {
    /// Assumes that one agent alone uses a marker in a namespace, and declares all that is to be
    /// there of its own: what else bears that marker is an orphan of an earlier run, and is
    /// deleted.
    ///
    /// Where several agents, or several short runs of one, share a namespace, each needs a marker
    /// of its own ([`with_protocol`](Options::with_protocol)), or a ledger of its own and
    /// [`Ownership::Ledger`] for each kind ([`with_ownership`](Options::with_ownership)).
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

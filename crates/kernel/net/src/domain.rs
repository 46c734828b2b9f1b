//! The part of a namespace that one agent manages.

use std::collections::BTreeSet;
use std::ops::RangeInclusive;

use crate::each_kind;
use crate::kinds::{Kinds, Located as _, ObjectKind, Part};
use crate::values::{InterfacePattern, Prefix};

/// The part of a network namespace that one agent manages. [`Domain::default`] is all of it.
///
/// Objects outside count as another writer's, with any protocol, and even if the ledger lists them.
/// trueup does not delete, override or adopt them, and holds an op that would take them along. It
/// also holds desired objects outside ([`Hold::OutsideDomain`](crate::Hold::OutsideDomain)). So
/// several agents can share a namespace and a marker.
///
/// A domain has parts. None limits it until given:
///
/// | part | limits |
/// |---|---|
/// | `interfaces`, `created_interfaces` | links, objects on them, and routes, by their devices |
/// | `tables` | routes |
/// | `prefixes` | routes, by their destination |
/// | `rule_priorities` | rules |
/// | `nexthop_objects` | nexthop objects |
/// | `ledger_only` | existing objects |
///
/// Once a part is given, an object is inside if at least one part allows it and none forbids it. A
/// domain of tables alone has no links, addresses, neighbours or rules.
///
/// ```
/// use trueup_net::Domain;
///
/// let domain = Domain::default()
///     .with_interfaces(["veth*".parse()?])
///     .with_prefixes(["10.244.1.0/24".parse()?]);
/// assert!(domain.is_limited());
/// # Ok::<(), trueup_net::ParseError>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[non_exhaustive]
pub struct Domain {
    /// The domain's name, for messages. It limits nothing.
    pub name: Option<String>,
    /// Protocols of other writers whose objects may go along with ours, without holding an op. They
    /// limit nothing, and the plan and the report name them.
    pub may_go_along: BTreeSet<u8>,
    /// Interfaces with these names. A link matches by its own name, an address or neighbour by its
    /// device's. All of a route's next hops must lead out of such interfaces.
    pub interfaces: Vec<InterfacePattern>,
    /// True for the interfaces that this agent created, by its ledger, or is to create.
    pub created_interfaces: bool,
    /// Routes in tables with these numbers, from 1 to 4294967295.
    pub tables: Vec<RangeInclusive<u32>>,
    /// Routes to destinations within these prefixes.
    pub prefixes: Vec<Prefix>,
    /// Rules with these priorities (`FRA_PRIORITY`), 0 to 4294967295.
    pub rule_priorities: Vec<RangeInclusive<u32>>,
    /// True for all nexthop objects with the marker and a number from its range. No other agent may
    /// use the same marker for them.
    pub nexthop_objects: bool,
    /// True if, of the existing objects, only those in the ledger are inside: the marker proves
    /// nothing. Desired objects are all inside.
    pub ledger_only: bool,
}

setters! { impl Domain {
    with_may_go_along(may_go_along: impl Into<BTreeSet<u8>>);
    with_interfaces(interfaces: impl Into<Vec<InterfacePattern>>);
    with_created_interfaces(created_interfaces: bool);
    with_tables(tables: impl Into<Vec<RangeInclusive<u32>>>);
    with_prefixes(prefixes: impl Into<Vec<Prefix>>);
    with_rule_priorities(rule_priorities: impl Into<Vec<RangeInclusive<u32>>>);
    with_nexthop_objects(nexthop_objects: bool);
    with_ledger_only(ledger_only: bool);
} }

impl Domain {
    /// Sets the [`name`](#structfield.name) for messages.
    #[must_use]
    pub fn with_name(self, name: impl Into<String>) -> Domain {
        Domain { name: Some(name.into()), ..self }
    }

    /// Returns true if a part is given, so that some objects are outside.
    pub fn is_limited(&self) -> bool {
        let whole = Domain {
            name: self.name.clone(),
            may_go_along: self.may_go_along.clone(),
            ..Domain::default()
        };
        *self != whole
    }

    /// Returns the kinds of which one object can be in both domains. Two agents never both own a
    /// link by having created it, nor an object by their ledgers.
    ///
    /// ```
    /// use trueup_net::{Domain, Kind, Kinds};
    ///
    /// let one = Domain::default().with_tables([100..=199]);
    /// let other = Domain::default().with_tables([150..=150]);
    /// assert_eq!(one.overlap(&other), Kinds::NONE.with(Kind::Route));
    /// assert_eq!(one.overlap(&Domain::default().with_tables([200..=299])), Kinds::NONE);
    /// ```
    pub fn overlap(&self, other: &Domain) -> Kinds {
        let mut overlap = Kinds::NONE;
        each_kind!(K => {
            let is_by_ledgers = self.ledger_only && other.ledger_only && !K::MARKER_IS_SURE;
            let is_apart = is_by_ledgers || K::PARTS.iter().any(|part| part.is_apart(self, other));
            if self.has_any::<K>() && other.has_any::<K>() && !is_apart {
                overlap = overlap.with(K::KIND);
            }
        });
        overlap
    }

    /// Returns true if an object of the kind can be in the domain.
    fn has_any<K: ObjectKind>(&self) -> bool {
        !self.is_limited()
            || self.has_all_desired::<K>()
            || K::PARTS.iter().any(|part| part.is_given(self))
    }

    /// Returns true if the ledger alone decides which objects of the kind are ours, and any may be
    /// desired.
    pub(crate) fn has_all_desired<K: ObjectKind>(&self) -> bool {
        self.ledger_only && !K::MARKER_IS_SURE
    }
}

impl Part {
    /// Returns true if the part limits the domain.
    pub(crate) fn is_given(self, domain: &Domain) -> bool {
        match self {
            Part::Interfaces => domain.created_interfaces || !domain.interfaces.is_empty(),
            Part::Tables => !domain.tables.is_empty(),
            Part::Prefixes => !domain.prefixes.is_empty(),
            Part::RulePriorities => !domain.rule_priorities.is_empty(),
            Part::NexthopObjects => domain.nexthop_objects,
        }
    }

    /// Returns true if both domains give the part, and have nothing of it in common.
    fn is_apart(self, one: &Domain, other: &Domain) -> bool {
        let meet = match self {
            Part::Interfaces => {
                any_pair(&one.interfaces, &other.interfaces, InterfacePattern::meets)
            }
            Part::Tables => any_pair(&one.tables, &other.tables, ranges_meet),
            Part::Prefixes => any_pair(&one.prefixes, &other.prefixes, |one, other| {
                one.covers(*other) || other.covers(*one)
            }),
            Part::RulePriorities => {
                any_pair(&one.rule_priorities, &other.rule_priorities, ranges_meet)
            }
            Part::NexthopObjects => true,
        };
        self.is_given(one) && self.is_given(other) && !meet
    }
}

fn ranges_meet(one: &RangeInclusive<u32>, other: &RangeInclusive<u32>) -> bool {
    one.start() <= other.end() && other.start() <= one.end()
}

fn any_pair<T>(one: &[T], other: &[T], meet: impl Fn(&T, &T) -> bool) -> bool {
    one.iter().any(|one| other.iter().any(|other| meet(one, other)))
}

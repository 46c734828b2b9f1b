//! The part of a namespace that an agent speaks for.

use std::collections::BTreeSet;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use crate::devices::Devices;
use crate::each_kind;
use crate::kinds::{Kinds, Link, ObjectKind};
use crate::ownership::Owned;
use crate::values::{Dev, IfName, ParseError, Prefix};

/// The part of a network namespace that an agent speaks for. [`Domain::default`] is all of it.
///
/// What is outside counts as another writer's, whatever protocol it bears and whatever the ledger
/// says: it is not deleted, overridden nor adopted, and an op that would take it along is held.
/// What is desired outside is held, too ([`Hold::OutsideDomain`](crate::Hold::OutsideDomain)). So
/// several agents can share a namespace, and a marker.
///
/// A domain has parts, each of them without limit until it is given:
///
/// | part | limits |
/// |---|---|
/// | `interfaces`, `created_interfaces` | links, what is on them, and routes, by their devices |
/// | `tables` | routes |
/// | `prefixes` | routes, by their destination |
/// | `rule_priorities` | rules |
/// | `nexthop_objects` | nexthop objects |
/// | `ledger_only` | what is there already |
///
/// As soon as one part is given, an object is inside where no part forbids it and one at least
/// allows it: a domain of tables alone has no links, addresses, neighbours nor rules.
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
    /// What it is called. It limits nothing.
    pub name: Option<String>,
    /// The protocols of other writers whose objects may go along with ours: they hold no op. They
    /// limit nothing, and are named in the plan and the report.
    pub may_go_along: BTreeSet<u8>,
    /// The interfaces of these names. Links by their own, addresses and neighbours by that which
    /// they are on; of a route all next hops have to lead out of such.
    pub interfaces: Vec<InterfacePattern>,
    /// The interfaces that this agent has created, as its ledger says, and those that it is to
    /// create.
    pub created_interfaces: bool,
    /// The routing tables with these numbers.
    pub tables: Vec<RangeInclusive<u32>>,
    /// Routes to destinations within these.
    pub prefixes: Vec<Prefix>,
    /// Rules of these priorities.
    pub rule_priorities: Vec<RangeInclusive<u32>>,
    /// All nexthop objects that bear the marker and have a number of its own: no other agent with
    /// the marker may use some.
    pub nexthop_objects: bool,
    /// All that is desired, and of what is there already only what is in the ledger: the marker
    /// proves nothing.
    pub ledger_only: bool,
}

setters! { impl Domain {
    with_name(name: impl Into<Option<String>>);
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
    /// Returns true if a part is given: then there is something outside.
    pub fn is_limited(&self) -> bool {
        let whole = Domain {
            name: self.name.clone(),
            may_go_along: self.may_go_along.clone(),
            ..Domain::default()
        };
        *self != whole
    }

    /// Returns the kinds of which an object can be in this domain and in that of another agent. Two
    /// agents never own the same link by having created it, nor the same object by their ledgers.
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

    /// Returns true if the ledger says of each object of the kind whether it is ours, and all may
    /// be desired.
    fn has_all_desired<K: ObjectKind>(&self) -> bool {
        self.ledger_only && !K::MARKER_IS_SURE
    }
}

/// What a domain asks of an object.
pub trait Located {
    /// The parts of a domain that limit the kind.
    const PARTS: &'static [Part] = &[Part::Interfaces];

    /// Returns what those parts ask for.
    fn place(&self) -> Place;
}

/// A part of a domain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Of links themselves, of all else the devices that it is on or leads out of.
    Interfaces,
    /// The table of a route.
    Tables,
    /// The destination of a route.
    Prefixes,
    /// The priority of a rule.
    RulePriorities,
    /// Whether nexthop objects are in the domain, all of them.
    NexthopObjects,
}

impl Part {
    /// Returns true if the part limits the domain.
    fn is_given(self, domain: &Domain) -> bool {
        match self {
            Part::Interfaces => domain.created_interfaces || !domain.interfaces.is_empty(),
            Part::Tables => !domain.tables.is_empty(),
            Part::Prefixes => !domain.prefixes.is_empty(),
            Part::RulePriorities => !domain.rule_priorities.is_empty(),
            Part::NexthopObjects => domain.nexthop_objects,
        }
    }

    /// Returns true if both domains give the part, and it has nothing in common.
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

/// The name of an interface, or a pattern of names: `*` stands for any bytes, or none.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct InterfacePattern(Vec<u8>);

impl InterfacePattern {
    /// A pattern from its bytes, which need not be UTF-8.
    ///
    /// # Errors
    ///
    /// When no name fits: what is beside `*` is more than 15 bytes, or has one that no name has.
    pub fn from_bytes(pattern: &[u8]) -> Result<InterfacePattern, ParseError> {
        let rest: Vec<u8> = pattern.iter().copied().filter(|byte| *byte != ANY).collect();
        if pattern.is_empty() || !rest.is_empty() {
            IfName::from_bytes(&rest)
                .map_err(|_| ParseError::IfName(String::from_utf8_lossy(pattern).into_owned()))?;
        }
        Ok(InterfacePattern(pattern.to_vec()))
    }

    /// The bytes of the pattern.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Returns true if the name fits the pattern.
    pub fn matches(&self, name: &IfName) -> bool {
        let mut parts = self.0.split(|byte| *byte == ANY);
        let first = parts.next().unwrap_or_default();
        let Some(mut rest) = name.as_bytes().strip_prefix(first) else {
            return false;
        };
        let Some(last) = parts.next_back() else {
            return rest.is_empty();
        };
        for part in parts {
            match (0..=rest.len()).find(|at| rest[*at..].starts_with(part)) {
                Some(at) => rest = &rest[at + part.len()..],
                None => return false,
            }
        }
        rest.ends_with(last)
    }

    /// Returns true if a name can fit both patterns.
    fn meets(&self, other: &InterfacePattern) -> bool {
        let (one, other) = (self.as_bytes(), other.as_bytes());
        // By how much of either is read: whether a name can have fitted both so far.
        let mut fits = vec![vec![false; other.len() + 1]; one.len() + 1];
        fits[0][0] = true;
        for at in 0..=one.len() {
            for of in 0..=other.len() {
                let is_same = at > 0 && of > 0 && one[at - 1] == other[of - 1];
                // Where one has `*`, that ends here, or takes what the other has here.
                let is_any = at > 0 && one[at - 1] == ANY || of > 0 && other[of - 1] == ANY;
                fits[at][of] |= is_same && fits[at - 1][of - 1]
                    || is_any && (at > 0 && fits[at - 1][of] || of > 0 && fits[at][of - 1]);
            }
        }
        fits[one.len()][other.len()]
    }
}

/// What stands for any bytes in a pattern.
const ANY: u8 = b'*';

impl FromStr for InterfacePattern {
    type Err = ParseError;

    /// # Errors
    ///
    /// As [`from_bytes`](Self::from_bytes).
    fn from_str(text: &str) -> Result<InterfacePattern, ParseError> {
        InterfacePattern::from_bytes(text.as_bytes())
    }
}

impl From<IfName> for InterfacePattern {
    fn from(name: IfName) -> InterfacePattern {
        InterfacePattern(name.as_bytes().to_vec())
    }
}

impl fmt::Display for InterfacePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&String::from_utf8_lossy(&self.0))
    }
}

/// What the parts of a domain ask of an object, as far as it has that.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Place {
    /// The link that it is.
    pub link: Option<IfName>,
    /// The devices that it is on, or leads out of.
    pub devices: Vec<Dev>,
    /// The table of a route.
    pub table: Option<u32>,
    /// The destination of a route.
    pub prefix: Option<Prefix>,
    /// The priority of a rule.
    pub rule_priority: Option<u32>,
}

setters! { impl Place {
    with_link(link: impl Into<Option<IfName>>);
    with_devices(devices: impl Into<Vec<Dev>>);
    with_table(table: impl Into<Option<u32>>);
    with_prefix(prefix: impl Into<Option<Prefix>>);
    with_rule_priority(rule_priority: impl Into<Option<u32>>);
} }

/// A domain among the devices that are there, and those that are planned.
#[derive(Clone, Debug)]
pub(crate) struct DomainDevices<'a> {
    domain: &'a Domain,
    is_limited: bool,
    names: BTreeSet<IfName>,
    devices: BTreeSet<Dev>,
}

impl<'a> DomainDevices<'a> {
    pub(crate) fn of(domain: &'a Domain, links: &[Link], owned: &Owned) -> DomainDevices<'a> {
        let mut devices = DomainDevices {
            domain,
            is_limited: domain.is_limited(),
            names: BTreeSet::new(),
            devices: BTreeSet::new(),
        };
        if Part::Interfaces.is_given(domain) {
            for link in links {
                let is_created = owned.links.contains(&link.index);
                devices.add(Dev::index(link.index), link.name, is_created);
            }
        }
        devices
    }

    /// With the devices that do not exist: those that a plan creates, and missing ones.
    pub(crate) fn with_new(mut self, devices: &Devices) -> Self {
        if Part::Interfaces.is_given(self.domain) {
            let planned = devices.planned();
            planned.for_each(|(dev, name)| self.add(dev, *name, true));
            let missing = devices.missing();
            missing.for_each(|(dev, name)| self.add(dev, *name, false));
        }
        self
    }

    fn add(&mut self, dev: Dev, name: IfName, is_created: bool) {
        if self.domain.created_interfaces && is_created
            || self.domain.interfaces.iter().any(|pattern| pattern.matches(&name))
        {
            self.names.insert(name);
            self.devices.insert(dev);
        }
    }

    /// Returns true if an object is in the domain.
    pub(crate) fn contains<K: ObjectKind>(&self, object: &K) -> bool {
        !self.is_limited || self.has_place::<K>(&object.place())
    }

    /// Returns true if what is at such a place is in the domain, which is limited.
    pub(crate) fn has_place<K: ObjectKind>(&self, place: &Place) -> bool {
        let given = K::PARTS.iter().filter(|part| part.is_given(self.domain));
        let mut answers = given.filter_map(|part| self.answer(*part, place)).peekable();
        let is_asked = answers.peek().is_some();
        (is_asked || self.domain.has_all_desired::<K>()) && answers.all(|is_inside| is_inside)
    }

    /// Returns true if a part that is given allows what is at such a place, and false if it forbids
    /// it; `None` where it has nothing that the part could ask for.
    fn answer(&self, part: Part, place: &Place) -> Option<bool> {
        let domain = self.domain;
        match part {
            Part::Interfaces => match place.link {
                Some(link) => Some(self.names.contains(&link)),
                None if place.devices.is_empty() => None,
                None => Some(place.devices.iter().all(|dev| self.devices.contains(dev))),
            },
            Part::Tables => {
                place.table.map(|table| domain.tables.iter().any(|all| all.contains(&table)))
            }
            Part::Prefixes => {
                place.prefix.map(|of| domain.prefixes.iter().any(|all| all.covers(of)))
            }
            Part::RulePriorities => place
                .rule_priority
                .map(|of| domain.rule_priorities.iter().any(|all| all.contains(&of))),
            Part::NexthopObjects => Some(true),
        }
    }
}

//! Explains single objects: what the kernel holds, whose it is and by what proof, what is desired,
//! and what the next pass would do. It observes and plans as a pass does, and returns data for the
//! caller to put in words.

mod explain;

use std::net::IpAddr;

use trueup_net::{
    Conflict, Dev, Devices, Family, IfName, Kind, Object, ObjectKey, Op, Prefix, Route,
};
use trueup_observe::Incomplete;

pub(crate) use explain::explain;

/// Which objects are asked about. What is left open is any.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Query {
    /// A link.
    Link {
        /// Its name.
        name: IfName,
    },
    /// Addresses.
    Address {
        /// The address itself.
        address: IpAddr,
        /// Its prefix length.
        len: Option<u8>,
        /// The device.
        dev: Option<IfName>,
    },
    /// Neighbours, and proxy entries.
    Neighbour {
        /// The IP address.
        dst: IpAddr,
        /// The device.
        dev: Option<IfName>,
    },
    /// Routes, of whatever source prefix.
    Route {
        /// The destination.
        dst: Prefix,
        /// The table.
        table: Option<u32>,
        /// The metric, as the kernel reports it: 1024 for an IPv6 route without one.
        metric: Option<u32>,
        /// The type of service.
        tos: Option<u8>,
    },
    /// Rules.
    Rule {
        /// The priority.
        priority: u32,
        /// The family.
        family: Option<Family>,
    },
}

/// What there is to say.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// The objects that were asked about and are there, desired, or in the ledger; in key order.
    pub objects: Vec<Explained>,
    /// The devices that they refer to.
    pub devices: Devices,
    /// Why their kind could not be read whole: then there may be more of them.
    pub doubts: Vec<Incomplete>,
}

/// All about one key. Equal rules of different protocols count as one, as any of them satisfies the
/// declaration.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explained {
    /// The key. The protocol of a rule in it means nothing.
    pub key: ObjectKey,
    /// What the kernel holds on it, and whose that is.
    pub present: Vec<(Object, Whose)>,
    /// What the ledger holds on it.
    pub entry: Option<Entry>,
    /// What is desired, and its position in the list of its kind.
    pub desired: Option<(usize, Object)>,
    /// What the next pass would do, in its order; at least one.
    pub next: Vec<Step>,
}

/// Whose an object is, and what shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Whose {
    /// Ours: it bears our marker, which this kernel keeps.
    Marked,
    /// Ours: it is in the ledger, and still as it was recorded. The entry says how it came there.
    Recorded,
    /// The kernel's own.
    Kernels,
    /// A transient entry of the kernel, such as a resolved neighbour: no writer declared it.
    Passing,
    /// Not ours any more: the ledger has another on this key, and this one took its place.
    Rewritten,
    /// Foreign: it would be ours, but is outside of the domain of this agent.
    OutsideDomain,
    /// Foreign: it bears our marker, which proves nothing of it, and is not in the ledger.
    MarkUnproven,
    /// Foreign: it bears no marker, and is not in the ledger.
    Unmarked,
    /// Foreign: it bears another writer's protocol.
    Others {
        /// The protocol.
        protocol: u8,
    },
}

/// What the ledger holds on a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// As it was last observed while ours; of an open intent, as it is to be.
    pub object: Object,
    /// How it became ours.
    pub origin: Origin,
    /// The former object, if it was overridden. It is restored once the key is no longer desired.
    pub former: Option<Object>,
    /// True if a pass began something there, and what became of it is not known.
    pub is_open: bool,
}

/// How an object became ours, as far as the ledger shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// trueup created it.
    Made,
    /// It was there as desired, and adopted.
    Adopted,
    /// It overrides another writer's object.
    Overridden,
    /// Created or adopted: where the kernel stores no protocol, they look alike.
    MadeOrAdopted,
}

/// What the next pass would do.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// This op, which says why it is there, and what holds it.
    Op {
        /// The op.
        op: Box<Op>,
        /// The op that is held, and without which this one is not carried out.
        waits_for: Option<Box<Op>>,
    },
    /// Report that a foreign object is on the key, and leave it there.
    Conflict(Box<Conflict>),
    /// Record what is there as ours, and leave it as it is.
    Adopt,
    /// Leave it as it is: objects of this kind are not managed.
    Unmanaged,
    /// Leave it as it is: it is ours, and as desired.
    AsDesired,
    /// Leave it as it is: a foreign object is as desired.
    SatisfiedByForeign,
    /// Leave it as it is: it is not ours, and not desired.
    Foreign,
    /// Nothing: it is neither there nor desired.
    Absent,
    /// Nothing: it comes or goes along with a link that the pass makes or deletes.
    Along,
    /// Nothing: it is the other end of a pair of which one end is desired.
    OtherEnd,
    /// Nothing: objects of this kind could not be read whole, so that nothing is deleted.
    Unread,
}

impl Whose {
    /// Returns true if it is ours to change.
    pub fn is_ours(self) -> bool {
        matches!(self, Whose::Marked | Whose::Recorded)
    }
}

impl Query {
    /// The kind that is asked about.
    pub fn kind(&self) -> Kind {
        match self {
            Query::Link { .. } => Kind::Link,
            Query::Address { .. } => Kind::Address,
            Query::Neighbour { .. } => Kind::Neighbour,
            Query::Route { .. } => Kind::Route,
            Query::Rule { .. } => Kind::Rule,
        }
    }

    /// Returns true if an object is asked about; `name` returns the names of devices.
    fn is_about(&self, object: &Object, name: impl Fn(Dev) -> Option<IfName>) -> bool {
        match (self, object) {
            (Query::Link { name }, Object::Link(link)) => link.name == *name,
            (Query::Address { address, len, dev }, Object::Address(found)) => {
                let network = found.address;
                network.ip() == *address
                    && any(len, network.prefix())
                    && (dev.is_none() || name(found.dev) == *dev)
            }
            (Query::Neighbour { dst, dev }, Object::Neighbour(found)) => {
                found.dst == *dst && (dev.is_none() || name(found.dev) == *dev)
            }
            (_, Object::Route(route)) => self.is_about_route(route),
            (Query::Rule { priority, family }, Object::Rule(found)) => {
                found.priority == *priority && any(family, found.family)
            }
            _ => false,
        }
    }

    fn is_about_route(&self, route: &Route) -> bool {
        let Query::Route { dst, table, metric, tos } = self else {
            return false;
        };
        route.dst == *dst
            && any(table, route.table)
            && any(metric, route.metric)
            && any(tos, route.tos)
    }
}

fn any<T: PartialEq>(asked: &Option<T>, found: T) -> bool {
    asked.as_ref().is_none_or(|asked| *asked == found)
}

//! Explains single objects: their state in the kernel, their owner with the proof, their
//! declaration, and the next pass's ops. It observes and plans like a pass, and returns data for
//! the caller to put in words.

mod explain;

use std::net::IpAddr;

use trueup_net::{
    Conflict, Dev, Devices, Family, IfName, Kind, Object, ObjectKey, Op, Prefix, Route,
};
use trueup_observe::Incomplete;

pub(crate) use explain::explain;

/// The objects to explain. An open field matches any value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Query {
    /// The link of one name, whether or not it exists.
    Link {
        /// The link's name; it need not exist.
        name: IfName,
    },
    /// Addresses on one device or all.
    Address {
        /// The IP address, without its prefix length.
        address: IpAddr,
        /// Its prefix length; `None` matches any.
        len: Option<u8>,
        /// The device's name; `None` matches any.
        dev: Option<IfName>,
    },
    /// Neighbours, and proxy entries.
    Neighbour {
        /// The neighbour's IP address.
        dst: IpAddr,
        /// The device's name; `None` matches any.
        dev: Option<IfName>,
    },
    /// Routes, with any source prefix.
    Route {
        /// The destination prefix.
        dst: Prefix,
        /// The table's number; `None` matches any.
        table: Option<u32>,
        /// The metric, as the kernel reports it: 1024 for an IPv6 route without one. `None` matches
        /// any.
        metric: Option<u32>,
        /// The type of service; `None` matches any.
        tos: Option<u8>,
    },
    /// Rules with a priority.
    Rule {
        /// The place in the rules' list, lowest first.
        priority: u32,
        /// The rule's address family; `None` matches any.
        family: Option<Family>,
    },
}

/// The facts about each object that a [`Query`] matches.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explanation {
    /// The matching objects that exist, are desired, or are in the ledger, by key.
    pub objects: Vec<Explained>,
    /// The devices to which they refer.
    pub devices: Devices,
    /// The reasons why their kind could not be read whole, so that there may be more of them.
    pub doubts: Vec<Incomplete>,
}

/// All facts about one key. Equal rules with different protocols count as one, since any of them
/// satisfies the declaration.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Explained {
    /// The key. A rule's protocol in it has no meaning.
    pub key: ObjectKey,
    /// The kernel's objects on the key, with their owners.
    pub present: Vec<(Object, Whose)>,
    /// The ledger's record on the key.
    pub entry: Option<Entry>,
    /// The desired object, with its position in its kind's list.
    pub desired: Option<(usize, Object)>,
    /// The next pass's steps in order; at least one.
    pub next: Vec<Step>,
}

/// The owner of an object, with the evidence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Whose {
    /// Ours: it has our marker, which this kernel stores.
    Marked,
    /// Ours: it is in the ledger, and still as recorded. The entry shows how it came there.
    Recorded,
    /// The kernel made it for itself, such as the route of an address.
    Kernels,
    /// A transient entry of the kernel, such as a resolved neighbour. No writer declared it.
    Passing,
    /// No longer ours: the ledger has another object on this key, which this one has replaced.
    Rewritten,
    /// Foreign: it would be ours, but is outside this agent's domain.
    OutsideDomain,
    /// Foreign: it has our marker, which proves nothing here, and is not in the ledger.
    MarkUnproven,
    /// Foreign: it has no marker, and is not in the ledger.
    Unmarked,
    /// Foreign: it has another writer's protocol.
    Others {
        /// The other writer's protocol number.
        protocol: u8,
    },
}

/// The ledger's record on a key.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Entry {
    /// The object as last observed while ours. For an open intent, as it is to be.
    pub object: Object,
    /// The way in which it became ours.
    pub origin: Origin,
    /// The former object, if it was overridden. It is restored once the key is no longer desired.
    pub former: Option<Object>,
    /// True if a pass began a change there with unknown outcome.
    pub is_open: bool,
}

/// The way in which an object became ours, as far as the ledger shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Origin {
    /// A pass created it.
    Made,
    /// It existed as desired, and was adopted.
    Adopted,
    /// It overrides another writer's object.
    Overridden,
    /// Created or adopted: they look alike if the kernel stores no protocol.
    MadeOrAdopted,
}

/// A step of the next pass.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Step {
    /// Carry out this op, or hold it. The op contains its reason and hold.
    Op {
        /// The op of the next plan.
        op: Box<Op>,
        /// A held op that this one needs, and so waits for.
        waits_for: Option<Box<Op>>,
    },
    /// Report a foreign object on the key, and leave it there.
    Conflict(Box<Conflict>),
    /// Record the existing object as ours, and leave it as it is.
    Adopt,
    /// Leave it as it is: objects of this kind are not managed.
    Unmanaged,
    /// Leave it as it is: it is ours, and as desired.
    AsDesired,
    /// Leave it as it is: a foreign object is as desired.
    SatisfiedByForeign,
    /// Leave it as it is: it is neither ours nor desired.
    Foreign,
    /// Nothing: it neither exists nor is desired.
    Absent,
    /// Nothing: it comes or goes along with a link that the pass makes or deletes.
    Along,
    /// Nothing: it is the other end of a pair, one end of which is desired.
    OtherEnd,
    /// Nothing: objects of this kind could not be read whole, so none is deleted.
    Unread,
}

impl Whose {
    /// Returns true if the marker or the ledger proves that a pass may change and delete it.
    pub fn is_ours(self) -> bool {
        matches!(self, Whose::Marked | Whose::Recorded)
    }
}

impl Query {
    /// Returns the kind of the objects asked about.
    pub fn kind(&self) -> Kind {
        match self {
            Query::Link { .. } => Kind::Link,
            Query::Address { .. } => Kind::Address,
            Query::Neighbour { .. } => Kind::Neighbour,
            Query::Route { .. } => Kind::Route,
            Query::Rule { .. } => Kind::Rule,
        }
    }

    /// Returns true if the query matches an object. `name` returns the names of devices.
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

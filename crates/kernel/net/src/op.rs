//! Ops: single changes of the kernel's state, each with its reason.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::devices::Devices;
use crate::kinds::{Action, ForwardingEntry, NextHops, Object, ObjectKind as _, Route, RouteKey};
use crate::values::{Dev, Family, IfName, Prefix};
use crate::with_object;

/// Why an op is in a plan, such as a missing object or a differing field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// The object is desired and does not exist.
    Missing,
    /// The object is desired and does not exist, but the kernel made routes from router
    /// advertisements on its key: the IPv6 route is added behind them.
    Beside,
    /// The object exists and is not as desired. The op's `was` is its state.
    Differs,
    /// Our object exists, and differs in a field that cannot change in place: it is deleted, then
    /// created.
    Recreated,
    /// Our object is no longer desired.
    Undesired,
    /// Our object is declared by no instance that we know: an earlier run left it, or another
    /// trueup made it.
    Orphan,
    /// Another writer's object is on a link that must have only the declared ones.
    Excluded,
    /// An intermediate step, since the kernel cannot reach the desired state at once. A later
    /// update of the same object completes it; this op is only carried out if that one is.
    Step,
    /// A foreign object has a key that we desire. The op's `was` is its state.
    Overridden,
    /// We overrode the object and no longer desire it. Its former state is restored, in place or,
    /// if the kernel cannot do so, by a delete and a create.
    Restored,
}

impl Reason {
    /// Returns true if our object does not exist yet.
    pub fn is_missing(self) -> bool {
        matches!(self, Reason::Missing | Reason::Beside)
    }
}

/// The reason not to carry out an op that is due.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hold {
    /// It would delete this object of another writer along.
    Collateral(Box<Object>),
    /// It would delete this forwarding entry along.
    Forwarding(Box<ForwardingEntry>),
    /// Its object is outside the part of the namespace that this agent manages.
    OutsideDomain,
    /// Its object is another writer's, and would be deleted only if it were to be adopted.
    Foreign,
    /// The link must exist, and netlink cannot create it.
    NotCreatable,
    /// Its object is on, or leads to, a device with this name, which neither exists nor is
    /// declared.
    NoDevice(IfName),
    /// It completes an object made without the next hop out of this device, which is down or does
    /// not exist.
    NextHop(IfName),
    /// The hardware address is longer than its device's: the kernel would truncate it.
    LongAddress,
    /// It would make a pair, but another link has the other end's name.
    NameTaken(IfName),
    /// Its object has our marker but was never declared here: another trueup may be ahead of us.
    /// The object is left alone for this long.
    Grace(Duration),
    /// Another host has the address.
    Duplicate {
        /// Time until the address is made anew; 0 while duplicate address detection runs again.
        left: Duration,
    },
    /// More objects of the kind are no longer desired than one pass may delete.
    TooManyDeletes {
        /// The number of objects no longer desired.
        deletes: usize,
        /// The largest number that may be deleted.
        most: usize,
    },
    /// Another writer removes or overwrites it repeatedly.
    Contention {
        /// The number of such changes within the window that counts.
        times: u32,
        /// The object's protocol after the other writer's change, if seen.
        by: Option<u8>,
        /// Time for which the object is left alone.
        left: Duration,
    },
    /// The intent could not be recorded first, for this reason, so a crash would lose it.
    Unrecorded(Box<str>),
    /// The object was written before, and the kernel stores this one instead, or nothing. Writing
    /// it again would give the same result.
    StoredOtherwise(Option<Box<Object>>),
    /// It failed before, and is retried after this long.
    Backoff(Duration),
    /// The pass reached its limit of time or ops before this op. The next pass goes on.
    Cut,
}

impl Hold {
    /// Returns the hold for a missing device among these, if there is one.
    pub(crate) fn no_device(
        devices: &Devices,
        of_object: impl IntoIterator<Item = Dev>,
    ) -> Option<Hold> {
        let mut missing = of_object.into_iter().filter(|dev| dev.is_missing());
        devices.name(missing.next()?).copied().map(Hold::NoDevice)
    }
}

impl fmt::Display for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Hold::OutsideDomain => f.write_str("outside of the domain of this agent"),
            Hold::Foreign => {
                f.write_str("another writer's: it is deleted if the link says adopt = true")
            }
            Hold::NotCreatable => {
                f.write_str("the link must exist, and is not one that netlink can create")
            }
            Hold::NextHop(name) => {
                write!(f, "waits for its next hop out of {name}, which is down or does not exist")
            }
            Hold::NoDevice(name) => write!(f, "no interface `{name}`"),
            Hold::LongAddress => {
                f.write_str("the hardware address is longer than those of the device")
            }
            Hold::NameTaken(name) => {
                write!(f, "another link has the name of its other end, {name}")
            }
            Hold::Collateral(object) => {
                let (kind, name) = with_object!(&**object, it: K => (K::NAME, it.short_name()));
                write!(f, "would take along what is not to go: {kind} {name}")
            }
            Hold::Forwarding(entry) => {
                let lladdr = entry.lladdr;
                write!(f, "would take along what is not to go: forwarding entry {lladdr}")
            }
            Hold::Grace(left) => write!(
                f,
                "grace: bears our marker and was not seen declared, left alone for {} s",
                seconds(left)
            ),
            Hold::Duplicate { left: Duration::ZERO } => f.write_str(
                "another host had the address, and the detection of duplicates runs again",
            ),
            Hold::Duplicate { left } => write!(
                f,
                "another host has the address (duplicate address detection failed); tried again \
                 in {} s",
                seconds(left)
            ),
            Hold::TooManyDeletes { deletes, most } => write!(
                f,
                "{deletes} of its kind are to be deleted, and max_deletes allows {most}; if they \
                 are to go, `trueup apply --allow-deletes` deletes them"
            ),
            Hold::Contention { times, by, left } => {
                write!(f, "contention: lost to another writer {times} times")?;
                if let Some(by) = by {
                    write!(f, ", by protocol {by}")?;
                }
                write!(f, "; left alone for {} s", seconds(left))
            }
            Hold::Unrecorded(why) => write!(f, "could not be recorded beforehand: {why}"),
            Hold::StoredOtherwise(_) => f.write_str("the kernel stores it otherwise"),
            Hold::Backoff(left) => {
                write!(f, "failed before; tried again in {} s", seconds(left))
            }
            Hold::Cut => f.write_str("the pass ended before its turn came"),
        }
    }
}

fn seconds(left: &Duration) -> u128 {
    left.as_millis().div_ceil(1000)
}

impl From<Object> for Hold {
    /// Holds an op because of another writer's object.
    fn from(object: Object) -> Hold {
        Hold::Collateral(Box::new(object))
    }
}

/// One change of the kernel's state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Op {
    /// The change: create, update in place, or delete.
    pub action: Action,
    /// The object: as desired for a create or an update, as observed for a delete.
    pub object: Object,
    /// For an update, the object as observed.
    was: Option<Former>,
    /// Why the op is due: missing, differing, no longer desired, and so on.
    pub reason: Reason,
    /// The reason not to carry it out, or `None`. Ops that need it wait with it.
    pub hold: Option<Hold>,
}

setters! { impl Op {
    with_hold(hold: Hold);
} }

impl Op {
    /// Makes an op without a hold.
    pub fn new(action: Action, object: impl Into<Object>, reason: Reason) -> Op {
        Op { action, object: object.into(), was: None, reason, hold: None }
    }

    /// Returns the object as observed before an update, else `None`.
    pub fn was(&self) -> Option<Cow<'_, Object>> {
        let former = &*self.was.as_ref()?.0;
        Some(match (&self.object, former) {
            (Object::Route(route), Object::Route(former)) => {
                Cow::Owned(former.clone().with_key(route.key()).into())
            }
            _ => Cow::Borrowed(former),
        })
    }

    /// Sets an update's observed object, which has the key of the desired one.
    #[must_use]
    pub fn with_was(self, was: Object) -> Op {
        Op { was: Some(Former::new(was)), ..self }
    }

    /// Like [`with_was`](Self::with_was), but shares equal objects among ops.
    pub(crate) fn share_was(&mut self, was: Object, formers: &mut Formers) {
        self.was = Some(formers.share(was));
    }

    /// Returns true if the new route can be added beside the former one, which is then deleted by
    /// its gateway, even with other writers' routes on the key. Never for IPv6, where the new route
    /// may merge with another writer's.
    pub fn can_append_then_delete(&self) -> bool {
        self.changes_gateway().is_some_and(|route| route.family() == Family::Inet)
    }

    /// Returns our route if it has next hops and is to get other ones.
    pub(crate) fn changes_gateway(&self) -> Option<&Route> {
        let was = self.was.as_ref().map(|was| &*was.0);
        let (Object::Route(route), Some(Object::Route(was))) = (&self.object, was) else {
            return None;
        };
        let differs = self.action == Action::Update && self.reason == Reason::Differs;
        let elsewhere = match (&route.nexthops, &was.nexthops) {
            (NextHops::One(hop), NextHops::One(former)) => {
                hop.via.is_some() && former.via.is_some() && hop.via != former.via
            }
            // A delete that names an object removes no other route. A delete with next hops removes
            // no route that points at an object (`fib_nh_match`).
            (NextHops::Object(object, _), NextHops::Object(former, _)) => {
                route.family() == Family::Inet && object != former
            }
            // A delete names all next hops, and removes the first route that has them.
            (NextHops::Many(hops), NextHops::Many(former)) => {
                let ways = hops.iter().map(|hop| (hop.via, hop.dev));
                ways.ne(former.iter().map(|hop| (hop.via, hop.dev)))
            }
            _ => false,
        };
        (differs && elsewhere).then_some(route)
    }
}

/// An object as observed. A route's key is left out, since the op's object has it: routes equal but
/// for their keys are stored once.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Former(Arc<Object>);

impl Former {
    fn new(object: Object) -> Former {
        Former(Arc::new(without_key(object)))
    }
}

/// Returns a route without its key, and any other object unchanged.
fn without_key(object: Object) -> Object {
    match object {
        Object::Route(route) => {
            let no_key = RouteKey::new(0, Prefix::default_route(Family::Inet));
            Object::Route(route.with_key(no_key))
        }
        other => other,
    }
}

/// Observed objects shared among ops.
#[derive(Debug, Default)]
pub(crate) struct Formers {
    /// The first few, compared one by one, which is faster than hashing.
    few: Vec<Arc<Object>>,
    /// All others, by hash.
    more: HashSet<Arc<Object>>,
    /// The last one: equal objects come in long runs.
    last: Option<Arc<Object>>,
}

impl Formers {
    const FEW: usize = 8;

    fn share(&mut self, object: Object) -> Former {
        if !matches!(object, Object::Route(_)) {
            return Former::new(object);
        }
        let object = without_key(object);
        if let Some(last) = self.last.as_ref().filter(|last| ***last == object) {
            return Former(Arc::clone(last));
        }
        let is_few = self.few.len() < Formers::FEW;
        let known = self
            .few
            .iter()
            .find(|known| ***known == object)
            .or_else(|| (!is_few).then(|| self.more.get(&object))?);
        let former = known.map(Arc::clone).unwrap_or_else(|| {
            let new = Arc::new(object);
            if is_few {
                self.few.push(Arc::clone(&new));
            } else {
                self.more.insert(Arc::clone(&new));
            }
            new
        });
        self.last = Some(Arc::clone(&former));
        Former(former)
    }
}

// A plan can have a million ops.
const _: () = assert!(size_of::<Op>() <= 160);

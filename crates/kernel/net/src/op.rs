//! Ops: one change to the kernel's state each, with its reason.

use std::borrow::Cow;
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::devices::Devices;
use crate::kinds::{Action, ForwardingEntry, NextHops, Object, ObjectKind as _, Route, RouteKey};
use crate::values::{Dev, Family, IfName, Prefix};
use crate::with_object;

/// Why an op is in the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Reason {
    /// Desired and not there.
    Missing,
    /// Desired and not there, while routes that the kernel made from router advertisements are on
    /// the key: the IPv6 route is added behind them.
    Beside,
    /// There, and not as desired: the op's `was` says what it is.
    Differs,
    /// Ours, there, and not as desired in a way that cannot be changed in place: first deleted,
    /// then created.
    Recreated,
    /// Ours and no longer desired.
    Undesired,
    /// Ours, and declared by no instance that we know: an earlier run left it, or another trueup
    /// made it.
    Orphan,
    /// Another writer's, on a link that is to have what is declared and no more.
    Excluded,
    /// On the way to what is desired, where the kernel cannot go there at once: a later update of
    /// the same object completes it, and this op is carried out only where that one is to be.
    Step,
    /// Foreign, on a key that we desire: the op's `was` says what it is.
    Overridden,
    /// Overridden by us and no longer desired: it becomes again what it was, in place, or, where
    /// the kernel cannot do that, by a delete and a create.
    Restored,
}

impl Reason {
    /// Returns true if nothing of ours is there.
    pub fn is_missing(self) -> bool {
        matches!(self, Reason::Missing | Reason::Beside)
    }
}

/// Why an op that would be due is not to be carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Hold {
    /// It would take this object of another writer along.
    Collateral(Box<Object>),
    /// It would take this forwarding entry along.
    Forwarding(Box<ForwardingEntry>),
    /// It is desired outside of the part of the namespace that this agent speaks for.
    OutsideDomain,
    /// It is another writer's, and only to be deleted if it is to be adopted.
    Foreign,
    /// The link must exist, and netlink cannot create it.
    NotCreatable,
    /// It is on, or leads to, a device of this name, which neither exists nor is declared.
    NoDevice(IfName),
    /// It completes what is made without the next hop out of this device, which is down or does
    /// not exist.
    NextHop(IfName),
    /// The hardware address is longer than those of its device: the kernel would cut off its end.
    LongAddress,
    /// It would make a pair, and another link has the name of its other end.
    NameTaken(IfName),
    /// It bears our marker and we have not seen it declared: another trueup may be ahead of us. It
    /// is left alone for this long.
    Grace(Duration),
    /// Another host has the address.
    Duplicate {
        /// It is made anew after this long; 0 while the detection of duplicates runs again.
        left: Duration,
    },
    /// More objects of its kind are no longer desired than one pass may delete.
    TooManyDeletes {
        /// How many are no longer desired.
        deletes: usize,
        /// How many may be deleted.
        most: usize,
    },
    /// Another writer removes or overwrites it repeatedly.
    Contention {
        /// How often, within the window that counts.
        times: u32,
        /// The protocol that it bore after the other writer's change, if it was seen.
        by: Option<u8>,
        /// It is left alone for this long.
        left: Duration,
    },
    /// The intent could not be recorded beforehand, for this reason, so that a crash would lose it.
    Unrecorded(Box<str>),
    /// It was written before, and the kernel stores this instead, or nothing: written again it
    /// would become the same.
    StoredOtherwise(Option<Box<Object>>),
    /// It failed before, and is tried again after this long.
    Backoff(Duration),
    /// The pass was to end before its turn came: its time, or the number of its ops, was limited.
    /// The next one goes on.
    Cut,
}

impl Hold {
    /// Returns the hold of an object on these devices, if one of them is missing.
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
    /// Held over an object of another writer's.
    fn from(object: Object) -> Hold {
        Hold::Collateral(Box::new(object))
    }
}

/// One change to the kernel's state.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Op {
    /// What it does.
    pub action: Action,
    /// For a create or an update the object as desired, for a delete as observed.
    pub object: Object,
    /// For an update, the object as observed.
    was: Option<Former>,
    /// Why it is there.
    pub reason: Reason,
    /// Why it is not to be carried out, if so. Ops that need it wait with it.
    pub hold: Option<Hold>,
}

setters! { impl Op {
    with_hold(hold: impl Into<Option<Hold>>);
} }

impl Op {
    /// Makes an op that is to be carried out.
    pub fn new(action: Action, object: impl Into<Object>, reason: Reason) -> Op {
        Op { action, object: object.into(), was: None, reason, hold: None }
    }

    /// For an update, the object as observed.
    pub fn was(&self) -> Option<Cow<'_, Object>> {
        let former = &*self.was.as_ref()?.0;
        Some(match (&self.object, former) {
            (Object::Route(route), Object::Route(former)) => {
                Cow::Owned(former.clone().with_key(route.key()).into())
            }
            _ => Cow::Borrowed(former),
        })
    }

    /// Gives an update the object as observed, which has the key of the object as desired.
    #[must_use]
    pub fn with_was(self, was: impl Into<Option<Object>>) -> Op {
        Op { was: was.into().map(Former::new), ..self }
    }

    /// As [`with_was`](Self::with_was), with what equal objects of other ops share.
    pub(crate) fn share_was(&mut self, was: Object, formers: &mut Formers) {
        self.was = Some(formers.share(was));
    }

    /// Returns true if a route can be added beside the one that it was, and that be taken away then
    /// by its gateway, whoever else is on the key. None of IPv6: there it may become one with
    /// another writer's route.
    pub fn can_append_then_delete(&self) -> bool {
        self.changes_gateway().is_some_and(|route| route.family() == Family::Inet)
    }

    /// The route of ours that is to have other next hops than it has, where it has some and is to
    /// have some.
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
            // A delete that names an object takes no other route, and no route that points at an
            // object is taken by one that names next hops (`fib_nh_match`).
            (NextHops::Object(object, _), NextHops::Object(former, _)) => {
                route.family() == Family::Inet && object != former
            }
            // A delete names all next hops, and takes the first route that has them.
            (NextHops::Many(hops), NextHops::Many(former)) => {
                let ways = hops.iter().map(|hop| (hop.via, hop.dev));
                ways.ne(former.iter().map(|hop| (hop.via, hop.dev)))
            }
            _ => false,
        };
        (differs && elsewhere).then_some(route)
    }
}

/// An object as observed. That of a route has no key, which is that of the op's object: so those
/// that are the same but for their keys are held once.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Former(Arc<Object>);

impl Former {
    fn new(object: Object) -> Former {
        Former(Arc::new(without_key(object)))
    }
}

/// Returns a route without its key, and any other object as it is.
fn without_key(object: Object) -> Object {
    match object {
        Object::Route(route) => {
            let no_key = RouteKey::new(0, Prefix::default_route(Family::Inet));
            Object::Route(route.with_key(no_key))
        }
        other => other,
    }
}

/// Objects as observed that ops share.
#[derive(Debug, Default)]
pub(crate) struct Formers {
    /// The first ones: so many are compared one by one faster than they are hashed.
    few: Vec<Arc<Object>>,
    /// All others.
    more: HashSet<Arc<Object>>,
    /// The one that came last: runs of one are long.
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

// A plan can be of a million.
const _: () = assert!(size_of::<Op>() <= 160);

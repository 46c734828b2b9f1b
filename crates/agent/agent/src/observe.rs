//! Returns a namespace's state as a file for which a plan is empty. It leaves out objects that the
//! kernel makes by itself, and adds a note for each object without a form in a file.

mod authored;
mod portable;
mod unsaid;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use crate::error::{Context as _, Result};
use trueup_net::{
    Desired, Devices, IfName, Kind, Kinds, Link, LinkAddr, NextHops, NexthopMode, Object,
    ObjectKind, Observed, OfKind, Owned, Route, each_kind,
};
use trueup_netlink::{Socket, marker};
use trueup_reconcile::Source as _;
use trueup_rtnl::{DEFAULT_PROTOCOL, Namespace, Options, Rtnl};

use self::authored::Names;

/// A namespace's state as a file.
///
/// ```no_run
/// use trueup_agent::{Authored, Namespace};
///
/// let portable = Authored::read(&Namespace::named("blue")?, true)?;
/// print!("{}", portable.batch()); // for `ip -batch -`
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Authored {
    /// The namespace's objects, as a file would declare them.
    pub desired: Desired,
    /// The objects and properties that the file cannot express, and why.
    pub left_out: Vec<String>,
    /// The kinds that could not be read whole.
    pub incomplete: Vec<String>,
    observed: Observed,
}

impl Authored {
    /// Reads a namespace. If `is_portable`, leaves out properties that another host has by itself.
    ///
    /// # Errors
    ///
    /// Fails if the namespace cannot be read at all.
    pub fn read(namespace: &Namespace, is_portable: bool) -> Result<Authored> {
        let snapshot = Rtnl::new()
            .observe(namespace, &Options::default())?
            .context("cannot read the namespace")?;
        let mut socket = Socket::open(namespace)?;
        let unstored = match marker(&mut socket, Kind::Address)? {
            Some(false) => Kinds::NONE.with(Kind::Address),
            _ => Kinds::NONE,
        };
        let mut authored = Authored::of(snapshot.observed, unstored);
        authored.incomplete = snapshot.incomplete.iter().map(ToString::to_string).collect();
        match unsaid::of_links(&mut socket) {
            Ok(unsaid) => authored.left_out.extend(unsaid),
            Err(error) => authored.incomplete.push(format!("of the links: {error}")),
        }
        if is_portable {
            authored.left_out.extend(portable::strip(&mut authored.desired));
        }
        Ok(authored)
    }

    fn of(observed: Observed, unstored: Kinds) -> Authored {
        let mut extractor = Extractor::new(&observed);
        let mut desired = Desired::default().with_nexthops(extractor.names.shape);
        each_kind!(K => {
            let there = OfKind::<K>::of_kind(&observed);
            let all = extractor.extract(there, |it| it.is_authored(unstored));
            desired = K::declare(desired, all);
        });
        let left_out = extractor.left_out;
        Authored { desired, left_out, incomplete: Vec::new(), observed }
    }

    /// Returns the commands that recreate this state, given the links that no file can create. A
    /// comment names each of these links.
    pub fn batch(&self) -> String {
        let observed = &self.observed;
        let names: BTreeSet<IfName> = self
            .desired
            .links
            .iter()
            .flatten()
            .filter(|link| !link.is_creatable())
            .map(|link| link.name)
            .collect();
        let undeclared = observed.links.iter().filter(|link| names.contains(&link.name));
        let bare = Observed::default()
            .with_links(undeclared.clone().map(as_made).collect::<Vec<_>>())
            .with_complete(Kinds::ALL);
        let devices = Devices::observed(&observed.links);
        let mut commands = String::new();
        for link in undeclared {
            let name = Object::from(Link::must_exist(link.name)).spec(&devices);
            let _ = writeln!(commands, "# link {name} has to be there");
        }
        let nothing = Owned::default();
        match trueup_net::plan(&self.desired, &bare, &nothing, DEFAULT_PROTOCOL) {
            Ok(plan) => commands + &plan.batch().to_string(),
            // A plan takes each of these objects; links cannot form a circle.
            Err(error) => format!("# {error}\n"),
        }
    }
}

/// Returns a namespace's routes as a file declares them, reduced to those wanted. The second value
/// names the routes that no file can express.
pub(crate) fn authored_routes(
    observed: &Observed,
    wanted: impl Fn(&Route) -> bool,
) -> (Vec<Route<IfName>>, Vec<String>) {
    let mut extractor = Extractor::new(observed);
    let routes = extractor.extract(&observed.routes, wanted);
    (routes, extractor.left_out)
}

/// Returns a link that no file can create, as it is before anything is set on it. The hardware
/// address of `lo`, which is zero, cannot be set.
fn as_made(link: &Link) -> Link {
    let mut made = link.clone().with_up(false).with_no_master().with_alias([]).with_group(0);
    made.mtu = None;
    made.address = link.address.filter(is_zero);
    made
}

fn is_zero(address: &LinkAddr) -> bool {
    address.as_bytes().iter().all(|byte| *byte == 0)
}

/// Returns true for a route with its own next hops if other routes have nexthop objects.
fn is_written_out(object: &Object, shape: NexthopMode) -> bool {
    let Object::Route(route) = object else {
        return false;
    };
    shape == NexthopMode::Objects && !matches!(route.nexthops, NextHops::Object(..))
}

/// A kind of object that a file can declare.
trait Authorable: ObjectKind {
    type Authored: Clone;

    /// Returns the object by names. `None` if it refers to a device that is not in the namespace.
    fn authored(&self, names: &Names<'_>) -> Option<Self::Authored>;

    /// Returns true if we or another writer made the object. The kernel's own objects are not
    /// declared.
    fn is_authored(&self, _unstored: Kinds) -> bool {
        true
    }

    /// Declares these objects as the only ones of their kind.
    fn declare(desired: Desired, all: Vec<Self::Authored>) -> Desired;

    /// Adds the object to an observation that has only links.
    fn seen(&self, on: Observed, _names: &Names<'_>) -> Observed {
        on
    }

    /// Returns the indexes of the devices that the object refers to.
    fn devices(&self, _names: &Names<'_>) -> BTreeSet<u32> {
        BTreeSet::new()
    }
}

/// Separates the objects that a file can express from the others, by trial: a plan for the object
/// alone must be empty.
struct Extractor<'a> {
    names: Names<'a>,
    devices: Devices,
    left_out: Vec<String>,
}

impl<'a> Extractor<'a> {
    fn new(observed: &'a Observed) -> Extractor<'a> {
        Extractor {
            names: Names::new(observed),
            devices: Devices::observed(&observed.links),
            left_out: Vec::new(),
        }
    }

    fn extract<T: Authorable>(
        &mut self,
        observed: &[T],
        wanted: impl Fn(&T) -> bool,
    ) -> Vec<T::Authored> {
        let mut of_a_key: BTreeMap<T::Key, &T> = BTreeMap::new();
        let mut picked = Vec::new();
        for object in observed.iter().filter(|object| wanted(object)) {
            if of_a_key.insert(object.key(), object).is_some() {
                self.leave_out(object, "another has the same key");
                continue;
            }
            match self.one(object) {
                Ok(authored) => picked.push(authored),
                Err(why) => self.leave_out(object, &why),
            }
        }
        picked
    }

    fn one<T: Authorable>(&self, object: &T) -> Result<T::Authored, String> {
        let authored =
            object.authored(&self.names).ok_or("it is on a device of another namespace")?;
        let desired =
            T::declare(Desired::default().with_nexthops(self.names.shape), vec![authored.clone()]);
        let links: Vec<Link> = Authorable::devices(object, &self.names)
            .into_iter()
            .filter_map(|index| self.names.link(index).cloned())
            .collect();
        let seen = object.seen(Observed::default().with_links(links), &self.names);
        match trueup_net::plan(&desired, &seen, &Owned::default(), DEFAULT_PROTOCOL) {
            Err(wrong) => Err(wrong.describe(|index| format!("item {index} of this kind"))),
            Ok(plan) if plan.is_empty() => Ok(authored),
            Ok(_) if is_written_out(&object.clone().into(), self.names.shape) => {
                Err("it has next hops of its own, and other routes of ours use nexthop objects"
                    .to_owned())
            }
            Ok(_) => Err("it has attributes that a file has no keys for".to_owned()),
        }
    }

    fn leave_out<T: Authorable>(&mut self, object: &T, why: &str) {
        let object: Object = object.clone().into();
        let (kind, spec) = (object.kind(), object.spec(&self.devices));
        self.left_out.push(format!("{kind} {spec}: {why}"));
    }
}

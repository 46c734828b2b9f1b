//! The destinations that no collected route may lead away from this host, from its kernel and the
//! file.

mod facts;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, ToSocketAddrs as _};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread;
use std::time::{Duration, Instant};

use super::collect::is_declared;
use crate::error::{Context as _, Result};
use crate::lock;
use trueup_file::{self as file, File};
use trueup_net::Prefix;
use trueup_reconcile::Hints;
use trueup_rtnl::Namespace;
use trueup_world::Protected;

use facts::{Facts, Lead};

/// The interval of looks at the kernel.
const INTERVAL: Duration = Duration::from_secs(1);
/// The interval at which names of the store are resolved.
const RESOLVE_INTERVAL: Duration = Duration::from_secs(60);
/// The most protected addresses of the store, including earlier ones.
const MAX_ADDRESSES: usize = 256;
/// Addresses of no host, for documentation. The route to them is the route to everything elsewhere.
const ELSEWHERE: [IpAddr; 2] = [
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, 1)),
    IpAddr::V6(Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1)),
];

/// The destinations that no collected route may lead away. Clones share them.
#[derive(Clone, Debug)]
pub(crate) struct Surroundings(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    namespace: Namespace,
    protocol: u8,
    /// The store's members, by host and port. Empty if this host reaches them from another
    /// namespace than the one with the routes.
    members: Vec<(String, u16)>,
    known: Mutex<Known>,
    /// True if something must be looked at soon, although nothing here has changed.
    is_waiting: AtomicBool,
    /// True if a thread looks for changes.
    is_followed: AtomicBool,
}

#[derive(Debug, Default)]
struct Known {
    /// The current and earlier addresses of the members. `None` before they were first resolved.
    store: Option<BTreeSet<IpAddr>>,
    /// The gateways in the file.
    gateways: BTreeSet<IpAddr>,
    /// The kernel's state. `None` before it was first read.
    facts: Option<Facts>,
}

impl Surroundings {
    /// Makes the surroundings of a namespace, for the store of a file. `protocol` marks our routes.
    pub(crate) fn new(namespace: &Namespace, named: &file::World, protocol: u8) -> Surroundings {
        let here = Namespace::current().cookie();
        let is_here = match (here, namespace.cookie()) {
            (Ok(here), Ok(there)) => here == there,
            _ => true,
        };
        let members: Vec<(String, u16)> = match &named.endpoints {
            Some(urls) if is_here => urls.iter().filter_map(|url| member(url)).collect(),
            _ => Vec::new(),
        };
        let are_literal = members.iter().all(|(host, _)| host.parse::<IpAddr>().is_ok());
        let known = Known { store: are_literal.then(|| resolve(&members)), ..Known::default() };
        Surroundings(Arc::new(Inner {
            namespace: namespace.clone(),
            protocol,
            members,
            known: Mutex::new(known),
            is_waiting: AtomicBool::new(false),
            is_followed: AtomicBool::new(false),
        }))
    }

    /// Resolves the names of the store, for a command that looks once.
    pub(crate) fn resolved(self) -> Surroundings {
        self.resolve();
        self
    }

    /// Looks for changes on a thread of its own, and sends a hint for each, until all clones are
    /// dropped. Further calls do nothing. Fails if the operating system refuses a thread.
    pub(crate) fn follow(&self, hints: Hints) -> Result<()> {
        if self.0.is_followed.swap(true, Ordering::SeqCst) {
            return Ok(());
        }
        let weak = Arc::downgrade(&self.0);
        let thread = thread::Builder::new().name("world-surroundings".into()).spawn(move || {
            let mut resolved: Option<Instant> = None;
            while let Some(inner) = weak.upgrade() {
                let surroundings = Surroundings(inner);
                let mut is_changed = surroundings.0.is_waiting.load(Ordering::SeqCst);
                if resolved.is_none_or(|at| at.elapsed() >= RESOLVE_INTERVAL) {
                    is_changed |= surroundings.resolve();
                    resolved = Some(Instant::now());
                }
                // A failed read is reported by those who ask for its result.
                is_changed |= surroundings.look().unwrap_or(true);
                drop(surroundings);
                if is_changed {
                    hints.request_pass();
                }
                thread::sleep(INTERVAL);
            }
        });
        thread.map(drop).context("a thread does not start")
    }

    /// Turns on hints that are sent even if nothing has changed.
    pub(crate) fn set_waiting(&self, is_waiting: bool) {
        self.0.is_waiting.store(is_waiting, Ordering::SeqCst);
    }

    /// Returns the protected destinations for a file. `None` before the names of the store were
    /// resolved. Fails if the kernel has not been read successfully yet.
    pub(crate) fn protected(&self, declared: &File) -> Result<Option<Protected>> {
        let routes = declared.desired.routes.as_ref();
        let sets = routes.iter().flat_map(|routes| routes.nexthops());
        let hops = sets.flat_map(|hops| hops.as_slice());
        self.lock().gateways = hops.filter_map(|hop| hop.via).collect();
        let looked = self.look();
        let known = self.lock();
        let (Some(store), Some(facts)) = (&known.store, &known.facts) else {
            return looked.map(|_| None);
        };
        let Facts { own, tables, leads } = facts;
        // Of our routes, only those that the file declares. Others are collected.
        let leads: BTreeMap<&IpAddr, &Lead> =
            leads.iter().filter(|(_, it)| !it.is_ours || is_declared(declared, &it.key)).collect();
        let mut protected = Protected::default().with_tables(tables.iter().copied());
        for (address, subnet) in own {
            protected = protected.with_own(*address, *subnet);
        }
        for address in store {
            protected = protected.with_store(*address, leads.get(address).map(|it| it.key.dst));
        }
        let in_use = leads.values().flat_map(|lead| &lead.gateways);
        for gateway in in_use.chain(&known.gateways) {
            // If nothing else leads to the gateway, only a route to itself hides it.
            let lead = leads.get(gateway).map_or(Prefix::host(*gateway), |lead| lead.key.dst);
            protected = protected.with_gateway(*gateway, lead);
        }
        Ok(Some(protected))
    }

    /// Reads the kernel's state, and returns true if it has changed.
    fn look(&self) -> Result<bool> {
        let asked = {
            let known = self.lock();
            let asked = known.store.iter().flatten().chain(&known.gateways);
            asked.copied().chain(ELSEWHERE).collect()
        };
        let facts = Facts::read(&self.0.namespace, asked, self.0.protocol)
            .context("cannot read the addresses of this host")?;
        let mut known = self.lock();
        let is_changed = known.facts.as_ref() != Some(&facts);
        known.facts = Some(facts);
        Ok(is_changed)
    }

    /// Resolves the names of the store. Returns true if an address is new.
    fn resolve(&self) -> bool {
        let found = resolve(&self.0.members);
        let mut known = self.lock();
        let was_resolved = known.store.is_some();
        let store = known.store.get_or_insert_default();
        let before = store.len();
        for address in found {
            // A connection may still use an address that the name no longer has.
            if store.len() < MAX_ADDRESSES {
                store.insert(address);
            }
        }
        !was_resolved || store.len() > before
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        lock(&self.0.known)
    }
}

/// Returns the host and the port of a member's URL.
fn member(url: &str) -> Option<(String, u16)> {
    let (scheme, rest) = url.split_once("://")?;
    let authority = rest.split('/').next()?;
    let default = if scheme == "https" { 443 } else { 80 };
    let is_bare = authority.ends_with(']') || !authority.contains(':');
    let (host, port) = match authority.rsplit_once(':').filter(|_| !is_bare) {
        Some((host, port)) => (host, port.parse().ok()?),
        None => (authority, default),
    };
    Some((host.trim_start_matches('[').trim_end_matches(']').to_owned(), port))
}

/// Resolves names to addresses. A name that cannot be resolved now adds none.
fn resolve(members: &[(String, u16)]) -> BTreeSet<IpAddr> {
    let addresses =
        members.iter().filter_map(|(host, port)| (host.as_str(), *port).to_socket_addrs().ok());
    addresses.flatten().map(|it| it.ip()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_s_url_names_its_host() {
        for (url, host, port) in [
            ("http://10.0.0.1:2379", "10.0.0.1", 2379),
            ("https://etcd.example", "etcd.example", 443),
            ("http://[fd00::1]:2379/", "fd00::1", 2379),
            ("http://[fd00::1]", "fd00::1", 80),
        ] {
            assert_eq!(member(url), Some((host.to_owned(), port)), "{url}");
        }
    }
}

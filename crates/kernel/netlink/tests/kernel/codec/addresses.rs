//! Addresses.

use std::collections::BTreeSet;
use std::net::IpAddr;

use trueup_net::{
    Address, AddressFlags, Dev, FOREVER, Family, Kinds, Lifetimes, ObjectKind, Scope,
};
use trueup_netlink::Namespace;
use trueup_netlink::codec::{self, EncodeError, ReadScope, existing};
use trueup_testkit::quiet_netns;

use super::net::{Net, OURS, name};

fn with(dev: Dev, network: &str, change: impl FnOnce(&mut Address)) -> Address {
    let mut address = Address::new(dev, network.parse().unwrap());
    address.protocol = OURS;
    change(&mut address);
    address
}

fn ip(text: &str) -> Option<IpAddr> {
    Some(text.parse().unwrap())
}

fn lifetimes(valid: u32, preferred: u32) -> Lifetimes {
    Lifetimes { valid, preferred }
}

fn inet(dev: Dev) -> Vec<Address> {
    vec![
        with(dev, "10.5.0.1/24", |_| {}),
        with(dev, "10.5.0.1/32", |_| {}),
        with(dev, "10.5.0.1/32", |a| a.peer = ip("10.6.0.1")),
        with(dev, "10.5.0.1/24", |a| a.peer = ip("10.6.0.1")),
        with(dev, "10.5.0.1/24", |a| a.scope = Scope::LINK),
        with(dev, "169.254.1.1/16", |_| {}),
        with(dev, "127.0.0.2/8", |_| {}),
        with(dev, "10.5.0.1/24", |a| a.label = Some("a:label".parse().unwrap())),
        with(dev, "10.5.0.1/24", |a| a.broadcast = Some("10.5.0.255".parse().unwrap())),
        with(dev, "10.5.0.1/24", |a| a.metric = 300),
        with(dev, "10.5.0.1/24", |a| a.flags = AddressFlags::NOPREFIXROUTE),
        with(dev, "239.1.1.1/32", |a| a.flags = AddressFlags::AUTOJOIN),
        with(dev, "10.5.0.1/24", |a| a.lifetimes = lifetimes(4000, 2000)),
        with(dev, "10.5.0.1/24", |a| a.lifetimes = lifetimes(FOREVER, 0)),
        // Not FOREVER and 3000: IPv4 reports these as preferred for ever, until they expire.
        with(dev, "10.5.0.1/24", |a| a.protocol = 0),
    ]
}

fn inet6(dev: Dev) -> Vec<Address> {
    let flags = |flags| move |a: &mut Address| a.flags = flags;
    vec![
        with(dev, "2001:db8:5::1/64", |_| {}),
        with(dev, "2001:db8:5::1/128", |a| a.peer = ip("2001:db8:6::1")),
        with(dev, "fe80::5/64", |_| {}),
        with(dev, "2001:db8:5::1/64", |a| a.metric = 300),
        with(dev, "2001:db8:5::1/64", flags(AddressFlags::NODAD)),
        with(dev, "2001:db8:5::1/64", flags(AddressFlags::NOPREFIXROUTE)),
        with(dev, "2001:db8:5::1/64", flags(AddressFlags::MNGTMPADDR | AddressFlags::NODAD)),
        with(dev, "2001:db8:5::1/64", flags(AddressFlags::HOMEADDRESS)),
        with(dev, "2001:db8:5::1/64", |a| a.lifetimes = lifetimes(4000, 2000)),
        with(dev, "2001:db8:5::1/64", |a| a.lifetimes = lifetimes(FOREVER, 0)),
        with(dev, "2001:db8:5::1/64", |a| a.lifetimes = lifetimes(FOREVER, 3000)),
    ]
}

/// The rest of a finite lifetime may be a second less by now.
fn assert_observed(found: &[Address], desired: &Address) {
    let [found] = found else {
        panic!("{desired:?}: {found:?}");
    };
    assert!(desired.agrees(found), "{desired:?}: {:?}", desired.differences(found));
    let mut expected = desired.clone();
    for (expected, found) in [
        (&mut expected.lifetimes.valid, found.lifetimes.valid),
        (&mut expected.lifetimes.preferred, found.lifetimes.preferred),
    ] {
        assert!(found <= *expected && *expected - found <= 2);
        *expected = found;
    }
    // Duplicate address detection may still run.
    expected.duplicates = found.duplicates;
    assert_eq!(*found, expected);
}

/// Returns the test's addresses, in canonical form for the device that they are all on.
fn observed(net: &mut Net, family: Family) -> Vec<Address> {
    let mut all = net.addresses(family);
    all.retain(|address| !address.is_kernels_own(Kinds::NONE));
    let dev_name = name("a");
    all.into_iter().map(|a| a.canonical(Some(&dev_name))).collect()
}

fn round_trips(family: Family, variants: fn(Dev) -> Vec<Address>) {
    let (mut net, a, b) = Net::with_devices();
    for desired in variants(a) {
        let desired = desired.canonical(Some(&name("a")));
        // Similar ones: the same on another device, another in the same subnet.
        let mut elsewhere = desired.clone();
        elsewhere.dev = b;
        elsewhere.label = None;
        let next = match family {
            Family::Inet => "10.5.0.2/24",
            Family::Inet6 => "2001:db8:5::2/64",
        };
        let mut likes = vec![elsewhere];
        if desired.address.prefix() == 24 || desired.address.prefix() == 64 {
            // Before ours, so that ours is the secondary, with which no other goes. The kernel
            // refuses another scope than the first one's in a subnet.
            likes.push(with(a, next, |next| next.scope = desired.scope));
        }
        for like in &likes {
            net.send(|b| codec::create(b, like, &existing))
                .unwrap_or_else(|error| panic!("{like:?}: {error}"));
        }
        let before = observed(&mut net, family);

        net.send(|b| codec::create(b, &desired, &existing))
            .unwrap_or_else(|error| panic!("{desired:?}: {error}"));
        let now = observed(&mut net, family);
        let mut found: Vec<_> = now.into_iter().filter(|a| a.key() == desired.key()).collect();
        for address in &mut found {
            address.secondary = false;
        }
        assert_observed(&found, &desired);
        let again = net.send(|b| codec::create(b, &desired, &existing)).unwrap_err();
        assert_eq!(again.errno(), Some(libc::EEXIST), "{desired:?}");

        net.send(|b| codec::delete(b, &desired, &existing))
            .unwrap_or_else(|error| panic!("{desired:?}: {error}"));
        let mut after = observed(&mut net, family);
        for (address, before) in after.iter_mut().zip(&before) {
            address.lifetimes = before.lifetimes;
        }
        assert_eq!(after, before, "{desired:?}");
        let gone = net.send(|b| codec::delete(b, &desired, &existing)).unwrap_err();
        assert_eq!(gone.errno(), Some(libc::EADDRNOTAVAIL), "{desired:?}");
        for like in &likes {
            net.send(|b| codec::delete(b, like, &existing)).unwrap();
        }
    }
}

pub(crate) fn ipv4_addresses_come_back_as_desired_and_go_alone() {
    round_trips(Family::Inet, inet);
}

pub(crate) fn ipv6_addresses_come_back_as_desired_and_go_alone() {
    round_trips(Family::Inet6, inet6);
}

/// The same IPv4 address on the same device in another subnet is another object.
pub(crate) fn ipv4_addresses_that_differ_in_prefix_or_peer_go_alone() {
    let (mut net, a, _) = Net::with_devices();
    let all = [
        with(a, "10.5.0.1/24", |_| {}),
        with(a, "10.5.0.1/32", |_| {}),
        with(a, "10.5.0.1/32", |a| a.peer = ip("10.6.0.1")),
        with(a, "10.5.0.1/32", |a| a.peer = ip("10.6.0.2")),
    ];
    for address in &all {
        net.send(|b| codec::create(b, address, &existing)).unwrap();
    }
    for address in &all {
        let mut expected = observed(&mut net, Family::Inet);
        expected.retain(|a| a.key() != address.key());
        net.send(|b| codec::delete(b, address, &existing)).unwrap();
        assert_eq!(observed(&mut net, Family::Inet), expected);
    }
}

pub(crate) fn a_replace_changes_what_the_model_says_can_change() {
    let (mut net, a, _) = Net::with_devices();
    let keeps_marker = replace_keeps_ipv4_marker(&mut net, a);
    for (family, all) in [(Family::Inet, inet(a)), (Family::Inet6, inet6(a))] {
        let first = all[0].clone().canonical(None);
        net.send(|b| codec::create(b, &first, &existing)).unwrap();
        for mut desired in all.into_iter().map(|a| a.canonical(None)) {
            let now = observed(&mut net, family);
            let Some(found) = now.iter().find(|a| a.key() == desired.key()) else {
                continue;
            };
            // IPv6 takes a metric of 0 for "unchanged".
            let metric_stays = family == Family::Inet6 && desired.metric == 0 && found.metric != 0;
            if metric_stays || !desired.differences(found).iter().all(|d| d.in_place) {
                continue;
            }
            net.send(|b| codec::replace(b, &desired, &existing))
                .unwrap_or_else(|error| panic!("{desired:?}: {error}"));
            if family == Family::Inet && keeps_marker {
                desired.protocol = found.protocol;
            }
            let mut now = observed(&mut net, family);
            now.retain(|a| a.key() == desired.key());
            assert_observed(&now, &desired);
        }
    }
}

/// Returns true if a replace keeps an IPv4 address's marker from its creation, as on 6.1. Later
/// kernels take the replace's marker.
fn replace_keeps_ipv4_marker(net: &mut Net, dev: Dev) -> bool {
    let marked = with(dev, "10.99.0.1/24", |a| a.protocol = super::net::OURS);
    let other = with(dev, "10.99.0.1/24", |a| a.protocol = super::net::FOREIGN);
    net.send(|b| codec::create(b, &marked, &existing)).unwrap();
    net.send(|b| codec::replace(b, &other, &existing)).unwrap();
    let all = net.addresses(Family::Inet);
    let found = all.iter().find(|a| a.key() == marked.key()).unwrap();
    assert!([marked.protocol, other.protocol].contains(&found.protocol));
    let keeps = found.protocol == marked.protocol;
    net.send(|b| codec::delete(b, found, &existing)).unwrap();
    keeps
}

/// The kernel makes it beside one of ours. It must not count as ours.
///
/// With duplicate address detection the kernel would delete it again if it has not yet noticed the
/// device's carrier (`addrconf_dad_begin`).
pub(crate) fn a_temporary_ipv6_address_is_the_kernels() {
    quiet_netns();
    let (mut net, a, _) = Net::with_devices_in(&Namespace::current());
    std::fs::write("/proc/sys/net/ipv6/conf/a/use_tempaddr", "2").unwrap();
    let ours = with(a, "2001:db8:5::1/64", |a| {
        a.flags = AddressFlags::MNGTMPADDR | AddressFlags::NODAD;
    });
    net.send(|b| codec::create(b, &ours, &existing)).unwrap();
    let inside = |a: &Address| ours.subnet().contains(a.address.ip());
    let mut all = net.addresses(Family::Inet6);
    all.retain(|a| inside(a) && a.address != ours.address);
    assert!(!all.is_empty(), "the kernel made a temporary address");
    assert!(all.iter().all(|a| a.is_kernels_own(Kinds::NONE) && !a.secondary));

    net.send(|b| codec::delete(b, &ours, &existing)).unwrap();
    assert!(!net.addresses(Family::Inet6).iter().any(inside));
}

pub(crate) fn dumps_are_filtered_by_device() {
    let (mut net, a, _) = Net::with_devices();
    let all = net.addresses(Family::Inet);
    let mut scope = ReadScope::whole();
    scope.devices = a.as_index().map(|index| BTreeSet::from([index]));
    let mut found = net.all::<Address>(&scope);
    found.retain(|address| address.family() == Family::Inet);
    let expected: Vec<_> = all.iter().filter(|found| found.dev == a).cloned().collect();
    assert_eq!(found, expected);
    assert!(expected.len() < all.len());
}

pub(crate) fn a_planned_device_is_no_index() {
    let planned = Dev::planned(3);
    let address = with(planned, "10.0.0.1/8", |_| {});
    let mut buffer = Vec::new();
    for encode in [codec::create, codec::replace, codec::delete] {
        let error = encode(&mut buffer, &address, &existing);
        assert_eq!(error, Err(EncodeError::Unresolved(planned)));
    }
    assert!(buffer.is_empty());
}

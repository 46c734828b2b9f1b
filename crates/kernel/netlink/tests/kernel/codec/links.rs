//! Links of the kinds that every kernel here has. The bytes of the others are tested elsewhere.

use std::net::IpAddr;

use trueup_net::{
    BridgeAttrs, Dev, Link, LinkAddr, LinkKind, MacvlanAttrs, MacvlanMode, ObjectKind as _,
    VxlanAttrs,
};
use trueup_netlink::codec::{EncodeError, existing, link};

use super::net::{Net, name};

fn bridge() -> BridgeAttrs {
    // Kernels without CONFIG_BRIDGE_VLAN_FILTERING refuse `vlan_filtering` with any value.
    BridgeAttrs::default().with_stp(true).with_forward_delay(400).with_ageing_time(10_000)
}

fn lladdr(last: u8) -> LinkAddr {
    LinkAddr::from_bytes(&[2, 0, 0, 0, 0, last]).unwrap()
}

/// Sets all fields that a link of any kind can have.
fn dressed(link: &Link, master: Dev) -> Link {
    link.clone()
        .with_up(true)
        .with_mtu(1400)
        .with_address(lladdr(9))
        .with_master(master)
        .with_alias(b"an alias \xff".as_slice())
        .with_group(42)
}

fn kinds(a: Dev) -> Vec<LinkKind> {
    let macvlan = |mode| LinkKind::Macvlan(MacvlanAttrs::new(a).with_mode(mode));
    let ip = |text: &str| text.parse().unwrap();
    vec![
        LinkKind::Bridge(BridgeAttrs::default()),
        LinkKind::Bridge(bridge()),
        LinkKind::veth(name("peer")),
        LinkKind::Vxlan(VxlanAttrs::new(0)),
        LinkKind::Vxlan(
            VxlanAttrs::new(16_777_215)
                .with_local(ip("10.0.0.1"))
                .with_remote(ip("10.0.0.2"))
                .with_port(4789)
                .with_link(a)
                .with_learning(false)
                .with_ttl(16),
        ),
        LinkKind::Vxlan(
            VxlanAttrs::new(7)
                .with_local(ip("2001:db8::1"))
                .with_remote(ip("ff05::1"))
                .with_link(a)
                .with_learning(true),
        ),
        LinkKind::Macvlan(MacvlanAttrs::new(a)),
        macvlan(MacvlanMode::Private),
        macvlan(MacvlanMode::Bridge),
        macvlan(MacvlanMode::Source),
        LinkKind::Ifb,
    ]
}

fn agrees(net: &mut Net, desired: &Link) -> Link {
    let found = net.link(desired.name.as_str().unwrap()).expect("it is there");
    assert!(
        desired.agrees(&found),
        "{:?}: {desired:?}, but {found:?}",
        desired.differences(&found)
    );
    found
}

fn create(net: &mut Net, desired: &Link) {
    net.send(|b| link::create(b, desired, 0, &existing))
        .unwrap_or_else(|error| panic!("{desired:?}: {error}"));
    if desired.alias.as_ref().is_some_and(|alias| !alias.is_empty()) {
        assert!(!desired.agrees(&net.link(desired.name.as_str().unwrap()).unwrap()));
        // Only these fields, since some kinds refuse attributes that they already have.
        let mut rest = Link::must_exist(desired.name);
        rest.alias.clone_from(&desired.alias);
        change(net, &rest, None);
    }
}

fn change(net: &mut Net, desired: &Link, was: Option<&Link>) {
    if link::needs_master_first(desired, was) {
        net.send(|b| link::change_master(b, desired, was, &existing))
            .unwrap_or_else(|error| panic!("{desired:?}: {error}"));
    }
    net.send(|b| link::change(b, desired, was, &existing))
        .unwrap_or_else(|error| panic!("{desired:?}: {error}"));
    if link::needs_kind_change(desired, was) {
        net.send(|b| link::change_kind(b, desired, was, &existing))
            .unwrap_or_else(|error| panic!("{desired:?}: {error}"));
    }
}

pub(crate) fn links_come_up_as_desired_and_go_alone() {
    let (mut net, a, _) = Net::with_devices();
    let br = Link::new(name("br"), LinkKind::Bridge(BridgeAttrs::default()));
    create(&mut net, &br);
    let br = net.dev("br");
    for kind in kinds(a) {
        let plain = Link::new(name("x"), kind);
        let mut all = vec![plain.clone()];
        // A bridge cannot be the port of a bridge.
        let mut full = dressed(&plain, br);
        if matches!(plain.kind, Some(LinkKind::Bridge(_))) {
            full.master = Some(None);
        }
        all.push(full);
        for desired in all {
            let before: Vec<_> = net.links().iter().map(|link| link.index).collect();
            create(&mut net, &desired);
            let found = agrees(&mut net, &desired);
            let again = net.send(|b| link::create(b, &desired, 0, &existing)).unwrap_err();
            assert_eq!(again.errno(), Some(libc::EEXIST), "{desired:?}");
            if let Some(LinkKind::Veth { peer, .. }) = &found.kind {
                assert_eq!(*peer, Some(name("peer")));
                let other = net.link("peer").unwrap();
                let back = LinkKind::veth(name("x"));
                assert_eq!(other.kind, Some(back));
            }
            net.send(|b| link::delete(b, found.index))
                .unwrap_or_else(|error| panic!("{desired:?}: {error}"));
            let gone = net.send(|b| link::delete(b, found.index)).unwrap_err();
            assert_eq!(gone.errno(), Some(libc::ENODEV));
            let after: Vec<_> = net.links().iter().map(|link| link.index).collect();
            assert_eq!(after, before);
        }
    }
}

// fact 63
pub(crate) fn a_link_takes_the_index_that_was_asked_for() {
    const TOP: u32 = i32::MAX as u32;
    let (mut net, a, _) = Net::with_devices();
    let pair =
        |index, peer: &str| Link::new(name("x"), LinkKind::veth(name(peer))).with_index(index);
    let make = |net: &mut Net, link: &Link, peer| {
        let made = net.send(|b| link::create(b, link, peer, &existing));
        made.map_err(|error| error.errno())
    };
    let next = net.links().iter().map(|link| link.index).max().unwrap() + 1;
    assert_eq!(make(&mut net, &pair(TOP, "y"), TOP - 1), Ok(()));
    assert_eq!((net.dev("x"), net.dev("y")), (Dev::index(TOP), Dev::index(TOP - 1)));

    // The kernel reports each taken index, and creates nothing.
    let before = net.links();
    let other = |index, peer| {
        let mut other = pair(index, peer);
        other.name = name("z");
        other
    };
    for (link, peer, errno) in [
        (other(TOP, "q"), 0, libc::EEXIST),
        (other(1, "q"), 0, libc::EEXIST),
        (pair(TOP, "q"), 0, libc::EEXIST),
        (pair(7777, "q"), 0, libc::EEXIST),
        (other(7777, "q"), TOP, libc::EBUSY),
        (other(7777, "q"), 7777, libc::EBUSY),
        (other(7777, "y"), 0, libc::EEXIST),
        (other(0, "y"), 0, libc::EEXIST),
    ] {
        assert_eq!(make(&mut net, &link, peer), Err(Some(errno)), "{link:?} {peer}");
        assert_eq!(net.links(), before);
    }

    // The kernel's own numbers continue, except those tried for the peers.
    let kind = LinkKind::Macvlan(MacvlanAttrs::new(a));
    assert_eq!(make(&mut net, &Link::new(name("m"), kind), 0), Ok(()));
    let Some(index) = net.dev("m").as_index() else {
        panic!("it is not planned");
    };
    assert!((next..next + 10).contains(&index), "{index}, and not {next} or so");
}

/// A bond takes no port that is up, so the master must be set in a separate message.
pub(crate) fn a_master_is_changed_alone_and_then_up_is_told_again() {
    let (mut net, _, _) = Net::with_devices();
    for plain in [
        Link::new(name("br"), LinkKind::Bridge(BridgeAttrs::default())),
        Link::new(name("x"), LinkKind::Ifb),
    ] {
        create(&mut net, &plain);
    }
    let fresh = net.link("x").unwrap();
    let up = fresh.clone().with_up(true);
    let br = net.dev("br");
    let (wanted, alone) = (up.clone().with_master(br), up.with_no_master());
    assert!(link::changes_master(&wanted, Some(&fresh)) && link::changes_master(&wanted, None));
    assert!(!link::changes_master(&alone, Some(&fresh)) && !link::changes_master(&alone, None));

    net.send(|b| link::change_master(b, &wanted, Some(&fresh), &existing)).unwrap();
    let enslaved = net.link("x").unwrap();
    assert_eq!((enslaved.master, enslaved.up), (Some(Some(br)), Some(false)));
    change(&mut net, &wanted, Some(&fresh));
    let ready = net.link("x").unwrap();
    assert_eq!((ready.master, ready.up), (Some(Some(br)), Some(true)));

    // Like a bond: down again, which the observation does not show.
    net.send(|b| link::change_master(b, &alone, Some(&ready), &existing)).unwrap();
    let down = Link::must_exist(name("x")).with_up(false);
    change(&mut net, &down, None);
    change(&mut net, &alone, Some(&ready));
    assert!(alone.agrees(&net.link("x").unwrap()));
}

pub(crate) fn a_change_brings_about_all_that_can_change_in_place() {
    let (mut net, a, b) = Net::with_devices();
    let br = Link::new(name("br"), LinkKind::Bridge(BridgeAttrs::default()));
    create(&mut net, &br);
    let master = net.dev("br");
    let ip = |text: &str| Some(text.parse().unwrap());
    let changed = |kind: &LinkKind| match kind {
        LinkKind::Bridge(_) => LinkKind::Bridge(bridge()),
        LinkKind::Vxlan(vxlan) => {
            let mut changed = (*vxlan).with_ttl(9);
            let by_family = |at: IpAddr, v4, v6| ip(if at.is_ipv4() { v4 } else { v6 });
            changed.local = vxlan.local.and_then(|at| by_family(at, "10.0.1.1", "2001:db8:1::1"));
            changed.remote = vxlan.remote.and_then(|at| by_family(at, "10.0.1.2", "ff05::2"));
            changed.link = vxlan.link.map(|_| b);
            LinkKind::Vxlan(changed)
        }
        LinkKind::Macvlan(MacvlanAttrs { link, .. }) => {
            LinkKind::Macvlan(MacvlanAttrs::new(*link).with_mode(MacvlanMode::Vepa))
        }
        other => other.clone(),
    };
    for kind in kinds(a) {
        let first = Link::new(name("x"), kind.clone());
        create(&mut net, &first);
        let was = agrees(&mut net, &first);

        let mut desired = dressed(&Link::new(name("x"), changed(&kind)), master);
        if matches!(kind, LinkKind::Bridge(_)) {
            desired.master = Some(None);
        }
        if kind == LinkKind::Ifb {
            // An IFB keeps its address from creation.
            desired.address = None;
        }
        assert!(!desired.agrees(&was));
        change(&mut net, &desired, Some(&was));
        let now = agrees(&mut net, &desired);
        assert_eq!(now.index, was.index);

        // Once more, without its former state.
        change(&mut net, &desired, None);
        agrees(&mut net, &desired);

        let bare = Link::must_exist(name("x"))
            .with_up(false)
            .with_no_master()
            .with_alias([])
            .with_group(0);
        net.send(|b| link::change(b, &bare, Some(&now), &existing)).unwrap();
        agrees(&mut net, &bare);
        net.send(|b| link::delete(b, now.index)).unwrap();
    }
}

pub(crate) fn a_peer_in_another_namespace_is_none() {
    let mut net = Net::empty();
    let mut pair = Link::new(name("x"), LinkKind::veth(name("y")));
    pair.up = Some(true);
    create(&mut net, &pair);
    let here = net.dev("y").as_index();
    // A second namespace, which this thread enters; the first keeps its socket.
    let _elsewhere = Net::empty();
    let mut message = Vec::new();
    let mut writer = trueup_netlink::wire::MessageWriter::begin(&mut message, link::NEW, 0);
    let mut head = [0; 16];
    head[4..8].copy_from_slice(&here.unwrap().to_ne_bytes());
    writer.body(&head);
    const IFLA_NET_NS_PID: u16 = 19;
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    writer.attr_i32(IFLA_NET_NS_PID, thread);
    writer.finish().unwrap();
    net.socket.request(&message).unwrap();

    let found = net.link("x").unwrap();
    assert_eq!(found.kind, Some(LinkKind::veth_without_peer()));
    assert!(net.link("y").is_none());
}

pub(crate) fn one_link_is_asked_for_by_name() {
    let (mut net, a, _) = Net::with_devices();
    let mut request = Vec::new();
    link::request_by_name(&mut request, &name("a")).unwrap();
    let decoded = net.socket.query(&request, |m| link::decode(m.body)).unwrap();
    assert_eq!(decoded.unwrap().unwrap().0.index, a.as_index().unwrap());

    request.clear();
    link::request_by_name(&mut request, &name("nosuchdev")).unwrap();
    let error = net.socket.query(&request, |m| link::decode(m.body)).unwrap_err();
    assert_eq!(error.errno(), Some(libc::ENODEV));

    let lo = net.link("lo").unwrap();
    assert_eq!((lo.index, lo.kind), (1, Some(LinkKind::Other("".into()))));
}

pub(crate) fn what_netlink_cannot_create_is_refused() {
    let mut buffer = Vec::new();
    for kind in [
        LinkKind::Tun,
        LinkKind::Tap,
        LinkKind::Other("gretap".into()),
        LinkKind::veth_without_peer(),
    ] {
        let refused = link::create(&mut buffer, &Link::new(name("x"), kind), 0, &existing);
        assert!(matches!(refused, Err(EncodeError::Refused(_))));
    }
    let refused = link::create(&mut buffer, &Link::must_exist(name("x")), 0, &existing);
    assert!(matches!(refused, Err(EncodeError::Refused(_))));
    assert!(matches!(link::delete(&mut buffer, 0), Err(EncodeError::Refused(_))));
    let dev = Dev::planned(1);
    let on_planned = Link::new(name("x"), LinkKind::Macvlan(MacvlanAttrs::new(dev)));
    let unresolved = link::create(&mut buffer, &on_planned, 0, &existing);
    assert_eq!(unresolved, Err(EncodeError::Unresolved(dev)));
    assert!(buffer.is_empty());
}

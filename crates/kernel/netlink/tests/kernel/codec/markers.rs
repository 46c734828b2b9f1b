//! The answers about a kernel's markers, compared with objects written with one and read back: on
//! the running kernel and on the model, as they are and as older ones.

use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use trueup_net::{
    Address, Dev, Family, LinkAddr, Neighbour, Prefix, Route, RouteType, Rule, RuleAction,
};
use trueup_netlink::codec::{self, existing, rule};
use trueup_netlink::wire::{MessageWriter, NLM_F_CREATE, NLM_F_EXCL};
use trueup_netlink::{Connect, Group, Namespace, Socket, Transport, marker};
use trueup_testkit::model::Kernel;
use trueup_testkit::{Kind, Snapshot, assert_no_changes, fresh_netns, mask, without_net_admin};

use super::net::{Net, OURS};

const FAMILIES: [Family; 2] = [Family::Inet, Family::Inet6];

/// Returns the answer for each kind that [`kept`] tries.
fn found(namespace: &Namespace) -> [(Kind, Option<bool>); 5] {
    use trueup_net::Kind::{Address, Neighbour, Nexthop, Route, Rule};
    let mut socket = Socket::open(namespace).unwrap();
    [
        (Kind::Address, Address),
        (Kind::Neighbour, Neighbour),
        (Kind::Rule, Rule),
        (Kind::Route, Route),
        (Kind::Nexthop, Nexthop),
    ]
    .map(|(of, kind)| (of, marker(&mut socket, kind).unwrap()))
}

/// Returns true for each kind whose object comes back with its marker, in both families.
fn kept(net: &mut Net, dev: Dev) -> [(Kind, Option<bool>); 5] {
    let hosts = ["10.9.0.1", "2001:db8:9::1"];
    let mut kept = [Kind::Address, Kind::Neighbour, Kind::Rule, Kind::Route, Kind::Nexthop]
        .map(|kind| (kind, true));
    for (family, host) in FAMILIES.into_iter().zip(hosts) {
        let mut own = Address::new(dev, host.parse().unwrap());
        own.protocol = OURS;
        net.send(|b| codec::create(b, &own, &existing)).unwrap();
        let all = net.addresses(family);
        let found = all.iter().find(|found| found.address == own.address).unwrap();
        kept[0].1 &= found.protocol == OURS;

        let lladdr = LinkAddr::from_bytes(&[2, 0, 0, 0, 0, 9]).unwrap();
        let mut near = Neighbour::new(dev, host.parse().unwrap(), lladdr);
        near.protocol = OURS;
        net.send(|b| codec::create(b, &near, &existing)).unwrap();
        let all = net.neighbours(family);
        let found = all.iter().find(|found| found.dst == near.dst).unwrap();
        kept[1].1 &= found.protocol == OURS;

        let mut lookup = Rule::new(family, 1000, RuleAction::Lookup(100));
        lookup.protocol = OURS;
        net.send(|b| codec::create(b, &lookup, &existing)).unwrap();
        let all = net.rules(family);
        let found = all.iter().find(|found| found.priority == 1000).unwrap();
        kept[2].1 &= found.protocol == OURS;

        let mut away = Route::of_type(RouteType::Blackhole, host.parse::<Prefix>().unwrap());
        away.protocol = OURS;
        let away = away.canonical();
        net.send(|b| codec::create(b, &away, &existing)).unwrap();
        let all = net.all_routes(family);
        let found =
            all.iter().find(|found| found.dst == away.dst && found.kind == away.kind).unwrap();
        kept[3].1 &= found.protocol == OURS;
    }
    kept[4].1 = nexthop_kept(net);
    kept.map(|(kind, is_kept)| (kind, Some(is_kept)))
}

/// Tries a nexthop object by raw bytes: it has no codec here.
fn nexthop_kept(net: &mut Net) -> bool {
    const RTM_NEWNEXTHOP: u16 = 104;
    const RTM_GETNEXTHOP: u16 = 106;
    const NHA_ID: u16 = 1;
    const NHA_BLACKHOLE: u16 = 4;
    net.send(|buffer| {
        let mut message = MessageWriter::begin(buffer, RTM_NEWNEXTHOP, NLM_F_CREATE | NLM_F_EXCL);
        message.body(&[2, 0, OURS, 0, 0, 0, 0, 0]);
        message.attr_u32(NHA_ID, 7);
        message.attr(NHA_BLACKHOLE, &[]);
        message.finish()
    })
    .unwrap();
    let mut request = Vec::new();
    let mut message = MessageWriter::begin(&mut request, RTM_GETNEXTHOP, 0);
    message.body(&[0; 8]);
    message.finish().unwrap();
    net.dump(&request, |body| Ok(Some(body[2]))) == [OURS]
}

pub(crate) fn a_marker_said_to_be_kept_comes_back_and_no_other() {
    let kinds = [Kind::Address, Kind::Neighbour, Kind::Rule];
    for subset in 0..8_u32 {
        let chosen = |at: &usize| subset & 1 << at != 0;
        let hidden: Vec<_> = (0..3).filter(chosen).map(|at| kinds[at]).collect();
        fresh_netns();
        for kernel in [Namespace::current(), Kernel::new().namespace()] {
            let namespace = match hidden.is_empty() {
                true => kernel,
                false => mask(kernel, &hidden),
            };
            let (mut net, dev, _) = Net::with_devices_in(&namespace);
            let said = found(&namespace);
            assert_eq!(said, kept(&mut net, dev), "{namespace} without {hidden:?}");
            for (kind, kept) in said {
                // All kernels that run these tests keep them.
                assert_eq!(kept, Some(!hidden.contains(&kind)), "{namespace}: {kind:?}");
            }
        }
    }
}

pub(crate) fn asking_changes_nothing_and_takes_no_privilege() {
    let (_net, _, _) = Net::with_devices();
    let before = Snapshot::settled();
    let ask = || found(&Namespace::current());
    let mut privileged = None;
    assert_no_changes(|| privileged = Some(ask()));
    before.assert_same(&Snapshot::settled());
    without_net_admin();
    assert_eq!(privileged, Some(ask()));
    let model = Kernel::new();
    assert_eq!(found(&model.namespace()), found(&model.namespace_unprivileged()));
}

/// A namespace that counts received bytes. Without strict checking it behaves like a kernel before
/// Linux 4.20: dumps are complete for any request, and refusals have no message.
#[derive(Debug)]
struct Counted {
    inner: Namespace,
    is_strict: bool,
    received: Arc<AtomicUsize>,
}

impl Connect for Counted {
    fn connect(&self) -> io::Result<Box<dyn Transport>> {
        Ok(Box::new(CountedTransport {
            inner: self.inner.connect().map_err(io::Error::other)?,
            is_strict: self.is_strict,
            received: Arc::clone(&self.received),
        }))
    }
}

struct CountedTransport {
    inner: Box<dyn Transport>,
    is_strict: bool,
    received: Arc<AtomicUsize>,
}

impl Transport for CountedTransport {
    fn port(&self) -> u32 {
        self.inner.port()
    }

    fn prepare_requests(&mut self) -> io::Result<bool> {
        match self.is_strict {
            true => self.inner.prepare_requests(),
            false => Ok(false),
        }
    }

    fn join(&mut self, group: Group) -> io::Result<()> {
        self.inner.join(group)
    }

    fn receive_buffer(&self) -> io::Result<usize> {
        self.inner.receive_buffer()
    }

    fn set_receive_buffer(&mut self, bytes: usize) -> io::Result<()> {
        self.inner.set_receive_buffer(bytes)
    }

    fn netns_cookie(&self) -> io::Result<u64> {
        self.inner.netns_cookie()
    }

    fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        self.inner.send(datagram)
    }

    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let length = self.inner.receive(buffer)?;
        self.received.fetch_add(length, Ordering::Relaxed);
        Ok(length)
    }
}

impl AsFd for CountedTransport {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

/// Returns the answers for a namespace, and the number of bytes that they took.
fn found_counted(inner: Namespace, is_strict: bool) -> ([(Kind, Option<bool>); 5], usize) {
    let received = Arc::new(AtomicUsize::new(0));
    let counted = Counted { inner, is_strict, received: Arc::clone(&received) };
    let found = found(&Namespace::through(Arc::new(counted)));
    (found, received.load(Ordering::Relaxed))
}

pub(crate) fn a_kernel_that_does_not_check_strictly_keeps_those_of_rules_alone() {
    for kernel in [Namespace::current(), Kernel::new().namespace()] {
        let (found, _) = found_counted(kernel, false);
        let expected = [(Kind::Address, false), (Kind::Neighbour, false), (Kind::Rule, true)];
        assert_eq!(found[..3], expected.map(|(kind, is_kept)| (kind, Some(is_kept))));
    }
}

/// Every kernel that runs these tests has a rule of multicast routing in each namespace.
pub(crate) fn many_rules_are_not_read_for_their_marker() {
    let mut net = Net::empty();
    let (few, before) = found_counted(Namespace::current(), true);
    for family in FAMILIES {
        for priority in 1000..1100 {
            let mut lookup = Rule::new(family, priority, RuleAction::Lookup(100));
            lookup.protocol = OURS;
            net.send(|b| codec::create(b, &lookup, &existing)).unwrap();
        }
    }
    assert_eq!(found_counted(Namespace::current(), true), (few, before));
    assert_eq!(few[2], (Kind::Rule, Some(true)));
}

/// On the model: the running kernel may have rules of multicast routing, which serve as well.
pub(crate) fn without_a_rule_nothing_is_said_of_rules() {
    let namespace = Kernel::new().namespace();
    let (mut net, _, _) = Net::with_devices_in(&namespace);
    for family in FAMILIES {
        for _ in net.rules(family) {
            // A request without selectors deletes the first.
            net.send(|buffer| {
                let mut message = MessageWriter::begin(buffer, rule::DELETE, 0);
                message.body(&[if family == Family::Inet { 2 } else { 10 }, 0, 0, 0]);
                message.body(&[0; 8]);
                message.finish()
            })
            .unwrap();
        }
        assert_eq!(net.rules(family), []);
    }
    let found = found(&namespace);
    assert_eq!(found[2], (Kind::Rule, None));
    assert_eq!(found[0], (Kind::Address, Some(true)));
}

//! The kernel's echoes of changes (`NLM_F_ECHO`), and the changes without one.

use trueup_net::{
    Address, Dev, Family, IfName, Link, LinkAddr, LinkKind, Metric, Neighbour, NextHop, NextHops,
    ObjectKind as _, Route, RouteType, Rule, RuleAction,
};
use trueup_netlink::codec::{self, EncodeError, KindCodec as _, existing, link, route};
use trueup_netlink::{Answer, Batch};
use trueup_testkit::running_version;

use super::net::{Net, OURS};

type Encode<'a> = &'a dyn Fn(&mut Vec<u8>) -> Result<(), EncodeError>;

/// An echo: the position in the batch, the message type, and the body.
type Echo = (usize, u16, Vec<u8>);

fn echoed(net: &mut Net, all: &[Encode<'_>]) -> (Vec<Answer>, Vec<Echo>) {
    let mut batch = Batch::new();
    for encode in all {
        assert!(batch.push(encode).unwrap());
    }
    let mut echoes_seen = Vec::new();
    let outcomes = net.socket.send_batch_echoed(&mut batch, |index, message| {
        echoes_seen.push((index, message.header.kind, message.body.to_vec()));
    });
    assert!(batch.is_empty());
    (outcomes.unwrap(), echoes_seen)
}

/// Sends one request, which the kernel must accept, and returns the number of its echoes.
fn echoes(net: &mut Net, encode: Encode<'_>) -> usize {
    let (outcomes, echoes_seen) = echoed(net, &[encode]);
    assert_eq!(outcomes, [Some(Ok(()))]);
    echoes_seen.len()
}

fn via(gateway: &str, dev: Dev) -> NextHop {
    NextHop::via(gateway.parse().unwrap()).with_dev(dev)
}

fn ours(dst: &str, nexthops: NextHops, change: impl FnOnce(&mut Route)) -> Route {
    let mut route = Route::new(dst.parse().unwrap(), nexthops);
    route.protocol = OURS;
    change(&mut route);
    route.canonical()
}

/// Returns a route of each sort, in one family.
fn routes(family: Family, a: Dev, b: Dev) -> Vec<Route> {
    let (dst, gateways, source) = match family {
        Family::Inet => ("10.7.0.0/16", ["10.0.0.9", "10.0.1.9"], "10.0.0.1"),
        Family::Inet6 => ("2001:db8:7::/48", ["2001:db8::9", "2001:db8:1::9"], "2001:db8::1"),
    };
    let one = || NextHops::One(via(gateways[0], a));
    let both = || NextHops::Many(vec![via(gateways[0], a), via(gateways[1], b).with_weight(7)]);
    vec![
        ours(dst, one(), |_| {}),
        ours(dst, NextHops::One(NextHop::dev(b)), |r| r.metric = 3),
        ours(dst, both(), |r| r.metric = 4),
        ours(dst, NextHops::None, |r| {
            (r.kind, r.metric) = (RouteType::Unreachable, 5);
        }),
        ours(dst, one(), |r| {
            (r.metric, r.table) = (6, 1_000_000);
            r.metrics.set(Metric::Mtu, 1400);
            r.src = Some(source.parse().unwrap());
        }),
        ours(dst, one(), |r| {
            r.metric = 7;
            if let NextHops::One(hop) = &mut r.nexthops {
                hop.onlink = true;
            }
        }),
    ]
}

fn sorted(mut routes: Vec<Route>) -> Vec<Route> {
    routes.sort_by_key(|route| format!("{:?}", route.key()));
    routes
}

pub(crate) fn an_echoed_route_is_the_row_of_the_dump() {
    for family in [Family::Inet, Family::Inet6] {
        let (mut net, a, b) = Net::with_devices();
        let all = routes(family, a, b);
        let create = |route: &Route| {
            let route = route.clone();
            move |buffer: &mut Vec<u8>| codec::create(buffer, &route, &existing)
        };
        let encoders: Vec<_> = all.iter().map(create).collect();
        let encoders: Vec<Encode<'_>> = encoders.iter().map(|e| e as Encode<'_>).collect();
        let (outcomes, echoes_seen) = echoed(&mut net, &encoders);
        assert_eq!(outcomes, vec![Some(Ok(())); all.len()]);
        let indices: Vec<_> = echoes_seen.iter().map(|(index, ..)| *index).collect();
        assert_eq!(indices, (0..all.len()).collect::<Vec<_>>(), "one each");
        let decoded = |echoes_seen: &[Echo], expected: u16| -> Vec<Route> {
            let one = |(_, kind, body): &Echo| {
                assert_eq!(*kind, expected);
                Route::decode(body).unwrap().unwrap()
            };
            echoes_seen.iter().map(one).collect()
        };
        let created = decoded(&echoes_seen, route::NEW);
        assert_eq!(created, all);
        assert_eq!(sorted(created), sorted(net.routes(family)));

        // Another gateway instead of the first.
        let hop = match family {
            Family::Inet => via("10.0.1.77", b),
            Family::Inet6 => via("2001:db8:1::77", b),
        };
        let mut changed = all[0].clone();
        changed.nexthops = NextHops::One(hop);
        let replace: Encode<'_> = &|buffer| codec::replace(buffer, &changed, &existing);
        let (outcomes, echoes_seen) = echoed(&mut net, &[replace]);
        assert_eq!(outcomes, [Some(Ok(()))]);
        assert_eq!(decoded(&echoes_seen, route::NEW), std::slice::from_ref(&changed));
        assert!(net.routes(family).contains(&changed));

        let delete: Encode<'_> = &|buffer| codec::delete(buffer, &changed, &existing);
        let (outcomes, echoes_seen) = echoed(&mut net, &[delete]);
        assert_eq!(outcomes, [Some(Ok(()))]);
        assert_eq!(decoded(&echoes_seen, route::DELETE), [changed]);
        assert_eq!(net.routes(family).len(), all.len() - 1);
    }
}

/// A missing echo is no loss here, and no proof either.
pub(crate) fn an_ipv4_replace_that_changes_nothing_is_not_announced() {
    for (family, expected) in [(Family::Inet, 0), (Family::Inet6, 1)] {
        let (mut net, a, b) = Net::with_devices();
        let route = routes(family, a, b).swap_remove(0);
        let create: Encode<'_> = &|buffer| codec::create(buffer, &route, &existing);
        let replace: Encode<'_> = &|buffer| codec::replace(buffer, &route, &existing);
        assert_eq!(echoes(&mut net, create), 1);
        assert_eq!(echoes(&mut net, replace), expected);
    }
}

pub(crate) fn a_delete_of_several_next_hops_is_echoed_for_each_in_ipv6() {
    for (family, expected) in [(Family::Inet, 1), (Family::Inet6, 2)] {
        let (mut net, a, b) = Net::with_devices();
        let route = routes(family, a, b).swap_remove(2);
        let create: Encode<'_> = &|buffer| codec::create(buffer, &route, &existing);
        let delete: Encode<'_> = &|buffer| codec::delete(buffer, &route, &existing);
        assert_eq!(echoes(&mut net, create), 1);
        assert_eq!(echoes(&mut net, delete), expected);
        assert_eq!(net.routes(family), []);
    }
}

pub(crate) fn what_else_is_echoed_and_what_is_not() {
    let (mut net, a, _) = Net::with_devices();
    for family in [Family::Inet, Family::Inet6] {
        let mut rule = Rule::new(family, 1000, RuleAction::Lookup(100));
        rule.protocol = OURS;
        let rule = rule.canonical();
        assert_eq!(echoes(&mut net, &|b| codec::create(b, &rule, &existing)), 1);
        assert_eq!(echoes(&mut net, &|b| codec::delete(b, &rule, &existing)), 1);
    }
    for (address, echoes_seen) in [("10.9.0.1/24", 1), ("2001:db8:9::1/64", 0)] {
        let address = Address::new(a, address.parse().unwrap());
        let create: Encode<'_> = &|b| codec::create(b, &address, &existing);
        assert_eq!(echoes(&mut net, create), echoes_seen);
        let delete: Encode<'_> = &|b| codec::delete(b, &address, &existing);
        assert_eq!(echoes(&mut net, delete), echoes_seen);
    }
    for dst in ["10.0.0.77", "2001:db8::77"] {
        let lladdr: LinkAddr = "02:00:00:00:00:09".parse().unwrap();
        let neighbour = Neighbour::new(a, dst.parse().unwrap(), lladdr);
        let create: Encode<'_> = &|b| codec::create(b, &neighbour, &existing);
        assert_eq!(echoes(&mut net, create), 0);
        let delete: Encode<'_> = &|b| codec::delete(b, &neighbour, &existing);
        assert_eq!(echoes(&mut net, delete), 0);
    }
    let name: IfName = "ifb7".parse().unwrap();
    let ifb = Link::new(name, LinkKind::Ifb);
    // Links are echoed since "rtnetlink: Honour NLM_F_ECHO flag" of 6.2, which some earlier kernels
    // have backported.
    let as_expected =
        |echoes_seen| echoes_seen == 1 || echoes_seen == 0 && running_version() < (6, 2);
    let create: Encode<'_> = &|b| link::create(b, &ifb, 0, &existing);
    assert!(as_expected(echoes(&mut net, create)));
    let index = net.link("ifb7").unwrap().index;
    assert!(as_expected(echoes(&mut net, &|b| link::delete(b, index))));
}

/// Through a queue with space for few echoes at a time.
pub(crate) fn every_message_is_echoed_however_small_the_queue() {
    for family in [Family::Inet, Family::Inet6] {
        for legs in [1, 2, 40] {
            let (mut net, a, _) = Net::with_devices();
            net.socket.set_receive_buffer(20_000).unwrap();
            let numbered = |n: usize| {
                let (dst, gateway) = match family {
                    Family::Inet => (format!("10.77.{}.{}/32", n / 200, n % 200), "10.0.0."),
                    Family::Inet6 => (format!("2001:db8:77::{n}/128"), "2001:db8::"),
                };
                let hop = |host: usize| via(&format!("{gateway}{}", host + 2), a);
                let hops = match legs {
                    1 => NextHops::One(hop(0)),
                    _ => NextHops::Many((0..legs).map(hop).collect()),
                };
                ours(&dst, hops, |_| {})
            };
            let all: Vec<_> = (0..60).map(numbered).collect();
            for (round, expected) in [(0, route::NEW), (1, route::DELETE)] {
                let mut batch = Batch::new();
                for route in &all {
                    let added = batch.push(|buffer| match round {
                        0 => codec::create(buffer, route, &existing),
                        _ => codec::delete(buffer, route, &existing),
                    });
                    if !added.unwrap() {
                        break;
                    }
                }
                let count = batch.len();
                let mut echoes_seen = vec![0; count];
                let outcomes = net.socket.send_batch_echoed(&mut batch, |index, message| {
                    assert_eq!(message.header.kind, expected);
                    let route = Route::decode(message.body).unwrap().unwrap();
                    assert_eq!(route.key(), all[index].key());
                    echoes_seen[index] += 1;
                });
                assert_eq!(outcomes.unwrap(), vec![Some(Ok(())); count]);
                // If one message's echoes alone would not fit, none is requested.
                let each = match (round, family) {
                    (1, Family::Inet6) if legs > 10 => 0,
                    (1, Family::Inet6) => legs,
                    _ => 1,
                };
                assert_eq!(echoes_seen, vec![each; count], "{family} {legs}");
            }
        }
    }
}

pub(crate) fn a_lost_echo_is_unknown_and_never_silence() {
    let (mut net, a, _) = Net::with_devices();
    let first = ours("10.8.0.0/16", NextHops::One(via("10.0.0.9", a)), |_| {});
    let create: Encode<'_> = &|buffer| codec::create(buffer, &first, &existing);
    assert_eq!(echoes(&mut net, create), 1);
    // Without the socket's knowledge: it still assumes that 250 echoes fit.
    rustix::net::sockopt::set_socket_recv_buffer_size(&net.socket, 10_000).unwrap();
    let route = |n: usize| {
        let mut route = ours("10.7.0.0/16", NextHops::One(via("10.0.0.9", a)), |_| {});
        route.metric = n as u32 + 1;
        route
    };
    let mut batch = Batch::new();
    for n in 0..200 {
        let added = batch.push(|buffer| codec::create(buffer, &route(n), &existing));
        assert!(added.unwrap());
    }
    let mut echoes_seen = [false; 200];
    let outcomes =
        net.socket.send_batch_echoed(&mut batch, |index, _| echoes_seen[index] = true).unwrap();
    let lost = echoes_seen.iter().filter(|echoes_seen| !**echoes_seen).count();
    assert!((1..200).contains(&lost), "{lost}");
    assert_eq!(outcomes, vec![None; 200]);
    // They were still carried out.
    assert_eq!(net.routes(Family::Inet).len(), 201);
    let again = route(300);
    let create: Encode<'_> = &|buffer| codec::create(buffer, &again, &existing);
    assert_eq!(echoes(&mut net, create), 1);
}

pub(crate) fn an_error_is_the_outcome_of_its_own_message_among_echoes() {
    let (mut net, a, b) = Net::with_devices();
    let all = routes(Family::Inet, a, b);
    let create: Encode<'_> = &|buffer| codec::create(buffer, &all[0], &existing);
    let (outcomes, echoes_seen) = echoed(&mut net, &[create, create, create]);
    assert_eq!(outcomes[0], Some(Ok(())));
    for outcome in &outcomes[1..] {
        let exists = |error: &trueup_netlink::KernelError| error.errno() == 17;
        assert!(matches!(outcome, Some(Err(error)) if exists(error)));
    }
    assert_eq!(echoes_seen.len(), 1);
}

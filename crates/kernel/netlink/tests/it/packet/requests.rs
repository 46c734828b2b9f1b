//! An op becomes messages, as many as it takes, in their order.

use std::collections::BTreeMap;

use netlink_packet_core::{NetlinkMessage, NetlinkPayload};
use netlink_packet_route::RouteNetlinkMessage;
use netlink_packet_route::link::LinkAttribute;
use netlink_packet_route::route::RouteAttribute;
use proptest::prelude::*;
use trueup_net::{
    Action, Address, BridgeAttrs, Desired, Dev, Hold, IfName, Kind, Kinds, Lifetimes, Link,
    LinkKind, NextHop, NextHops, Nexthop, NexthopTarget, Object, Observed, Op, Owned, Plan, Policy,
    Prefix, Reason, Route, Rule, RuleAction, plan, with_object,
};
use trueup_netlink::codec::{self, existing};
use trueup_netlink::packet::{Error, ErrorKind, Message, requests};
use trueup_netlink::wire::{
    Messages, NLM_F_ACK, NLM_F_APPEND, NLM_F_CREATE, NLM_F_EXCL, NLM_F_REPLACE, NLM_F_REQUEST,
};

use crate::codec::model;

const DELETE: u16 = NLM_F_REQUEST | NLM_F_ACK;
const CREATE: u16 = DELETE | NLM_F_CREATE | NLM_F_EXCL;
const APPEND: u16 = DELETE | NLM_F_CREATE | NLM_F_APPEND;
const REPLACE: u16 = DELETE | NLM_F_CREATE | NLM_F_REPLACE;

fn no_indexes() -> BTreeMap<Dev, u32> {
    BTreeMap::new()
}

fn plan_of(ops: impl Into<Vec<Op>>) -> Plan {
    let mut plan = Plan::default();
    plan.ops = ops.into();
    plan
}

fn of(plan: &Plan) -> Vec<Vec<NetlinkMessage<Message>>> {
    let indexes = no_indexes();
    (0..plan.ops.len()).map(|at| requests(plan, at, &indexes).unwrap()).collect()
}

fn inner(request: &NetlinkMessage<Message>) -> &RouteNetlinkMessage {
    match &request.payload {
        NetlinkPayload::InnerMessage(Message::Route(message)) => message,
        other => panic!("{other:?}"),
    }
}

fn bytes(request: &NetlinkMessage<Message>) -> Vec<u8> {
    let mut bytes = vec![0xff; request.buffer_len()];
    request.serialize(&mut bytes);
    bytes
}

fn flags(requests: &[NetlinkMessage<Message>]) -> Vec<u16> {
    requests.iter().map(|request| request.header.flags).collect()
}

fn route(gateway: &str) -> Route {
    let hop = NextHop::via(gateway.parse().unwrap()).with_dev(Dev::index(7));
    let dst: Prefix = "10.2.0.0/16".parse().unwrap();
    Route::new(dst, NextHops::One(hop)).with_protocol(116).canonical()
}

/// Each message says the same to the kernel as the crate's own request.
fn check(action: Action, object: impl Into<Object>) -> Result<(), TestCaseError> {
    let object: Object = object.into();
    let mut ours = Vec::new();
    let encoded = with_object!(&object, it => match action {
        Action::Create => codec::create(&mut ours, it, &existing),
        Action::Update => codec::replace(&mut ours, it, &existing),
        Action::Delete => codec::delete(&mut ours, it, &existing),
    });
    let plan = plan_of([Op::new(action, object.clone(), Reason::Missing)]);
    let made = requests::<Message>(&plan, 0, &no_indexes());
    if encoded.is_err() {
        prop_assert_eq!(made.unwrap_err().kind(), ErrorKind::Refused);
        return Ok(());
    }
    let made = made.unwrap();
    let ours = Messages::new(&ours).next().unwrap();
    prop_assert_eq!(made.len(), 1);
    prop_assert_eq!(made[0].header.flags, ours.header.flags | NLM_F_ACK);
    let theirs = bytes(&made[0]);
    let theirs = Messages::new(&theirs).next().unwrap();
    prop_assert_eq!(theirs.header.kind, ours.header.kind);
    prop_assert_eq!(theirs.header.flags, made[0].header.flags);
    prop_assert_eq!(codec::decode(&theirs), codec::decode(&ours));
    Ok(())
}

fn action() -> impl Strategy<Value = Action> {
    prop_oneof![Just(Action::Create), Just(Action::Update), Just(Action::Delete)]
}

proptest! {
    #[test]
    fn ops_on_addresses(action in action(), address in model::address()) {
        check(action, address)?;
    }

    #[test]
    fn ops_on_neighbours(action in action(), neighbour in model::neighbour()) {
        check(action, neighbour)?;
    }

    #[test]
    fn ops_on_routes(action in action(), route in model::route()) {
        check(action, route)?;
    }

    #[test]
    fn ops_on_rules(action in action(), rule in model::rule()) {
        check(action, rule)?;
    }

    #[test]
    fn ops_on_nexthop_objects(action in action(), nexthop in model::nexthop()) {
        check(action, nexthop)?;
    }

    #[test]
    fn new_links(link in model::link()) {
        let plan = plan_of([Op::new(Action::Create, link.clone(), Reason::Missing)]);
        let made = requests::<Message>(&plan, 0, &no_indexes()).unwrap();
        prop_assert_eq!(flags(&made), [CREATE]);
        let bytes = bytes(&made[0]);
        let message = Messages::new(&bytes).next().unwrap();
        let RouteNetlinkMessage::NewLink(new) = inner(&made[0]) else { panic!("{made:?}") };
        prop_assert!(new.attributes.contains(&LinkAttribute::IfName(link.name.to_string())));
        // The kernel chooses an index. With one, all parts of the link can be read.
        prop_assert!(codec::decode(&message).is_err());
        let mut body = message.body.to_vec();
        body[4] = 9;
        let (decoded, _) = codec::link::decode(&body).unwrap().unwrap();
        prop_assert_eq!(decoded.kind.map(|kind| kind.name().to_owned()),
                        link.kind.map(|kind| kind.name().to_owned()));
        prop_assert_eq!((decoded.mtu, decoded.address), (link.mtu, link.address));
    }
}

#[test]
fn a_route_is_created_replaced_and_deleted_by_one_message_each() {
    let was = route("10.1.0.1");
    let update = Op::new(Action::Update, route("10.1.0.2"), Reason::Differs);
    let plan = plan_of([
        Op::new(Action::Create, was.clone(), Reason::Missing),
        update.with_was(Object::from(was.clone())),
        Op::new(Action::Delete, was, Reason::Undesired),
    ]);
    let made = of(&plan);
    assert_eq!(
        made.iter().map(|it| flags(it)).collect::<Vec<_>>(),
        [[CREATE], [REPLACE], [DELETE]]
    );
    assert!(matches!(inner(&made[0][0]), RouteNetlinkMessage::NewRoute(_)));
    assert!(matches!(inner(&made[2][0]), RouteNetlinkMessage::DelRoute(_)));
    assert!(made[0][0].header.length > 16, "ready to be serialized");
}

#[test]
fn a_route_moves_by_an_append_and_a_delete_of_the_former() {
    let was = route("10.1.0.1");
    let update = Op::new(Action::Update, route("10.1.0.2"), Reason::Differs);
    let plan = plan_of([update.with_was(Object::from(was))]).append_then_delete();
    let made = &of(&plan)[0];
    assert_eq!(flags(made), [APPEND, DELETE]);
    let gateways = made.iter().map(|request| match inner(request) {
        RouteNetlinkMessage::NewRoute(route) | RouteNetlinkMessage::DelRoute(route) => route
            .attributes
            .iter()
            .find_map(|attribute| match attribute {
                RouteAttribute::Gateway(gateway) => Some(format!("{gateway:?}")),
                _ => None,
            })
            .unwrap(),
        other => panic!("{other:?}"),
    });
    let gateways: Vec<_> = gateways.collect();
    assert!(gateways[0].contains("10.1.0.2") && gateways[1].contains("10.1.0.1"), "{gateways:?}");
}

#[test]
fn a_route_beside_others_is_appended() {
    let plan = plan_of([Op::new(Action::Create, route("10.1.0.1"), Reason::Beside)]);
    assert_eq!(flags(&of(&plan)[0]), [APPEND]);
}

#[test]
fn an_update_of_a_link_takes_up_to_three_messages() {
    let bridge = |delay| {
        LinkKind::Bridge(BridgeAttrs::default().with_stp(delay == 0).with_forward_delay(delay))
    };
    let link =
        |up, delay| Link::new("br0".parse().unwrap(), bridge(delay)).with_index(5).with_up(up);
    let was = link(false, 400).with_no_master().with_mtu(1500);
    let now = link(true, 1500).with_master(Dev::index(9)).with_mtu(1400);
    let stp = |on| LinkKind::Bridge(BridgeAttrs::default().with_stp(on).with_forward_delay(900));
    let (was, now) = (
        was.with_kind(stp(true)),
        now.with_kind(LinkKind::Bridge(
            BridgeAttrs::default().with_stp(false).with_forward_delay(0),
        )),
    );
    let op = Op::new(Action::Update, now, Reason::Differs).with_was(Object::from(was));
    let made = &of(&plan_of([op]))[0];
    assert_eq!(flags(made), [DELETE; 3], "a change has no other flags than a delete");
    let has = |at: usize, wanted: &dyn Fn(&LinkAttribute) -> bool| match inner(&made[at]) {
        RouteNetlinkMessage::NewLink(link) => link.attributes.iter().any(wanted),
        other => panic!("{other:?}"),
    };
    let is_master = |it: &LinkAttribute| matches!(it, LinkAttribute::Controller(9));
    let is_mtu = |it: &LinkAttribute| matches!(it, LinkAttribute::Mtu(1400));
    let is_kind = |it: &LinkAttribute| matches!(it, LinkAttribute::LinkInfo(_));
    let held: Vec<_> =
        (0..3).map(|at| [has(at, &is_master), has(at, &is_mtu), has(at, &is_kind)]).collect();
    assert_eq!(held, [[true, false, false], [false, true, true], [false, false, true]]);
}

#[test]
fn an_address_that_becomes_finite_takes_two_messages() {
    let address = |valid| {
        let lifetimes = Lifetimes { valid, preferred: valid };
        Address::new(Dev::index(7), "fd00::1/64".parse().unwrap()).with_lifetimes(lifetimes)
    };
    let op = Op::new(Action::Update, address(600), Reason::Differs);
    let op = op.with_was(Object::from(address(u32::MAX)));
    assert_eq!(flags(&of(&plan_of([op]))[0]), [REPLACE; 2]);
}

#[test]
fn an_op_on_hold_and_a_missing_op_have_no_messages() {
    let op = Op::new(Action::Create, route("10.1.0.1"), Reason::Missing);
    let plan = plan_of([op.with_hold(Hold::OutsideDomain)]);
    assert_eq!(requests::<Message>(&plan, 0, &no_indexes()), Ok(vec![]));
    assert_eq!(requests::<Message>(&plan, 1, &no_indexes()), Ok(vec![]));
}

#[test]
fn a_kind_without_stored_protocol_is_written_without_one() {
    let rule = Rule::new(trueup_net::Family::Inet, 900, RuleAction::Lookup(100)).with_protocol(116);
    let mut plan = plan_of([Op::new(Action::Create, rule, Reason::Missing)]);
    let has_protocol = |plan: &Plan| {
        let made = of(plan);
        let RouteNetlinkMessage::NewRule(rule) = inner(&made[0][0]) else { panic!("{made:?}") };
        rule.attributes.iter().any(|it| format!("{it:?}").starts_with("Protocol"))
    };
    assert!(has_protocol(&plan));
    plan.unstored = Kinds::NONE.with(Kind::Rule);
    assert!(!has_protocol(&plan));
}

#[test]
fn a_new_link_and_the_objects_on_it_have_the_chosen_index() {
    let name: IfName = "br7".parse().unwrap();
    let link = Link::new(name, LinkKind::Bridge(BridgeAttrs::default())).with_up(true);
    let desired = Desired::default()
        .with_links([link])
        .with_addresses([Address::new(name, "10.7.0.1/24".parse().unwrap())]);
    let plan = plan(
        &desired,
        &Observed::default().with_complete(Kinds::ALL),
        &Owned::default(),
        Policy::default(),
    )
    .unwrap();
    let (dev, _) = plan.devices.planned().next().unwrap();
    let indexes = BTreeMap::from([(dev, 77)]);
    let mut indexes_sent = Vec::new();
    for at in 0..plan.ops.len() {
        for request in requests::<Message>(&plan, at, &indexes).unwrap() {
            indexes_sent.push(match inner(&request) {
                RouteNetlinkMessage::NewLink(link) => ("link", link.header.index),
                RouteNetlinkMessage::NewAddress(address) => ("address", address.header.index),
                other => panic!("{other:?}"),
            });
        }
    }
    indexes_sent.dedup();
    assert_eq!(indexes_sent, [("link", 77), ("address", 77)]);

    // The kernel would choose an index, which the address's op cannot know.
    let refused: Vec<Error> = (0..plan.ops.len())
        .filter_map(|at| requests::<Message>(&plan, at, &no_indexes()).err())
        .collect();
    let of_address = refused.iter().find(|error| error.object() == Some(Kind::Address)).unwrap();
    assert_eq!(of_address.kind(), ErrorKind::Unresolved);
    assert_eq!(of_address.attribute(), Some("ifa_index"));
}

#[test]
fn a_nexthop_object_has_a_message_of_its_own() {
    let hop = NextHop::dev(Dev::index(7));
    let nexthop = Nexthop::new(5, NexthopTarget::One(trueup_net::Family::Inet, hop));
    let plan = plan_of([
        Op::new(Action::Create, nexthop.clone(), Reason::Missing),
        Op::new(Action::Delete, nexthop, Reason::Undesired),
    ]);
    let made = of(&plan);
    let payload = |at: usize| made[at][0].payload.clone();
    assert!(matches!(payload(0), NetlinkPayload::InnerMessage(Message::NewNexthop(_))));
    assert!(matches!(payload(1), NetlinkPayload::InnerMessage(Message::DelNexthop(_))));
    assert_eq!((made[0][0].header.message_type, made[1][0].header.message_type), (104, 105));

    // A transport of netlink-packet-route's messages cannot carry it.
    let error = requests::<RouteNetlinkMessage>(&plan, 0, &no_indexes()).unwrap_err();
    assert_eq!((error.object(), error.attribute()), (Some(Kind::Nexthop), Some("nlmsg_type")));
}

#[test]
fn a_request_that_affects_more_than_its_object_is_refused() {
    let unmarked = route("10.1.0.1").with_protocol(0);
    let plan = plan_of([Op::new(Action::Delete, unmarked, Reason::Undesired)]);
    let error = requests::<Message>(&plan, 0, &no_indexes()).unwrap_err();
    assert_eq!((error.kind(), error.object()), (ErrorKind::Refused, Some(Kind::Route)));
    assert_eq!(error.to_string(), "route: refused: a route delete needs a protocol");
}

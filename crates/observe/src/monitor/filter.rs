//! An [`WatchScope`] as a program for the kernel: what it drops would be passed over anyway ([`super::event`]), and what it
//! cannot judge passes.

use std::collections::BTreeSet;

use trueup_diff::Kind;
use trueup_netlink::codec::{address, link, neighbour, route, rule};
use trueup_netlink::filter::{Instruction, swapped, swapped_half};
use trueup_netlink::wire::{HEADER_LEN, NLM_F_EXCL, NLM_F_REPLACE};

use super::event::{DELETE_NEXTHOP, NEW_NEXTHOP};
use super::watch_scope::WatchScope;

const AF_UNSPEC: u32 = 0;
const AF_INET: u32 = 2;
const AF_INET6: u32 = 10;
const IFA_PROTO: u16 = 11;
const NDA_PROTOCOL: u16 = 12;
const FRA_PROTOCOL: u16 = 21;

/// Offsets in a datagram: of the netlink header, then of what is behind it.
const TYPE: u32 = 4;
const FLAGS: u32 = 6;
const PORT: u32 = 12;
const BODY: u32 = HEADER_LEN as u32;
const FAMILY: u32 = BODY;
/// `ifa_index`, `ndm_ifindex`.
const INDEX: u32 = BODY + 4;
/// `rtm_protocol`.
const ROUTE_PROTOCOL: u32 = BODY + 5;
/// The attributes of neighbours and rules.
const ATTRIBUTES: u32 = BODY + 12;
/// Those of addresses.
const ADDRESS_ATTRIBUTES: u32 = BODY + 8;
/// No message of interest is shorter, nor is any of these offsets beyond it.
const SHORTEST: u32 = 32;

/// So many devices are told apart in the kernel.
const DEVICES: usize = 64;

/// The program; it lets everything pass that may matter, less what our own port caused.
pub(super) fn program(scope: &WatchScope, own: Option<u32>) -> Vec<Instruction> {
    let mut all = vec![
        Instruction::length(),
        Instruction::at_least(SHORTEST, 1, 0),
        Instruction::pass(),
    ];
    if let Some(port) = own {
        all.push(Instruction::word(PORT));
        all.extend(drop_if(swapped(port)));
    }
    let mut of = |number: u16, block: Vec<Instruction>| {
        if let Ok(length) = u8::try_from(block.len()) {
            all.push(Instruction::half(TYPE));
            all.push(Instruction::equal(swapped_half(number), 0, length));
            all.extend(block);
        }
    };
    for number in [link::NEW, link::DELETE] {
        // Bridge ports are announced a second time, as such.
        of(
            number,
            vec![
                Instruction::byte(FAMILY),
                Instruction::equal(AF_UNSPEC, 1, 0),
                Instruction::drop(),
            ],
        );
    }
    of(address::NEW, addresses(scope, false));
    of(address::DELETE, addresses(scope, true));
    for number in [neighbour::NEW, neighbour::DELETE] {
        of(number, neighbours(scope));
    }
    for number in [rule::NEW, rule::DELETE] {
        of(number, rules(scope));
    }
    of(route::NEW, routes(scope, true));
    of(route::DELETE, routes(scope, false));
    for number in [NEW_NEXTHOP, DELETE_NEXTHOP] {
        let none = scope.nexthops.as_ref().is_some_and(BTreeSet::is_empty);
        let matter = scope.includes_routes() && !none;
        of(number, vec![end(matter)]);
    }
    all.push(Instruction::pass());
    all
}

fn addresses(scope: &WatchScope, gone: bool) -> Vec<Instruction> {
    let addresses = scope.kinds.contains(Kind::Address);
    if !addresses && !scope.includes_routes() {
        return vec![Instruction::drop()];
    }
    let sources = scope.route_sources.as_ref();
    if gone && scope.includes_routes() && sources.is_none_or(|sources| !sources.is_empty()) {
        return vec![Instruction::pass()];
    }
    let none = BTreeSet::new();
    let of = |matter, devices| if matter { devices } else { Some(&none) };
    let own = of(addresses, scope.devices.as_ref());
    let of_routes = of(scope.includes_routes(), scope.route_devices.as_ref());
    match (own, of_routes) {
        (Some(own), Some(of_routes)) if addresses => {
            let mut block = ours(ADDRESS_ATTRIBUTES, IFA_PROTO, scope.protocol);
            block.extend(on(own.union(of_routes)));
            block
        }
        (Some(own), Some(of_routes)) => on(own.union(of_routes)),
        _ => vec![Instruction::pass()],
    }
}

fn neighbours(scope: &WatchScope) -> Vec<Instruction> {
    if !scope.kinds.contains(Kind::Neighbour) {
        return vec![Instruction::drop()];
    }
    // Not a bridge's forwarding entries.
    let mut block = vec![
        Instruction::byte(FAMILY),
        Instruction::equal(AF_INET, 2, 0),
        Instruction::equal(AF_INET6, 1, 0),
        Instruction::drop(),
    ];
    if !scope.includes_foreign(Kind::Neighbour) {
        block.extend(Instruction::attribute(ATTRIBUTES, NDA_PROTOCOL));
        block.extend(drop_if(0));
    }
    match &scope.devices {
        Some(devices) => {
            block.extend(ours(ATTRIBUTES, NDA_PROTOCOL, scope.protocol));
            block.extend(on(devices.iter()));
        }
        None => block.push(Instruction::pass()),
    }
    block
}

fn rules(scope: &WatchScope) -> Vec<Instruction> {
    if !scope.kinds.contains(Kind::Rule) {
        return vec![Instruction::drop()];
    }
    if scope.includes_foreign(Kind::Rule) {
        return vec![Instruction::pass()];
    }
    let mut block = Vec::from(Instruction::attribute(ATTRIBUTES, FRA_PROTOCOL));
    block.extend([Instruction::equal(0, 0, 1), Instruction::pass()]);
    block.extend(Instruction::first_byte());
    block.extend(only(scope.protocol.into()));
    block
}

fn routes(scope: &WatchScope, new: bool) -> Vec<Instruction> {
    if !scope.includes_routes() || scope.includes_foreign(Kind::Route) {
        return vec![end(scope.includes_routes())];
    }
    let mut block = Vec::new();
    if new {
        // One beside another, or in its place.
        block.extend([
            Instruction::half(FLAGS),
            Instruction::any_of(swapped_half(NLM_F_EXCL), 1, 0),
            Instruction::pass(),
            Instruction::any_of(swapped_half(NLM_F_REPLACE), 0, 1),
            Instruction::pass(),
        ]);
    }
    block.push(Instruction::byte(ROUTE_PROTOCOL));
    block.extend(only(scope.protocol.into()));
    block
}

/// What is on these devices, where they are few.
fn on<'a>(devices: impl Iterator<Item = &'a u32>) -> Vec<Instruction> {
    let devices: Vec<u32> = devices.copied().collect();
    if devices.len() > DEVICES {
        return vec![Instruction::pass()];
    }
    let mut block = vec![Instruction::word(INDEX)];
    for index in devices {
        block.extend([
            Instruction::equal(swapped(index), 0, 1),
            Instruction::pass(),
        ]);
    }
    block.push(Instruction::drop());
    block
}

/// What bears our protocol passes, wherever it is; the rest is for what follows to judge.
fn ours(attributes: u32, number: u16, protocol: u8) -> Vec<Instruction> {
    let mut bears = Vec::from(Instruction::first_byte());
    bears.extend([
        Instruction::equal(protocol.into(), 0, 1),
        Instruction::pass(),
    ]);
    let mut block = Vec::from(Instruction::attribute(attributes, number));
    block.push(Instruction::equal(0, bears.len() as u8, 0));
    block.extend(bears);
    block
}

fn only(value: u32) -> [Instruction; 3] {
    [
        Instruction::equal(value, 1, 0),
        Instruction::drop(),
        Instruction::pass(),
    ]
}

fn drop_if(value: u32) -> [Instruction; 2] {
    [Instruction::equal(value, 0, 1), Instruction::drop()]
}

fn end(pass: bool) -> Instruction {
    if pass {
        Instruction::pass()
    } else {
        Instruction::drop()
    }
}

//! Other writers' commands, by number.

use std::collections::BTreeSet;

use trueup_net::{Address, IfName, NextHop, RouteType, RuleAction};

use super::author::{DEVICES, LINKS};
use super::objects::{address, drops, neighbour, rule};
use super::route::route;
use super::spec::{RouteSpec, RuleSpec, WriterSpec};
use crate::desired::name;

const PROTOCOLS: [&str; 6] = ["static", "bird", "zebra", "kernel", "ra", "boot"];

/// Returns another writer's commands: lines for `ip -force -batch`, of which any may fail.
pub fn lines(spec: &WriterSpec, clean: bool) -> Vec<String> {
    match spec {
        WriterSpec::Address(spec) => {
            let mut address = address(spec, false);
            if clean {
                // A device on which we never have anything.
                address.dev = name("ext1");
                address.label = None;
            }
            let Address { dev, address: net, .. } = &address;
            let peer = address.peer.map_or(String::new(), |peer| format!(" peer {peer}"));
            let mut line = format!(
                "address add {}{peer}",
                if peer.is_empty() { net.to_string() } else { net.ip().to_string() }
            );
            line += &format!(" dev {dev}");
            if let Some(label) = address.label {
                line += &format!(" label {label}");
            }
            if spec.v6 {
                line += " nodad";
            }
            vec![line]
        }
        WriterSpec::Neighbour(spec) => {
            let neighbour = neighbour(spec);
            let dev = if clean { name("ext1") } else { neighbour.dev };
            let dst = neighbour.dst;
            vec![if neighbour.proxy {
                format!("neighbour add proxy {dst} dev {dev}")
            } else {
                let lladdr = neighbour.lladdr.unwrap();
                let nud = match spec.variant {
                    1 if !drops(&dev.to_string()) => "noarp",
                    _ => "permanent",
                };
                format!("neighbour replace {dst} lladdr {lladdr} nud {nud} dev {dev}")
            }]
        }
        WriterSpec::Route(spec, proto) => writer_route(spec, *proto, clean).into_iter().collect(),
        WriterSpec::Rule(spec, proto) => {
            let rule = rule(&RuleSpec { selectors: spec.selectors & 0x3, ..spec.clone() }, clean);
            let family = if spec.v6 { "-6" } else { "-4" };
            let from = rule.from.map_or("all".to_owned(), |from| from.to_string());
            let to = rule.to.map_or(String::new(), |to| format!(" to {to}"));
            let action = match rule.action {
                RuleAction::Lookup(table) => format!("lookup {table}"),
                RuleAction::Goto(target) => format!("goto {target}"),
                RuleAction::Blackhole => "blackhole".to_owned(),
                RuleAction::Unreachable => "unreachable".to_owned(),
                RuleAction::Prohibit => "prohibit".to_owned(),
                RuleAction::Nop => "nop".to_owned(),
                other => panic!("{other:?}"),
            };
            let proto = PROTOCOLS[usize::from(*proto)];
            let not = if rule.not { "not " } else { "" };
            vec![format!(
                "{family} rule add {not}from {from}{to} priority {} protocol {proto} {action}",
                rule.priority
            )]
        }
        WriterSpec::Link { which, variant } => {
            if clean {
                return vec![format!("link add f{variant} type bridge")];
            }
            let dev = LINKS[*which];
            match variant {
                0 => vec![format!("link add {dev} type bridge"), format!("link set {dev} up")],
                1 => vec![format!("link add {dev} type ifb"), format!("link set {dev} up")],
                2 => vec![
                    "link add f0 type veth peer name f1".to_owned(),
                    "link set f0 up".to_owned(),
                    "link set f0 master br0".to_owned(),
                ],
                3 => vec![format!("link add f2 link {dev} type macvlan mode bridge")],
                4 => vec!["link add f3 type ifb".to_owned(), "link set f3 up".to_owned()],
                5 => vec!["link add vx0 type vxlan id 1 dstport 4789".to_owned()],
                6 => vec![
                    format!("link delete {dev}"),
                    format!("link add {dev} type bridge"),
                    format!("link set {dev} up"),
                ],
                _ => vec!["link add f4 type vxlan id 2 dstport 4789".to_owned()],
            }
        }
        WriterSpec::Break { how, dev, number } => {
            // The foreign pair stays.
            let dev = DEVICES[*dev];
            if dev == "ext0" {
                return Vec::new();
            }
            vec![match how {
                0 => format!("link delete {dev}"),
                1 => format!("link set {dev} down"),
                2 => format!("address flush dev {dev} scope global"),
                3 => "route flush protocol 116".to_owned(),
                4 => format!("link set {dev} nomaster"),
                5 => format!("link set {dev} mtu 1450"),
                6 => format!(
                    "rule delete priority {}",
                    if clean { 40_000 } else { 1000 } + u32::from(*number % 4)
                ),
                _ => format!("-6 route delete fd50:{number}::/48"),
            }]
        }
    }
}

fn writer_route(spec: &RouteSpec, proto: u8, clean: bool) -> Option<String> {
    let all: BTreeSet<String> =
        DEVICES.iter().map(|dev| (*dev).to_owned()).chain(["lo".to_owned()]).collect();
    let route = route(spec, &all, &[], &[], false)?;
    let family = if spec.v6 { "-6" } else { "-4" };
    let word = route.kind.name()?;
    let mut dst = route.dst.to_string();
    if clean {
        dst = if spec.v6 {
            format!("fd55:{}::/48", spec.dst)
        } else {
            format!("10.55.{}.0/24", spec.dst)
        };
    }
    let proto = PROTOCOLS[usize::from(proto)];
    let mut line =
        format!("{family} route add {word} {dst} table {} protocol {proto}", route.table);
    // The kernel may delete derived objects with links and addresses, so these are on the foreign
    // pair only.
    if clean || matches!(proto, "kernel" | "ra") {
        if route.kind == RouteType::Unicast {
            line += " dev ext1";
        }
    } else {
        let hops = route.nexthops.as_slice();
        let one = |hop: &NextHop<IfName>| {
            let via = hop.via.map_or(String::new(), |via| {
                let other = if via.is_ipv6() && !spec.v6 { "inet6 " } else { "" };
                format!(" via {other}{via}")
            });
            let dev = hop.dev.map_or(String::new(), |dev| format!(" dev {dev}"));
            let onlink = if hop.onlink { " onlink" } else { "" };
            format!("{via}{dev}{onlink}")
        };
        match hops {
            [] => {}
            [hop] => line += &one(hop),
            many => {
                for hop in many {
                    line += &format!(" nexthop{} weight {}", one(hop), hop.weight);
                }
            }
        }
        if let Some(src) = route.src {
            line += &format!(" src {src}");
        }
    }
    if route.kind == RouteType::Local && (clean || matches!(proto, "kernel" | "ra")) {
        line += " dev lo";
    }
    if route.metric != 0 {
        line += &format!(" metric {}", route.metric);
    }
    if route.tos != 0 {
        line += " tos 16";
    }
    Some(line)
}

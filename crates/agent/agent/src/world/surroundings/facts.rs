//! [`Facts`]: the kernel's state of the addresses and routes that matter.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

use crate::error::{Result, bail};
use trueup_net::{
    Family, IpNetwork, Kind, Kinds, ObjectKind as _, Prefix, Route, RouteKey, Rule, RuleAction,
    table,
};
use trueup_netlink::codec::{KindCodec as _, ReadScope, route};
use trueup_netlink::wire::MessageWriter;
use trueup_netlink::{self as netlink, Socket};
use trueup_observe::Observer;
use trueup_rtnl::Namespace;

/// The kernel's state of the addresses and routes that matter.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Facts {
    /// This host's addresses, each with its subnet.
    pub(crate) own: BTreeSet<(IpAddr, Prefix)>,
    /// The tables that are consulted for this host's own packets.
    pub(crate) tables: BTreeSet<u32>,
    /// The route to each address that matters.
    pub(crate) leads: BTreeMap<IpAddr, Lead>,
}

/// The route that leads to an address.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Lead {
    pub(crate) key: RouteKey,
    pub(crate) is_ours: bool,
    pub(crate) gateways: BTreeSet<IpAddr>,
}

impl Facts {
    /// Reads the state of a namespace, including the routes to some addresses. Fails if the read is
    /// incomplete.
    pub(crate) fn read(
        namespace: &Namespace,
        asked: BTreeSet<IpAddr>,
        protocol: u8,
    ) -> Result<Facts> {
        let mut observer = Observer::open_lazily(namespace)?;
        let kinds = Kinds::NONE.with(Kind::Address).with(Kind::Rule);
        let scope = ReadScope::default().with_kinds(kinds);
        let snapshot = observer.snapshot(&scope)?;
        if let Some(doubt) = snapshot.incomplete.first() {
            bail!("{doubt}");
        }
        let observed = snapshot.observed;
        let own = observed.addresses.iter().map(|it| {
            let (address, len) = (it.address.ip(), it.address.prefix());
            let subnet = it.peer.and_then(|peer| IpNetwork::new(peer, len).ok());
            (address, Prefix::containing(subnet.unwrap_or(it.address)))
        });
        let own: BTreeSet<(IpAddr, Prefix)> = own.collect();
        let tables = observed.rules.iter().filter_map(|rule| consulted(rule, &own));
        let mut facts =
            Facts { tables: tables.chain([table::MAIN]).collect(), own, leads: BTreeMap::new() };
        let socket = observer.socket();
        for address in asked {
            facts.note_lead(socket, address, protocol);
        }
        // Looks up the gateways of those, and no further: each is in a subnet of this host.
        let known: BTreeSet<IpAddr> = facts.leads.keys().copied().collect();
        let gateways = facts.leads.values().flat_map(|lead| &lead.gateways);
        let gateways: BTreeSet<IpAddr> = gateways.copied().collect();
        for gateway in gateways.difference(&known) {
            facts.note_lead(socket, *gateway, protocol);
        }
        Ok(facts)
    }

    /// Records the route to an address.
    fn note_lead(&mut self, socket: &mut Socket, address: IpAddr, protocol: u8) {
        // If no route leads there, the kernel returns an error.
        if let Ok(Some(route)) = lead(socket, address) {
            let gateways = route.nexthops.as_slice().iter().filter_map(|hop| hop.via);
            let lead = Lead {
                key: route.key(),
                is_ours: route.protocol == protocol,
                gateways: gateways.collect(),
            };
            self.leads.insert(address, lead);
        }
    }
}

/// Asks the kernel for the route that it uses to an address.
fn lead(socket: &mut Socket, address: IpAddr) -> Result<Option<trueup_net::Route>, netlink::Error> {
    const RTA_DST: u16 = 1;
    const RTM_F_FIB_MATCH: u32 = 0x2000;
    let mut request = Vec::new();
    let mut message = MessageWriter::begin(&mut request, route::GET, 0);
    let family = Family::of(address);
    let mut header = [0; 12];
    let number = match family {
        Family::Inet => 2,
        Family::Inet6 => 10,
    };
    header[..2].copy_from_slice(&[number, family.max_len()]);
    header[8..].copy_from_slice(&RTM_F_FIB_MATCH.to_ne_bytes());
    message.body(&header);
    match address {
        IpAddr::V4(address) => message.attr(RTA_DST, &address.octets()),
        IpAddr::V6(address) => message.attr(RTA_DST, &address.octets()),
    }
    // A message of this size always ends.
    if message.finish().is_err() {
        return Ok(None);
    }
    let found = socket.query(&request, |reply| Route::decode(reply.body))?;
    Ok(found.ok().flatten())
}

/// Returns the table that a rule may consult for this host's packets, which have no mark.
fn consulted(rule: &Rule, own: &BTreeSet<(IpAddr, Prefix)>) -> Option<u32> {
    let RuleAction::Lookup(table) = rule.action else {
        return None;
    };
    let may_match = rule.iif.is_none_or(|iif| iif.as_str() == Some("lo"))
        && rule.fwmark.is_none()
        && rule.from.is_none_or(|from| own.iter().any(|(address, _)| from.contains(*address)));
    (rule.not || may_match).then_some(table)
}

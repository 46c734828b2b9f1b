//! Dumps: the rows of a kind that answer a request.

use crate::message::{Action, Kind, RawMessage};

use super::bag::Bag;
use super::numbers::*;
use super::request::{Refusal, Request};
use super::route::Route;
use super::{Origin, State};

const NTF_PROXY: u8 = 0x08;

/// The whole answer to a dump request.
#[derive(Debug, Default)]
pub(super) struct Dump {
    pub(super) rows: Vec<RawMessage>,
    /// `NLM_F_DUMP_FILTERED` of each row, or 0.
    pub(super) flags: u16,
    /// The flags of the end message.
    pub(super) end_flags: u16,
    /// The reason why there are no more rows; `None` if the dump is complete.
    pub(super) refusal: Option<Refusal>,
}

impl From<Refusal> for Dump {
    fn from(refusal: Refusal) -> Self {
        Self { refusal: Some(refusal), ..Self::default() }
    }
}

/// Refuses a strict dump with an attribute that the kernel cannot filter by. The refusal tells if
/// the kernel knows the attribute, so a reader learns which markers it keeps.
fn check_filters(kind: Kind, request: &Request<'_>) -> Result<(), Refusal> {
    let (filters, greatest): (&[u16], u16) = match kind {
        Kind::Link => (&[IFLA_EXT_MASK, IFLA_MASTER, IFLA_LINKINFO], 69),
        Kind::Address => (&[], 11),
        Kind::Neighbour => (&[NDA_IFINDEX, NDA_MASTER], 17),
        Kind::Nexthop => (&[NHA_OIF, NHA_GROUPS, NHA_MASTER, NHA_FDB, NHA_OP_FLAGS], 16),
        Kind::Route => (&[RTA_TABLE, RTA_OIF], 31),
        Kind::Rule if request.is_strict && request.header[1..] != [0; 11] => {
            return Err(EINVAL.into());
        }
        Kind::Rule => (&[], u16::MAX),
    };
    let mut numbers = request.attrs.numbers();
    match numbers.find(|number| request.is_strict && !filters.contains(number)) {
        None => Ok(()),
        Some(number) => Err(Refusal {
            errno: EINVAL,
            words: match number > greatest {
                _ if kind == Kind::Rule => None,
                true => Some("Unknown attribute type"),
                false => Some("Unsupported attribute in dump request"),
            },
        }),
    }
}

impl State {
    /// Passes each object of a kind to `add` as a row, in a fixed order.
    pub(super) fn each(&self, kind: Kind, add: &mut dyn FnMut(RawMessage, Origin)) {
        match kind {
            Kind::Link => self.each_link(add),
            Kind::Address => self.each_address(add),
            Kind::Neighbour => {
                self.each_neighbour(add);
                self.each_forwarding(add);
            }
            Kind::Nexthop => self.each_nexthop(add),
            Kind::Route => self.each_route(add),
            Kind::Rule => self.each_rule(add),
        }
    }

    /// Returns the rows for a dump request: all of a kind, or only a family, a device, or a
    /// master's ports.
    pub(super) fn dump(&self, kind: Kind, request: &Request<'_>) -> Result<Dump, Refusal> {
        let (family, attrs) = (request.family(), &request.attrs);
        let is_bridge = kind == Kind::Neighbour && family == BRIDGE;
        if !is_bridge {
            check_filters(kind, request)?;
        }
        let number = |number| attrs.u32(number).unwrap_or(0);
        let is_inet = matches!(family, INET | INET6);
        let (device, master) = match kind {
            Kind::Route => return self.dump_routes(request),
            Kind::Rule if family != 0 && !is_inet => return Err(EAFNOSUPPORT.into()),
            Kind::Rule => (0, 0),
            Kind::Link => (0, number(IFLA_MASTER)),
            Kind::Address if request.is_strict => (request.u32(4), 0),
            Kind::Address => (0, 0),
            Kind::Neighbour if is_bridge && !attrs.has(NDA_IFINDEX) => {
                (request.u32(4), number(NDA_MASTER))
            }
            Kind::Neighbour => (number(NDA_IFINDEX), number(NDA_MASTER)),
            Kind::Nexthop => (number(NHA_OIF), number(NHA_MASTER)),
        };
        let info = |attrs: &Bag| {
            let info = attrs.nested(IFLA_LINKINFO).unwrap_or_default();
            info.text(IFLA_INFO_KIND).map(<[u8]>::to_vec)
        };
        let link_kind = info(attrs).filter(|_| kind == Kind::Link);
        let any_family = match kind {
            Kind::Link => true,
            Kind::Address => !is_inet,
            _ => family == 0,
        };
        let mut dump = Dump::default();
        let is_limited = device != 0 || master != 0 || link_kind.is_some();
        if is_limited && !is_bridge && kind != Kind::Nexthop {
            dump.flags = NLM_F_DUMP_FILTERED;
        }
        if kind == Kind::Address {
            dump.end_flags = dump.flags;
        }
        let must_exist = match kind {
            Kind::Address => device,
            Kind::Neighbour if is_bridge => master,
            _ => 0,
        };
        if must_exist != 0 && self.links.get(must_exist).is_none() {
            dump.refusal = Some(ENODEV.into());
            return Ok(dump);
        }
        let is_on_master = |row: &RawMessage| {
            let link = self.links.get(row.device());
            link.is_some_and(|link| link.master == Some(master))
                || is_bridge && row.attr_u32(NDA_MASTER) == Some(master)
        };
        let is_shown = |row: &RawMessage| {
            (any_family || row.family() == family)
                && (device == 0 || row.device() == device)
                && (master == 0 || is_on_master(row))
                && match kind {
                    Kind::Link if link_kind.is_some() => {
                        info(&row.attrs.clone().into()) == link_kind
                    }
                    Kind::Neighbour if !is_bridge => {
                        let is_proxy = |flags: u8| flags & NTF_PROXY != 0;
                        row.family() != BRIDGE
                            && is_proxy(row.header[10]) == is_proxy(request.header[10])
                    }
                    Kind::Nexthop => !attrs.has(NHA_GROUPS) || row.attrs.contains_key(&NHA_GROUP),
                    _ => true,
                }
        };
        let rows = &mut dump.rows;
        self.each(kind, &mut |row, _| rows.extend(Some(row).filter(is_shown)));
        Ok(dump)
    }

    /// Returns routes, optionally only those of a table, protocol, type or device. The siblings of
    /// an IPv6 multipath route form one row.
    fn dump_routes(&self, request: &Request<'_>) -> Result<Dump, Refusal> {
        let mut dump = Dump::default();
        let (mut table, mut protocol, mut kind, mut device) = (0, 0, 0, 0);
        if request.is_strict {
            let attrs = &request.attrs;
            table = attrs.u32(RTA_TABLE).unwrap_or(request.header[4].into());
            (protocol, kind) = (request.header[5], request.header[7]);
            if let Some(index) = attrs.u32(RTA_OIF) {
                device = self.links.get(index).ok_or(ENODEV)?.index;
            }
            dump.flags = NLM_F_DUMP_FILTERED;
            if (table, protocol, kind, device) != (0, 0, 0, 0) {
                dump.end_flags = NLM_F_DUMP_FILTERED;
            }
        }
        let family = Some(request.family()).filter(|family| matches!(*family, INET | INET6));
        if let Some(family) = family
            && table != 0
            && !self.has_table(family, table)
        {
            dump.refusal = Some(ENOENT.into());
        }
        let is_over = |route: &Route| self.legs_of(route).iter().any(|leg| leg.device == device);
        for (key, list) in &self.routes.all {
            if family.is_some_and(|family| family != key.family) || table != 0 && key.table != table
            {
                continue;
            }
            let mut rest = &list[..];
            while let [route, ..] = rest {
                let siblings = self.routes.siblings(key, route);
                let is_shown = (protocol == 0 || route.protocol == protocol)
                    && (kind == 0 || route.kind == kind)
                    && (device == 0 || siblings.iter().any(|sibling| is_over(sibling)));
                if is_shown {
                    dump.rows.push(self.route_row(key, route, Action::New));
                }
                // The row includes the siblings. A quirk: the routes between them are skipped as
                // well.
                let last = siblings.last().map(|last| last.origin.id);
                let last = rest.iter().position(|other| Some(other.origin.id) == last);
                rest = &rest[last.unwrap_or(0) + 1..];
            }
        }
        Ok(dump)
    }
}

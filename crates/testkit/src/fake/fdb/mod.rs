//! Forwarding entries: `RTM_*NEIGH` of family `AF_BRIDGE` (`rtnl_fdb_add` and its like in `net/core/rtnetlink.c`).
//!
//! Three rooms: what a bridge knows, what a VXLAN knows, and the addresses that any other device listens to beside its
//! own. Left out: VLANs of bridges (a kernel with VLAN filtering repeats the entries of a bridge for each VLAN), what
//! is learnt from packets, multicast groups that the kernel joins by itself, the addresses of devices stacked on
//! another. Refused with `EOPNOTSUPP`: deletes in bulk, `NDA_FDB_EXT_ATTRS`, nexthop objects that exist.

mod bridge;
mod follow;
mod vxlan;

use std::collections::{BTreeMap, BTreeSet};

use crate::message::{Action, Kind, RawMessage, u32_at};

use super::dispatch::Dump;
use super::link::{Link, LinkKind};
use super::neighbour::{
    Header, NDA_IFINDEX, NDA_LLADDR, NDA_MASTER, NDA_VLAN, NDA_VNI, POLICY, refused,
};
use super::policy::Policy;
use super::request::{
    Attributes, EEXIST, EINVAL, ENODEV, ENOENT, EOPNOTSUPP, NLM_F_BULK, NLM_F_EXCL, Refusal,
    Request,
};
use super::state::{State, group};

/// A hardware address.
type Mac = [u8; 6];

const BRIDGE: u8 = 7;
const ARPHRD_ETHER: u16 = 1;

const NTF_USE: u8 = 0x01;
const NTF_SELF: u8 = 0x02;
const NTF_MASTER: u8 = 0x04;
const NTF_EXT_LEARNED: u8 = 0x10;
const NTF_STICKY: u8 = 0x40;

const NUD_REACHABLE: u16 = 0x02;
const NUD_NOARP: u16 = 0x40;
const NUD_PERMANENT: u16 = 0x80;

/// `nlmsg_parse` without a policy.
static ANYTHING: Policy = Policy {
    shapes: &[],
    max: 17,
    strict_from: u16::MAX,
};

/// What there is.
#[derive(Default)]
pub(crate) struct Forwarding {
    bridges: BTreeMap<(u32, Mac), bridge::Entry>,
    vxlans: BTreeMap<(u32, Mac), vxlan::Entry>,
    /// Unicast and multicast addresses that a device was told to listen to.
    own: BTreeSet<(u32, Mac)>,
    /// Ports of all bridges, the one that joined last at the end.
    joined: Vec<u32>,
    /// Links as they were when the entries last followed them.
    seen: follow::Seen,
}

/// A request for one entry.
struct Asked<'a> {
    device: u32,
    state: u16,
    flags: u8,
    /// `NLM_F_*`.
    how: u16,
    mac: Mac,
    vlan: bool,
    attributes: Attributes<'a>,
}

impl<'a> Asked<'a> {
    fn new(state: &State, request: &Request<'a>, words: &'static str) -> Result<Self, Refusal> {
        let (fixed, attributes) = request.parts::<12>()?;
        let header = Header::new(fixed);
        if header.device == 0 {
            return Err(refused("invalid ifindex"));
        }
        let missing = Refusal::errno(ENODEV).because("unknown ifindex");
        let link = state.links.get(header.device).ok_or(missing)?;
        let mac = attributes.get(NDA_LLADDR);
        let mac = mac.and_then(|mac| mac.try_into().ok());
        let mac = mac.ok_or(refused("invalid address"))?;
        let ether = link.arp_type == ARPHRD_ETHER;
        let adds = request.kind & 1 == 0;
        if !ether && adds {
            return Err(refused(words));
        }
        let vlan = vlan(attributes)?;
        if !ether {
            return Err(refused(words));
        }
        Ok(Self {
            device: header.device,
            state: header.state,
            flags: header.flags,
            how: request.flags,
            mac,
            vlan,
            attributes,
        })
    }

    fn is_multicast(&self) -> bool {
        self.mac[0] & 1 == 1
    }
}

/// Whether a VLAN is named (`fdb_vid_parse`).
fn vlan(attributes: Attributes<'_>) -> Result<bool, Refusal> {
    let Some(payload) = attributes.get(NDA_VLAN) else {
        return Ok(false);
    };
    let Ok(id) = <[u8; 2]>::try_from(payload) else {
        return Err(refused("invalid vlan attribute size"));
    };
    match u16::from_ne_bytes(id) {
        1..4095 => Ok(true),
        _ => Err(refused("invalid vlan id")),
    }
}

impl State {
    /// The bridge that a device is a port of.
    fn bridge_of(&self, device: u32) -> Option<u32> {
        let master = self.links.get(self.links.get(device)?.master?)?;
        (master.kind == LinkKind::Bridge).then_some(master.index)
    }

    /// `rtnl_fdb_add`: at the bridge, at the device itself, or at both.
    pub(crate) fn new_forwarding(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        let mut asked = Asked::new(self, request, "FDB add only supported for Ethernet devices")?;
        let mut done = Err(EOPNOTSUPP.into());
        if (asked.flags == 0 || asked.flags & NTF_MASTER != 0)
            && let Some(bridge) = self.bridge_of(asked.device)
        {
            self.add_to_bridge(bridge, asked.device, &asked)?;
            asked.flags &= !NTF_MASTER;
            done = Ok(());
        }
        if asked.flags & NTF_SELF == 0 {
            return done;
        }
        match self.links.get(asked.device).map(|link| link.kind) {
            Some(LinkKind::Bridge) => self.add_to_bridge(asked.device, 0, &asked),
            Some(LinkKind::Vxlan) => self.add_to_vxlan(&asked),
            _ => self.add_own(&asked),
        }
    }

    /// `ndo_dflt_fdb_add`.
    fn add_own(&mut self, asked: &Asked<'_>) -> Result<(), Refusal> {
        let extended = asked.attributes.get(super::neighbour::NDA_FLAGS_EXT);
        let wrong = asked.state != 0 && asked.state & NUD_PERMANENT == 0;
        if wrong || extended.is_some() || asked.vlan {
            return Err(EINVAL.into());
        }
        let new = self.forwarding.own.insert((asked.device, asked.mac));
        if !new && asked.how & NLM_F_EXCL != 0 {
            return Err(EEXIST.into());
        }
        let row = own_row(asked.device, asked.mac, asked.state, Action::New);
        self.announce(group::NEIGH, &row, None);
        Ok(())
    }

    /// `rtnl_fdb_del`.
    pub(crate) fn del_forwarding(&mut self, request: &Request<'_>) -> Result<(), Refusal> {
        if request.has(NLM_F_BULK) {
            return Err(EOPNOTSUPP.into());
        }
        let words = "FDB delete only supported for Ethernet devices";
        let asked = Asked::new(self, request, words)?;
        let mut done = Err(EOPNOTSUPP.into());
        if (asked.flags == 0 || asked.flags & NTF_MASTER != 0)
            && let Some(bridge) = self.bridge_of(asked.device)
        {
            self.del_from_bridge(bridge, asked.device, &asked)?;
            done = Ok(());
        }
        if asked.flags & NTF_SELF == 0 {
            return done;
        }
        match self.links.get(asked.device).map(|link| link.kind) {
            Some(LinkKind::Bridge) => self.del_from_bridge(asked.device, 0, &asked),
            Some(LinkKind::Vxlan) => self.del_from_vxlan(&asked),
            _ => {
                if asked.state & NUD_PERMANENT == 0 {
                    return Err(EINVAL.into());
                }
                if !self.forwarding.own.remove(&(asked.device, asked.mac)) {
                    return Err(ENOENT.into());
                }
                let row = own_row(asked.device, asked.mac, asked.state, Action::Del);
                self.announce(group::NEIGH, &row, None);
                Ok(())
            }
        }
    }

    /// `rtnl_fdb_dump`.
    pub(crate) fn dump_forwarding(&mut self, request: &Request<'_>) -> Result<Dump, Refusal> {
        let filter = if request.strict {
            strict_filter(request)?
        } else {
            (0, 0)
        };
        let (device, bridge) = filter;
        if bridge != 0 && self.links.get(bridge).is_none() {
            return Err(ENODEV.into());
        }
        let mut rows = Vec::new();
        for link in self.links.all.values() {
            let master = self.bridge_of(link.index);
            let shown = bridge == 0
                || master == Some(bridge)
                || (link.index == bridge && link.kind == LinkKind::Bridge);
            if (device == 0 || link.index == device) && shown {
                self.forwarding_rows(link, master, &mut rows);
            }
        }
        Ok(Dump {
            rows,
            ..Dump::default()
        })
    }

    fn forwarding_rows(&self, link: &Link, bridge: Option<u32>, rows: &mut Vec<RawMessage>) {
        let of_bridge = |bridge: u32, port: u32| {
            let all = self.forwarding.bridges.iter();
            all.filter(move |((of, _), entry)| *of == bridge && entry.port == port)
                .map(|(id, entry)| entry.row(*id, Action::New))
        };
        if let Some(bridge) = bridge {
            rows.extend(of_bridge(bridge, link.index));
        }
        if link.kind == LinkKind::Bridge {
            rows.extend(of_bridge(link.index, 0));
        }
        if link.kind == LinkKind::Vxlan {
            let all = self.forwarding.vxlans.iter();
            for ((_, mac), entry) in all.filter(|((of, _), _)| *of == link.index) {
                rows.extend(entry.rows(link.index, *mac, Action::New));
            }
        } else {
            let all = self.forwarding.own.iter();
            rows.extend(
                all.filter(|(of, _)| *of == link.index)
                    .map(|(of, mac)| own_row(*of, *mac, NUD_PERMANENT, Action::New)),
            );
        }
    }

    /// `rtnl_fdb_get`.
    pub(crate) fn get_forwarding(&mut self, request: &Request<'_>) -> Result<RawMessage, Refusal> {
        let (fixed, attributes) = request
            .parts::<12>()
            .map_err(|short| short.because("Invalid header for fdb get request"))?;
        let header = Header::new(fixed);
        if header.has_values() {
            return Err(refused("Invalid values in header for fdb get request"));
        }
        if header.flags & !(NTF_MASTER | NTF_SELF) != 0 {
            return Err(refused("Invalid flags in header for fdb get request"));
        }
        POLICY.check(attributes, true)?;
        let mut numbers: Vec<_> = attributes.all().map(|(number, _)| number).collect();
        numbers.sort_unstable();
        let mut vid = false;
        for number in numbers {
            match number {
                NDA_LLADDR if attributes.get(NDA_LLADDR).is_some_and(|mac| mac.len() != 6) => {
                    return Err(refused("Invalid address in fdb get request"));
                }
                NDA_VLAN => vid = vlan(attributes)?,
                NDA_LLADDR | NDA_MASTER | NDA_VNI => {}
                _ => return Err(refused("Unsupported attribute in fdb get request")),
            }
        }
        let mac = attributes
            .array::<6>(NDA_LLADDR)
            .ok_or(refused("Missing lookup address for fdb get request"))?;
        let at = self.forwarding_place(&header, attributes.u32(NDA_MASTER).unwrap_or(0))?;
        let missing = Refusal::errno(ENOENT).because("Fdb entry not found");
        match at.kind {
            LinkKind::Bridge if !vid => {
                let id = (at.index, mac);
                let entry = self.forwarding.bridges.get(&id).ok_or(missing)?;
                Ok(entry.row(id, Action::New))
            }
            LinkKind::Bridge => Err(missing),
            _ => {
                let entry = self.forwarding.vxlans.get(&(at.index, mac));
                let rows = entry.map(|entry| entry.rows(at.index, mac, Action::New));
                rows.and_then(|rows| rows.into_iter().next()).ok_or(missing)
            }
        }
    }

    /// The bridge or VXLAN that a GET asks.
    fn forwarding_place(&self, header: &Header, master: u32) -> Result<&Link, Refusal> {
        let mut device = None;
        if header.device != 0 {
            let missing = Refusal::errno(ENODEV).because("Unknown device ifindex");
            device = Some(self.links.get(header.device).ok_or(missing)?);
        }
        let mut at = None;
        if master != 0 {
            if device.is_some() {
                return Err(refused("Master and device are mutually exclusive"));
            }
            let bridge = self.links.get(master);
            at = Some(bridge.ok_or(refused("Invalid master ifindex"))?);
        }
        if let Some(device) = device {
            at = Some(device);
            if header.flags == 0 || header.flags & NTF_MASTER != 0 {
                let bridge = self.bridge_of(device.index);
                let bridge = bridge.and_then(|bridge| self.links.get(bridge));
                at = Some(bridge.ok_or(refused("Device is not a bridge port"))?);
            }
        }
        let none = Refusal::errno(ENODEV).because("No device specified");
        let at = at.ok_or(none)?;
        match at.kind {
            LinkKind::Bridge | LinkKind::Vxlan => Ok(at),
            _ => {
                Err(Refusal::errno(EOPNOTSUPP).because("Fdb get operation not supported by device"))
            }
        }
    }
}

/// Device and bridge of a dump (`valid_fdb_dump_strict`).
fn strict_filter(request: &Request<'_>) -> Result<(u32, u32), Refusal> {
    let (fixed, attributes) = request
        .parts::<12>()
        .map_err(|short| short.because("Invalid header for fdb dump request"))?;
    let header = Header::new(fixed);
    if header.has_values() || header.flags != 0 {
        return Err(refused("Invalid values in header for fdb dump request"));
    }
    ANYTHING.check(attributes, true)?;
    let number = |number, words| match attributes.get(number) {
        None => Ok(None),
        Some(payload) if payload.len() == 4 => Ok(Some(u32_at(payload, 0))),
        Some(_) => Err(refused(words)),
    };
    let mut all: Vec<_> = attributes.all().map(|(number, _)| number).collect();
    all.sort_unstable();
    let known = |number: &u16| matches!(*number, NDA_IFINDEX | NDA_MASTER);
    if all.first().is_some_and(|first| *first < NDA_IFINDEX) {
        return Err(refused("Unsupported attribute in fdb dump request"));
    }
    let device = number(NDA_IFINDEX, "Invalid IFINDEX attribute in fdb dump request")?;
    let bridge = number(NDA_MASTER, "Invalid MASTER attribute in fdb dump request")?;
    if !all.iter().all(known) {
        return Err(refused("Unsupported attribute in fdb dump request"));
    }
    Ok((device.unwrap_or(header.device), bridge.unwrap_or(0)))
}

/// A row with its fixed part and the address.
fn row(device: u32, mac: Mac, state: u16, flags: u8, kind: u8, action: Action) -> RawMessage {
    let mut header = vec![BRIDGE, 0, 0, 0];
    header.extend(device.to_ne_bytes());
    header.extend(state.to_ne_bytes());
    header.extend([flags, kind]);
    RawMessage {
        kind: Kind::Neighbour,
        action,
        header,
        attrs: BTreeMap::from([(NDA_LLADDR, mac.to_vec())]),
    }
}

fn own_row(device: u32, mac: Mac, state: u16, action: Action) -> RawMessage {
    row(device, mac, state, NTF_SELF, 0, action)
}

//! Reduces a row to the compared part: everything that [`stable`] leaves, with exceptions. Of a
//! link only the modelled attributes count, of a rule everything, and of a neighbour also its
//! state, as nothing is resolved within a sequence.

use trueup_testkit::{Kind, RawMessage, stable};

use crate::message::attribute;

/// The attributes of a link in the model; a real row has dozens more (queues, statistics, limits of
/// the driver, settings of each family).
const LINK: [u16; 9] = [
    1,  // IFLA_ADDRESS
    2,  // IFLA_BROADCAST
    3,  // IFLA_IFNAME
    4,  // IFLA_MTU
    5,  // IFLA_LINK
    10, // IFLA_MASTER
    18, // IFLA_LINKINFO
    20, // IFLA_IFALIAS
    27, // IFLA_GROUP
];

/// Returns the reduced row, or `None` for a row that comes and goes by itself.
pub(crate) fn compared(row: &RawMessage) -> Option<RawMessage> {
    if row.kind == Kind::Rule {
        // The status of its devices and targets changes only with them.
        return Some(row.clone());
    }
    if row.kind == Kind::Neighbour {
        return neighbour(row.clone());
    }
    let mut row = stable(row)?;
    if row.kind == Kind::Link {
        row.attrs.retain(|number, _| LINK.contains(number));
        if let Some(info) = row.attrs.get_mut(&IFLA_LINKINFO) {
            *info = of_kind(info);
        }
    }
    Some(row)
}

const IFLA_LINKINFO: u16 = 18;

/// The compared numbers of `IFLA_INFO_DATA`, by kind: those that trueup reads and writes.
const DATA: [(&[u8], &[u16]); 7] = [
    // forward delay, ageing time, spanning tree; a kernel may lack VLAN filtering
    (b"bridge", &[1, 4, 5]),
    // identity, group, link, local, TTL, learning, port, group and local of IPv6
    (b"vxlan", &[1, 2, 3, 4, 5, 7, 15, 16, 17]),
    (b"macvlan", &[1]), // mode
    (b"vlan", &[1, 5]), // identity, protocol
    (b"bond", &[1, 3]), // mode, link monitoring
    (b"vrf", &[1]),     // table
    (b"veth", &[]),
];

/// Returns `IFLA_LINKINFO` with the kind, the master's kind, and the data numbers of the table, in
/// order.
fn of_kind(info: &[u8]) -> Vec<u8> {
    const IFLA_INFO_KIND: u16 = 1;
    const IFLA_INFO_DATA: u16 = 2;
    const IFLA_INFO_SLAVE_KIND: u16 = 4;
    let parts = parts(info);
    let get = |wanted| parts.iter().find(|(number, _)| *number == wanted);
    let mut out = Vec::new();
    for number in [IFLA_INFO_KIND, IFLA_INFO_SLAVE_KIND] {
        if let Some((number, kind)) = get(number) {
            attribute(&mut out, *number, kind.strip_suffix(&[0]).unwrap_or(kind));
        }
    }
    let kind = get(IFLA_INFO_KIND).map_or(&[][..], |(_, kind)| kind);
    let kind = kind.strip_suffix(&[0]).unwrap_or(kind);
    let wanted = DATA.iter().find(|(known, _)| *known == kind);
    if let (Some((_, data)), Some((_, wanted))) = (get(IFLA_INFO_DATA), wanted) {
        let mut data = self::parts(data);
        data.sort();
        data.retain(|(number, _)| wanted.contains(number));
        for (number, payload) in data {
            attribute(&mut out, number, payload);
        }
    }
    out
}

fn parts(mut bytes: &[u8]) -> Vec<(u16, &[u8])> {
    let mut all = Vec::new();
    while let Some(&[a, b, c, d]) = bytes.first_chunk::<4>() {
        let length = usize::from(u16::from_ne_bytes([a, b]));
        let Some(payload) = bytes.get(4..length) else {
            break;
        };
        all.push((u16::from_ne_bytes([c, d]) & 0x3fff, payload));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    all
}

/// Removes the clocks, and drops the multicast groups that a link has joined.
fn neighbour(mut row: RawMessage) -> Option<RawMessage> {
    const NDA_DST: u16 = 1;
    const NDA_LLADDR: u16 = 2;
    const NDA_CACHEINFO: u16 = 3;
    const NDA_PROBES: u16 = 4;
    const NUD_NOARP: u8 = 0x40;
    row.attrs.remove(&NDA_CACHEINFO);
    row.attrs.remove(&NDA_PROBES);
    if row.family() == 7 {
        // The kernel makes entries for links' own addresses, and for the groups that a device has
        // joined.
        let lladdr = row.attrs.get(&NDA_LLADDR).map_or(&[][..], Vec::as_slice);
        let is_group = lladdr.first().is_some_and(|byte| byte & 1 == 1);
        let is_own = lladdr.starts_with(&[2, 0, 0, 0, 0]);
        return (!is_own && (!is_group || row.header[10] & 2 == 0)).then_some(row);
    }
    let multicast = match row.attrs.get(&NDA_DST).map(Vec::as_slice) {
        Some([224..=239, _, _, _]) => true,
        Some([0xff, rest @ ..]) => rest.len() == 15,
        _ => false,
    };
    (!multicast || row.header[8] != NUD_NOARP).then_some(row)
}

//! What of a row is compared: all that [`stable`] leaves, but of a link only what the fake models, of a rule all, and of a
//! neighbour its state: nobody resolves within a sequence.

use trueup_testkit::{Kind, RawMessage, stable};

/// The attributes of a link that the fake gives; a real row carries dozens more (queues, statistics, limits of its
/// driver, settings of each family).
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

/// The row reduced, or `None` for one that comes and goes by itself.
pub fn compared(row: &RawMessage) -> Option<RawMessage> {
    if row.kind == Kind::Rule {
        // What it says of devices and targets moves with them alone.
        return Some(row.clone());
    }
    if row.kind == Kind::Neighbour {
        return neighbour(row.clone());
    }
    let mut row = stable(row)?;
    if row.kind == Kind::Link {
        row.attrs.retain(|number, _| LINK.contains(number));
    }
    Some(row)
}

/// Not the clocks, and no multicast group that a link has joined.
fn neighbour(mut row: RawMessage) -> Option<RawMessage> {
    const NDA_DST: u16 = 1;
    const NDA_LLADDR: u16 = 2;
    const NDA_CACHEINFO: u16 = 3;
    const NDA_PROBES: u16 = 4;
    const NUD_NOARP: u8 = 0x40;
    row.attrs.remove(&NDA_CACHEINFO);
    row.attrs.remove(&NDA_PROBES);
    if row.family() == 7 {
        // What a device listens to beside its own address (NTF_SELF).
        let lladdr = row.attrs.get(&NDA_LLADDR);
        let group = lladdr.is_some_and(|lladdr| lladdr.first().is_some_and(|b| b & 1 == 1));
        return (!group || row.header[10] & 2 == 0).then_some(row);
    }
    let multicast = match row.attrs.get(&NDA_DST).map(Vec::as_slice) {
        Some([224..=239, _, _, _]) => true,
        Some([0xff, rest @ ..]) => rest.len() == 15,
        _ => false,
    };
    (!multicast || row.header[8] != NUD_NOARP).then_some(row)
}

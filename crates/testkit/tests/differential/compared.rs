//! What of a row is compared: all that [`stable`] leaves, but of a link only what the fake models, and of a rule all.

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
    let mut row = stable(row)?;
    if row.kind == Kind::Link {
        row.attrs.retain(|number, _| LINK.contains(number));
    }
    Some(row)
}

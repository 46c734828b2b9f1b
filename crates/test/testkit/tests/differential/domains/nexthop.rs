//! Nexthop objects, and routes of both families that use them. Ids are few, so groups, replacements
//! and deletes affect each other.

use trueup_testkit::Kind;

use crate::case::Domain;
use crate::chance::{one_in, pick};
use crate::domains::route4::Routes4;
use crate::message::{CREATE, DUMP, Message, REPLACE, address, number, set_up, v6, write_flags};

pub(crate) struct Nexthops;

const NHA_ID: u16 = 1;
const NHA_GROUP: u16 = 2;
const NHA_BLACKHOLE: u16 = 4;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;

impl Domain for Nexthops {
    fn name(&self) -> &'static str {
        "nexthop"
    }

    fn kinds(&self) -> &'static [Kind] {
        &[Kind::Route, Kind::Nexthop]
    }

    fn prelude(&self) -> Vec<Message> {
        let mut all = Routes4.prelude();
        all.push(address(20, CREATE, 10, &v6("fd01::1"), 64));
        for (id, device, gateway) in [(1, 10, [10, 0, 0, 2]), (2, 11, [10, 0, 1, 2])] {
            all.push(
                single(2, id, CREATE).with(NHA_OIF, number(device)).with(NHA_GATEWAY, gateway),
            );
        }
        let group = Message::new(104, CREATE, &[0, 0, 4, 0, 0, 0, 0, 0]);
        let members = [1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0];
        all.push(group.with(NHA_ID, number(5)).with(NHA_GROUP, members));
        all
    }

    fn repeated(&self) -> Kind {
        Kind::Nexthop
    }

    /// Rejects deletes with more than the id.
    fn is_modelled(&self, message: &Message) -> bool {
        message.kind != 105 || message.body.len() == 16
    }

    fn message(&self, rng: &mut fastrand::Rng) -> Message {
        match rng.u8(..100) {
            0..60 => nexthop(rng),
            60..85 => user(rng),
            85..93 => set_up(pick(rng, &[10, 11]), rng.u8(..3) > 0),
            _ => Message::new(106, DUMP, &[pick(rng, &[0, 2, 10]), 0, 0, 0, 0, 0, 0, 0]).maybe(
                rng,
                3,
                NHA_OIF,
                &[10, 11, 99].map(number),
            ),
        }
    }
}

/// Returns a request for a route that uses an object.
fn user(rng: &mut fastrand::Rng) -> Message {
    let family = pick(rng, &[2, 2, 10]);
    let kind = pick(rng, &[24, 24, 24, 25]);
    let flags = if kind == 24 { write_flags(rng) } else { 0 };
    let (dst, length) = match family {
        2 => (vec![10, 9, 0, 0], pick(rng, &[16, 24])),
        _ => (v6("fd09::").to_vec(), pick(rng, &[48, 64])),
    };
    let fixed = [family, length, 0, 0, 254, 4, 0, 1, 0, 0, 0, 0];
    Message::new(kind, flags, &fixed).with(1, dst).with(30, number(id(rng)))
}

fn id(rng: &mut fastrand::Rng) -> u32 {
    pick(rng, &[1, 1, 1, 2, 2, 3, 4, 5, 5])
}

fn single(family: u8, id: u32, flags: u16) -> Message {
    Message::new(104, flags, &[family, 0, 4, 0, 0, 0, 0, 0]).with(NHA_ID, number(id))
}

/// Returns a request about one object.
pub(crate) fn nexthop(rng: &mut fastrand::Rng) -> Message {
    let flags = write_flags(rng) | if one_in(rng, 3) { REPLACE } else { 0 };
    let family = pick(rng, &[2, 2, 2, 10]);
    let one = single(family, id(rng), flags);
    let device = number(pick(rng, &[10, 10, 11, 11, 1, 99]));
    match rng.u8(..20) {
        0..3 => Message::new(105, 0, &[0; 8]).with(NHA_ID, number(id(rng))),
        3 => Message::new(106, 0, &[0; 8]).with(NHA_ID, number(id(rng))),
        4..9 => {
            let mut group = Vec::new();
            let first = rng.u32(1..4);
            for at in 0..pick(rng, &[1, 2, 2, 2, 3]) {
                group.extend(number((first + at) % 3 + 1));
                group.extend([pick(rng, &[0, 0, 1, 255]), 0, 0, 0]);
            }
            let id = number(pick(rng, &[3, 4, 5, 5]));
            let fixed = [0, 0, pick(rng, &[4, 16]), 0, 0, 0, 0, 0];
            Message::new(104, flags, &fixed).with(NHA_ID, id).with(NHA_GROUP, group)
        }
        9 => one.with(NHA_BLACKHOLE, []),
        11 => one.with(NHA_OIF, device),
        _ if family == 10 => {
            let gateway = v6(pick(rng, &["fe80::7", "fd01::7", "fd05::7", "fd01::1"]));
            one.with(NHA_OIF, device).with(NHA_GATEWAY, gateway)
        }
        _ => {
            let all = [[10, 0, 0, 2], [10, 0, 0, 3], [10, 0, 1, 2], [10, 9, 9, 9], [10, 0, 0, 1]];
            one.with(NHA_OIF, device).with(NHA_GATEWAY, pick(rng, &all))
        }
    }
}

//! What routes depend on: addresses, links and rules.

use trueup_testkit::Kind;

use super::{one_in, pick};
use crate::message::{CREATE, EXCL, Message, ifinfomsg, veth};

pub(crate) fn address(index: u32, local: [u8; 4], length: u8) -> Message {
    let mut fixed = vec![2, length, 0, 0];
    fixed.extend(index.to_ne_bytes());
    Message::new(Kind::Address.new_type(), CREATE | EXCL, &fixed)
        .with(1, local)
        .with(2, local)
}

/// One of few, added or deleted.
pub(crate) fn any_address(rng: &mut fastrand::Rng) -> Message {
    const IFA_BROADCAST: u16 = 4;
    const IFA_FLAGS: u16 = 8;
    const IFA_RT_PRIORITY: u16 = 9;
    const IFA_F_NOPREFIXROUTE: u32 = 0x200;
    let index = pick(rng, &[10, 10, 11, 1]);
    let local = pick(
        rng,
        &[
            [10, 0, 0, 1],
            [10, 0, 0, 1],
            [10, 0, 1, 1],
            [10, 0, 0, 9],
            [10, 9, 9, 9],
            [192, 0, 2, 1],
        ],
    );
    let mut message = address(index, local, pick(rng, &[24, 24, 24, 32, 31, 16]));
    if one_in(rng, 3) {
        message = message.with(
            IFA_BROADCAST,
            pick(rng, &[[10, 0, 0, 255], [10, 0, 0, 0], [10, 0, 0, 77]]),
        );
    }
    if one_in(rng, 5) {
        message = message.with(IFA_RT_PRIORITY, pick(rng, &[10_u32, 20]).to_ne_bytes());
    }
    if one_in(rng, 5) {
        message = message.with(IFA_FLAGS, IFA_F_NOPREFIXROUTE.to_ne_bytes());
    }
    if one_in(rng, 2) {
        message.kind += 1;
    }
    message
}

/// The link goes, or comes back.
pub(crate) fn link(rng: &mut fastrand::Rng) -> Message {
    if one_in(rng, 2) {
        let index = pick(rng, &[10, 11]);
        Message::new(Kind::Link.new_type() + 1, 0, &ifinfomsg(index, 0, 0))
    } else {
        veth("v0", 10, "v1", 11)
    }
}

/// A rule that looks up one of the tables, or refuses.
pub(crate) fn rule(rng: &mut fastrand::Rng) -> Message {
    const FRA_PRIORITY: u16 = 6;
    let (table, action) = pick(rng, &[(100, 1), (254, 1), (255, 1), (0, 7), (0, 8), (0, 6)]);
    let fixed = [2, 0, 0, 0, table, 3, 0, action, 0, 0, 0, 0];
    let kind = Kind::Rule.new_type() + u16::from(one_in(rng, 3));
    let priority = pick(rng, &[1_u32, 50, 40_000]);
    Message::new(kind, CREATE | EXCL, &fixed).with(FRA_PRIORITY, priority.to_ne_bytes())
}

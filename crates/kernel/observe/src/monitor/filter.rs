//! A [`WatchScope`] as a program for the kernel. It drops only events that the monitor would ignore
//! ([`super::event`]), and passes any others.

use trueup_net::each_kind;
use trueup_netlink::codec::KindCodec as _;
use trueup_netlink::filter::{Instruction, swapped, swapped_half};
use trueup_netlink::wire::HEADER_LEN;

use super::watch_scope::WatchScope;
use super::watched::Watched as _;

// Offsets in a datagram: of the netlink header, then of the message's body.
const TYPE: u32 = 4;
pub(super) const FLAGS: u32 = 6;
pub(super) const PORT: u32 = 12;
pub(super) const BODY: u32 = HEADER_LEN as u32;
pub(super) const FAMILY: u32 = BODY;
/// `ifa_index`, `ndm_ifindex`.
const INDEX: u32 = BODY + 4;
/// The length of the shortest relevant message, beyond all of these offsets.
const SHORTEST: u32 = 32;

/// The greatest number of devices that a program distinguishes.
const DEVICES: usize = 64;

/// Returns the program, which also drops the events caused by `own_port`.
pub(super) fn program(scope: &WatchScope, own_port: Option<u32>) -> Vec<Instruction> {
    let mut all =
        vec![Instruction::length(), Instruction::at_least(SHORTEST, 1, 0), Instruction::pass()];
    if let Some(port) = own_port {
        all.push(Instruction::word(PORT));
        all.extend(drop_if(swapped(port)));
    }
    let mut add = |message_type: u16, block: Vec<Instruction>| {
        if let Ok(length) = u8::try_from(block.len()) {
            all.push(Instruction::half(TYPE));
            all.push(Instruction::equal(swapped_half(message_type), 0, length));
            all.extend(block);
        }
    };
    each_kind!(K => {
        add(K::NEW, K::filter(scope, true));
        add(K::DELETE, K::filter(scope, false));
    });
    all.push(Instruction::pass());
    all
}

/// Ends: passes events about these devices, if they are few.
pub(super) fn on_devices<'a>(devices: impl Iterator<Item = &'a u32>) -> Vec<Instruction> {
    let devices: Vec<u32> = devices.copied().collect();
    if devices.len() > DEVICES {
        return vec![Instruction::pass()];
    }
    let mut block = vec![Instruction::word(INDEX)];
    for index in devices {
        block.extend([Instruction::equal(swapped(index), 0, 1), Instruction::pass()]);
    }
    block.push(Instruction::drop());
    block
}

/// Passes events about objects with a protocol; leaves others to the next instructions.
pub(super) fn with_protocol(attributes: u32, number: u16, protocol: u8) -> Vec<Instruction> {
    let mut passes = Vec::from(Instruction::first_byte());
    passes.extend([Instruction::equal(protocol.into(), 0, 1), Instruction::pass()]);
    let mut block = Vec::from(Instruction::attribute(attributes, number));
    block.push(Instruction::equal(0, passes.len() as u8, 0));
    block.extend(passes);
    block
}

/// Ends: passes if the loaded value is `value`.
pub(super) fn pass_only(value: u32) -> [Instruction; 3] {
    [Instruction::equal(value, 1, 0), Instruction::drop(), Instruction::pass()]
}

/// Drops if the loaded value is `value`.
pub(super) fn drop_if(value: u32) -> [Instruction; 2] {
    [Instruction::equal(value, 0, 1), Instruction::drop()]
}

/// Ends: passes or drops.
pub(super) fn pass_if(passes: bool) -> Instruction {
    if passes { Instruction::pass() } else { Instruction::drop() }
}

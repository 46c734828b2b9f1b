//! Neighbours and proxies of both families, while links lose their carrier and addresses go. Rows
//! that the kernel probes are left out, as they change within milliseconds.

use trueup_testkit::Kind;

use crate::case::Domain;
use crate::chance::{one_in, pick};
use crate::message::{
    CREATE, DUMP, Message, address, ifinfomsg, number, set_up, v6, veth, write_flags,
};

pub(crate) struct Neighbours;

const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NDA_IFINDEX: u16 = 8;
const NDA_PROTOCOL: u16 = 12;
const NTF_PROXY: u8 = 0x08;

impl Domain for Neighbours {
    fn name(&self) -> &'static str {
        "neighbour"
    }

    fn kinds(&self) -> &'static [Kind] {
        &[Kind::Neighbour]
    }

    fn prelude(&self) -> Vec<Message> {
        vec![veth("v0", 10, "v1", 11), set_up(10, true), set_up(11, true)]
    }

    fn repeated(&self) -> Kind {
        Kind::Neighbour
    }

    fn message(&self, rng: &mut fastrand::Rng) -> Message {
        match rng.u8(..40) {
            0 => set_up(10, rng.bool()),
            1 => set_up(11, rng.bool()),
            2 => Message::new(16, 0, &ifinfomsg(10, 0, 0)).with(1, [2, 0, 0, 0, 1, rng.u8(..2)]),
            3 => Message::new(17, 0, &ifinfomsg(10, 0, 0)),
            4 => veth("v0", 10, "v1", 11),
            // Deleting the last address deletes the neighbours.
            5..=7 => {
                let local = pick(rng, &[[10, 0, 0, 1], [10, 1, 0, 1]]);
                address(20 + u16::from(rng.bool()), CREATE, 10, &local, 24)
            }
            8..=10 => {
                let flags = pick(rng, &[0, NTF_PROXY]);
                let fixed = [pick(rng, &[0, 2, 10]), 0, 0, 0, 0, 0, 0, 0, 0, 0, flags, 0];
                let all = Message::new(30, DUMP, &fixed);
                all.maybe(rng, 2, NDA_IFINDEX, &[10, 11, 99].map(number))
            }
            _ => neighbour(rng),
        }
    }

    /// Rejects a row, at the cable's other end, for one of the host's own addresses: the host's
    /// requests to that end would change it. Rejects a proxy for all devices: it outlives its
    /// namespace.
    fn is_modelled(&self, message: &Message) -> bool {
        let is_own = message.body.windows(4).any(|bytes| bytes == [10, 0, 0, 1]);
        message.kind & !3 != 28 || !is_own || message.body[4] != 11
    }
}

fn neighbour(rng: &mut fastrand::Rng) -> Message {
    let family = pick(rng, &[2, 10]);
    let is_delete = one_in(rng, 4);
    let flags = if is_delete { 0 } else { write_flags(rng) };
    // Permanent, without resolution, stale, failed, none. No row is failed (0x20): the kernel
    // collects failed rows at an unknown time.
    let state = pick(rng, &[0x80, 0x80, 0x80, 0x40, 0x40, 0x04, 0x04, 0]);
    // Router, learnt elsewhere, proxy.
    let how = pick(rng, &[0, 0, 0, 0, 0x80, 0x10, NTF_PROXY, 0x90]);
    let device = pick(rng, &[10, 10, 10, 11, 1, 99]);
    let fixed = [family, 0, 0, 0, device, 0, 0, 0, state, 0, how, 0];
    let dst = match family {
        2 => {
            let all = [[10, 0, 0, 9], [10, 0, 0, 9], [10, 0, 0, 8], [10, 0, 0, 1]];
            pick(rng, &all).to_vec()
        }
        _ => v6(pick(rng, &["fd00::9", "fd00::9", "fd00::8", "fe80::9"])).to_vec(),
    };
    let message = Message::new(28 + u16::from(is_delete), flags, &fixed).with(NDA_DST, dst);
    let message = match one_in(rng, 4) {
        true => message,
        false => message.with(NDA_LLADDR, [2, 0, 0, 0, 9, rng.u8(1..3)]),
    };
    message.maybe(rng, 3, NDA_PROTOCOL, &[[4], [99], [0]])
}

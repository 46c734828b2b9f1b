//! Forwarding entries of a bridge's ports and a VXLAN, while ports leave, come back and go down. No
//! packet arrives at the ports, so the bridge learns nothing. The kernel's own entries are not
//! compared.

use trueup_testkit::Kind;

use crate::case::Domain;
use crate::chance::{one_in, pick};
use crate::domains::link::link;
use crate::message::{
    APPEND, CREATE, DUMP, Message, attributes, ifinfomsg, number, set_up, write_flags,
};

pub(crate) struct Forwarding;

const NDA_DST: u16 = 1;
const NDA_LLADDR: u16 = 2;
const NDA_PORT: u16 = 6;
const NDA_VNI: u16 = 7;
const NDA_IFINDEX: u16 = 8;
const NDA_MASTER: u16 = 9;
const BRIDGE: u32 = 20;
const PORTS: [u32; 2] = [21, 22];
/// Down: nothing is sent there, so no neighbour is made.
const DOWN: u32 = 24;
const VXLAN: u32 = 30;

impl Domain for Forwarding {
    fn name(&self) -> &'static str {
        "forwarding"
    }

    fn kinds(&self) -> &'static [Kind] {
        &[Kind::Neighbour]
    }

    fn prelude(&self) -> Vec<Message> {
        let mut all = vec![named(b"bridge", BRIDGE, "b0")];
        for (index, name) in [(PORTS[0], "i0"), (PORTS[1], "i1"), (DOWN, "i3")] {
            all.push(named(b"ifb", index, name));
        }
        all.push(vxlan());
        all.extend(PORTS.map(|port| master(port, BRIDGE)));
        all.extend([BRIDGE, PORTS[0], PORTS[1], VXLAN].map(|index| set_up(index, true)));
        all
    }

    fn repeated(&self) -> Kind {
        Kind::Neighbour
    }

    fn message(&self, rng: &mut fastrand::Rng) -> Message {
        match rng.u8(..40) {
            0 => set_up(PORTS[0], rng.bool()),
            1 => set_up(VXLAN, rng.bool()),
            2 | 3 => master(PORTS[0], pick(rng, &[BRIDGE, 0])),
            4 => Message::new(17, 0, &ifinfomsg(pick(rng, &[VXLAN, PORTS[0]]), 0, 0)),
            5 => vxlan(),
            6..=8 => {
                let all = Message::new(30, DUMP, &[7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
                let all = all.maybe(rng, 3, NDA_IFINDEX, &[PORTS[0], VXLAN].map(number));
                all.maybe(rng, 3, NDA_MASTER, &[number(BRIDGE)])
            }
            _ => entry(rng),
        }
    }

    /// Rejects deletes in bulk.
    fn is_modelled(&self, message: &Message) -> bool {
        message.kind != 29 || message.flags == 0
    }
}

fn named(kind: &[u8], index: u32, name: &str) -> Message {
    link(kind, index, None).with(3, [name.as_bytes(), &[0]].concat())
}

fn vxlan() -> Message {
    let (id, port) = (number(7), 4789_u16.to_be_bytes());
    let data = attributes([(1, &id[..]), (15, &port)]);
    link(b"vxlan", VXLAN, Some(&data)).with(3, b"x0\0")
}

fn master(port: u32, master: u32) -> Message {
    Message::new(16, 0, &ifinfomsg(port, 0, 0)).with(10, number(master))
}

fn entry(rng: &mut fastrand::Rng) -> Message {
    let is_delete = one_in(rng, 3);
    let device = pick(rng, &[21, 21, 22, 30, 30, 30, 30, 99]);
    let flags = if is_delete { 0 } else { write_flags(rng) };
    // At the device itself, or at its master.
    let how = if device == VXLAN { 2 } else { pick(rng, &[4, 4, 0]) };
    let state = pick(rng, &[0x80, 0x80, 0x40, 0x02, 0x82]);
    // A flood destination: only these entries have several destinations.
    let floods = device == VXLAN && !is_delete && one_in(rng, 3);
    let (flags, state) = if floods { (CREATE | APPEND, 0x80) } else { (flags, state) };
    let mac = match floods {
        true => [0; 6],
        false => pick(rng, &[[2, 0, 0, 0, 9, 1], [2, 0, 0, 0, 9, 2], [1, 0, 0x5e, 0, 0, 0x63]]),
    };
    let fixed = [7, 0, 0, 0, device as u8, 0, 0, 0, state, 0, how, 0];
    let kind = 28 + u16::from(is_delete);
    let mut message = Message::new(kind, flags, &fixed).with(NDA_LLADDR, mac);
    if device == VXLAN {
        message = message
            .with(NDA_DST, [192, 0, 2, rng.u8(1..3)])
            .maybe(rng, 6, NDA_PORT, &[[0x12, 0xb5], [0, 9]])
            .maybe(rng, 6, NDA_VNI, &[7, 8].map(number))
            .maybe(rng, 6, NDA_IFINDEX, &[DOWN].map(number));
    }
    message
}

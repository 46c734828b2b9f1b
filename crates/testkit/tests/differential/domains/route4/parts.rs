//! The nested attributes of a route, and those that any route may have.

use super::{
    GATEWAYS, RTA_FLOW, RTA_GATEWAY, RTA_MAX, RTA_METRICS, RTA_PREFSRC, RTA_PRIORITY, RTA_TABLE,
    RTA_VIA, one_in, pick,
};
use crate::message::{attribute, attributes, odd_attribute};

pub(crate) fn extras(rng: &mut fastrand::Rng, attrs: &mut Vec<(u16, Vec<u8>)>) {
    let mut add = |number, payload: &[u8]| attrs.push((number, payload.to_vec()));
    if one_in(rng, 3) {
        add(RTA_PRIORITY, &pick(rng, &[10_u32, 20, 0]).to_ne_bytes());
    }
    if one_in(rng, 8) {
        add(RTA_TABLE, &pick(rng, &[1000_u32, 254, 100]).to_ne_bytes());
    }
    if one_in(rng, 8) {
        add(
            RTA_PREFSRC,
            &pick(
                rng,
                &[
                    [10, 0, 0, 1],
                    [10, 0, 1, 1],
                    [10, 0, 0, 9],
                    [127, 0, 0, 1],
                    [10, 9, 9, 9],
                ],
            ),
        );
    }
    if one_in(rng, 8) {
        add(RTA_METRICS, &metrics(rng));
    }
    if one_in(rng, 25) {
        add(RTA_FLOW, &pick(rng, &[1_u32, 2]).to_ne_bytes());
    }
    if one_in(rng, 25) {
        let (number, payload) = odd_attribute(rng, RTA_MAX);
        add(number, &payload);
    }
}

fn metrics(rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut nest = Vec::new();
    for _ in 0..rng.usize(..3) {
        match rng.u8(..8) {
            0 => {
                let names: &[&[u8]] = &[b"cubic\0", b"reno", b"nosuch\0", b""];
                attribute(&mut nest, 16, pick(rng, names));
            }
            1 => attribute(&mut nest, 12, &pick(rng, &[1_u32, 32, 15]).to_ne_bytes()),
            2 => {
                let (number, payload) = odd_attribute(rng, 19);
                attribute(&mut nest, number, &payload);
            }
            _ => {
                let number = pick(rng, &[1, 2, 2, 8, 10, 17]);
                let value = pick(rng, &[1400_u32, 1400, 0, 4, 100_000]);
                attribute(&mut nest, number, &value.to_ne_bytes());
            }
        }
    }
    nest
}

pub(crate) fn via(rng: &mut fastrand::Rng) -> Vec<u8> {
    let family = pick(rng, &[10_u16, 10, 10, 10, 2, 7]);
    let mut payload = family.to_ne_bytes().to_vec();
    if family == 2 {
        payload.extend(pick(rng, &GATEWAYS));
    } else {
        payload.extend([0xfe, 0x80, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        payload.push(pick(rng, &[7, 8]));
    }
    if one_in(rng, 20) {
        payload.truncate(rng.usize(..payload.len()));
    }
    payload
}

pub(crate) fn multipath(rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut all = Vec::new();
    for _ in 0..pick(rng, &[1, 2, 2, 2, 3]) {
        let attrs = match rng.u8(..10) {
            0..6 => attributes([(RTA_GATEWAY, &pick(rng, &GATEWAYS)[..])]),
            6 => attributes([(RTA_VIA, via(rng).as_slice())]),
            7 => attributes([(RTA_GATEWAY, &[10, 0, 0, 2][..]), (RTA_FLOW, &[1, 0, 0, 0])]),
            8 => {
                let (number, payload) = odd_attribute(rng, RTA_MAX);
                attributes([(number, payload.as_slice())])
            }
            _ => Vec::new(),
        };
        let mut length = 8 + attrs.len() as u16;
        if one_in(rng, 40) {
            length = pick(rng, &[0, 7, length + 1, length + 4, 60]);
        }
        let flags = if one_in(rng, 8) {
            pick(rng, &[4, 4, 1, 16])
        } else {
            0
        };
        all.extend(length.to_ne_bytes());
        all.extend([flags, pick(rng, &[0, 0, 0, 1, 255])]);
        all.extend(pick(rng, &[10_u32, 11, 0, 10, 11, 0, 10, 11, 99]).to_ne_bytes());
        all.extend(attrs);
    }
    all
}

//! Every target, fed with mutations of valid input: the same ones each time.

use std::fs;
use std::path::Path;

use trueup_fuzz::{address, datagram, file, link, neighbour, route, rule};

/// Numbers without pattern (Knuth's 64-bit linear congruential generator).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, below: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % below.max(1)
    }
}

/// Changes a byte, cuts, or repeats a part, one to four times.
fn mutate(seed: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    let mut bytes = seed.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(bytes.len());
        match numbers.below(4) {
            0 => bytes.truncate(at),
            1 => {
                let part = bytes[at..].to_vec();
                let to = numbers.below(bytes.len());
                bytes.splice(to..to, part.into_iter().take(16));
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = numbers.below(256) as u8;
                }
            }
        }
    }
    bytes
}

fn feed(target: fn(&[u8]), seeds: &[Vec<u8>], rounds: usize) {
    let mut numbers = Numbers(1);
    for seed in seeds {
        target(seed);
        for _ in 0..rounds {
            target(&mutate(seed, &mut numbers));
        }
    }
}

/// An attribute, padded to four bytes.
fn attr(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut bytes = (4 + payload.len() as u16).to_ne_bytes().to_vec();
    bytes.extend(kind.to_ne_bytes());
    bytes.extend(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

fn message(head: &[u8], attrs: &[Vec<u8>]) -> Vec<u8> {
    [head, &attrs.concat()].concat()
}

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

fn routes() -> Vec<Vec<u8>> {
    let hop = |host: u8| {
        let mut hop = vec![16, 0, 0, 2, 2, 0, 0, 0];
        hop.extend(attr(5, &[10, 0, 0, host])); // RTA_GATEWAY
        hop
    };
    let v4 = [AF_INET, 24, 0, 0, 254, 116, 0, 1, 0, 0, 0, 0];
    let v6 = [AF_INET6, 64, 0, 0, 254, 116, 0, 1, 0, 0, 0, 0];
    let v6_dst = attr(1, &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let (dst, table, oif) = (
        attr(1, &[10, 1, 2, 0]),
        attr(15, &[254, 0, 0, 0]),
        attr(4, &[2, 0, 0, 0]),
    );
    let metrics = attr(8, &attr(2, &1400_u32.to_ne_bytes()));
    vec![
        message(
            &v4,
            &[
                dst.clone(),
                table.clone(),
                attr(5, &[10, 0, 0, 1]),
                oif.clone(),
                metrics,
            ],
        ),
        message(
            &v4,
            &[dst, table.clone(), attr(9, &[hop(1), hop(2)].concat())],
        ),
        message(
            &v6,
            &[v6_dst, table, attr(6, &[0, 4, 0, 0]), oif, attr(20, &[0])],
        ),
    ]
}

fn rules() -> Vec<Vec<u8>> {
    let head = [AF_INET, 0, 24, 0, 254, 0, 0, 1, 0, 0, 0, 0];
    vec![message(
        &head,
        &[
            attr(15, &254_u32.to_ne_bytes()),
            attr(6, &1000_u32.to_ne_bytes()),
            attr(2, &[10, 1, 2, 0]),
            attr(3, b"eth0\0"),
            attr(21, &[116]),
            attr(10, &7_u32.to_ne_bytes()),
            attr(16, &u32::MAX.to_ne_bytes()),
            attr(14, &u32::MAX.to_ne_bytes()),
        ],
    )]
}

fn addresses() -> Vec<Vec<u8>> {
    let head = [AF_INET, 24, 0x80, 0, 2, 0, 0, 0];
    vec![message(
        &head,
        &[
            attr(1, &[10, 1, 2, 3]),
            attr(2, &[10, 1, 2, 3]),
            attr(3, b"eth0\0"),
            attr(8, &0x80_u32.to_ne_bytes()),
            attr(6, &[0xff; 16]),
        ],
    )]
}

fn neighbours() -> Vec<Vec<u8>> {
    let head = [AF_INET, 0, 0, 0, 2, 0, 0, 0, 0x80, 0, 0, 1];
    vec![message(
        &head,
        &[
            attr(1, &[10, 1, 2, 3]),
            attr(2, &[2, 0, 0, 0, 0, 9]),
            attr(12, &[116]),
        ],
    )]
}

fn links() -> Vec<Vec<u8>> {
    let head = [0, 0, 1, 0, 2, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0];
    let info = [attr(1, b"vxlan\0"), attr(2, &attr(1, &7_u32.to_ne_bytes()))].concat();
    vec![message(
        &head,
        &[
            attr(3, b"eth0\0"),
            attr(4, &1500_u32.to_ne_bytes()),
            attr(1, &[2, 0, 0, 0, 0, 9]),
            attr(18, &info),
        ],
    )]
}

#[test]
fn messages_hold() {
    for (target, seeds) in [
        (route as fn(&[u8]), routes()),
        (rule, rules()),
        (address, addresses()),
        (neighbour, neighbours()),
        (link, links()),
    ] {
        feed(target, &seeds, 20_000);
    }
}

#[test]
fn datagrams_hold() {
    let whole = |body: Vec<u8>| {
        let mut bytes = (16 + body.len() as u32).to_ne_bytes().to_vec();
        bytes.extend([24, 0, 2, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
        [bytes, body].concat()
    };
    let seeds: Vec<_> = routes().into_iter().map(whole).collect();
    feed(datagram, &[seeds.concat()], 20_000);
}

#[test]
fn files_hold() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/examples/edge.toml");
    let json = br#"{"protocol": 116, "route": [{"dst": "10.0.0.0/8", "type": "blackhole"}],
        "rule": [{"priority": 1000, "from": "10.1.0.0/24", "fwmark": 7, "table": 100}]}"#;
    feed(file, &[fs::read(example).unwrap(), json.to_vec()], 2_000);
}

//! Feeds every target its corpus and mutations of it, the same ones each time.

use std::fs;
use std::path::Path;

use crate::TARGETS;

/// Numbers without a pattern (Knuth's 64-bit linear congruential generator).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, below: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
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

/// Returns the files of a target's corpus, sorted by name.
fn corpus(name: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus").join(name);
    let entries = fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn feed(name: &str, rounds: usize) {
    let (_, target) = TARGETS.iter().find(|(found, _)| *found == name).unwrap();
    let seeds = corpus(name);
    assert!(!seeds.is_empty(), "{name} has no corpus");
    let mut numbers = Numbers(1);
    for seed in &seeds {
        target(seed);
        for _ in 0..rounds / seeds.len() {
            target(&mutate(seed, &mut numbers));
        }
    }
}

macro_rules! fed {
    ($($target:ident: $rounds:literal,)*) => {
        $(#[test]
        fn $target() {
            feed(stringify!($target), $rounds);
        })*

        #[test]
        fn every_target_is_fed() {
            let fed = [$(stringify!($target)),*];
            assert_eq!(fed, TARGETS.map(|(name, _)| name));
        }
    };
}

fed! {
    ack: 20_000,
    address: 20_000,
    batch: 20_000,
    datagram: 20_000,
    desired: 20_000,
    dump: 5_000,
    event: 10_000,
    file: 2_000,
    grants: 2_000,
    graph: 20_000,
    guests: 5_000,
    journal: 400,
    ledger: 4_000,
    link: 20_000,
    namespace: 20_000,
    neighbour: 20_000,
    nexthop: 20_000,
    operation: 400,
    packet: 20_000,
    pass: 2_000,
    record: 400,
    resource: 20_000,
    route: 20_000,
    rule: 20_000,
    sysctl: 20_000,
    token: 20_000,
    world: 4_000,
}

//! Prefixes by the hundred thousand: a table read from files, or a generated one of the same size
//! and shape, the same each time.

use std::collections::HashSet;
use std::env;
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, ensure};

use crate::Destination;

/// Prefixes of both families, each list ascending and without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefixes {
    /// IPv4 prefixes, empty if there are none.
    pub v4: Vec<Destination>,
    /// IPv6 prefixes, empty if there are none.
    pub v6: Vec<Destination>,
}

/// The sizes of the internet's table as of June 2026, adjacent prefixes of one origin merged.
const INTERNET: (usize, usize) = (564_580, 167_901);

/// The distribution of prefix lengths in parts per thousand, roughly the internet's.
const LENGTHS_V4: [(u8, u32); 8] =
    [(24, 400), (23, 190), (22, 190), (21, 85), (20, 60), (19, 40), (18, 22), (17, 13)];
const LENGTHS_V6: [(u8, u32); 6] =
    [(48, 400), (47, 150), (44, 150), (40, 100), (36, 50), (32, 150)];

/// The longest prefixes that networks announce globally.
const LONGEST: (u8, u8) = (24, 48);

/// Networks outside the table: one has the benchmark's own gateways, and the kernel treats the
/// others specially.
const RESERVED_V4: [(Ipv4Addr, u8); 5] = [
    (Ipv4Addr::new(10, 0, 0, 0), 8),
    (Ipv4Addr::new(127, 0, 0, 0), 8),
    (Ipv4Addr::new(169, 254, 0, 0), 16),
    (Ipv4Addr::new(172, 16, 0, 0), 12),
    (Ipv4Addr::new(192, 168, 0, 0), 16),
];

impl Prefixes {
    /// Returns `size` prefixes of the internet's table: from `internet-v4.txt.gz` and
    /// `internet-v6.txt.gz`, with a prefix at the start of each line, in the directory
    /// `$TRUEUP_DATA`, or else from a generated one.
    pub fn internet(size: usize) -> Result<Prefixes> {
        let all = match env::var_os("TRUEUP_DATA").map(PathBuf::from) {
            Some(folder) => Prefixes {
                v4: read(&folder.join("internet-v4.txt.gz"))?,
                v6: read(&folder.join("internet-v6.txt.gz"))?,
            },
            None => Prefixes::synthetic(),
        };
        Ok(all.thinned(size))
    }

    /// Returns this number of prefixes for each family. If the table has too few, halves of its
    /// prefixes are added, as networks announce parts of their prefixes.
    pub fn internet_of(v4: usize, v6: usize) -> Result<Prefixes> {
        let all = Prefixes::internet(usize::MAX)?;
        Ok(Prefixes { v4: sized(all.v4, v4, LONGEST.0), v6: sized(all.v6, v6, LONGEST.1) })
    }

    /// Returns generated prefixes, as many as the internet has.
    pub fn synthetic() -> Prefixes {
        Prefixes { v4: synthetic_v4(INTERNET.0), v6: synthetic_v6(INTERNET.1) }
    }

    /// Returns `size` prefixes in all, spread over the whole and over both families; all, if there
    /// are no more.
    #[must_use]
    pub fn thinned(self, size: usize) -> Prefixes {
        let all = self.v4.len() + self.v6.len();
        if size >= all {
            return self;
        }
        let v4 = size * self.v4.len() / all;
        Prefixes { v4: thinned(&self.v4, v4), v6: thinned(&self.v6, size - v4) }
    }

    /// Returns all prefixes in one list: IPv4, then IPv6.
    pub fn all(self) -> Vec<Destination> {
        [self.v4, self.v6].concat()
    }
}

/// Returns `size` elements of a list, spread over the whole.
pub fn thinned(prefixes: &[Destination], size: usize) -> Vec<Destination> {
    let (all, size) = (prefixes.len(), size.min(prefixes.len()));
    (0..size).map(|at| prefixes[at * all / size]).collect()
}

/// Returns `size` prefixes of a family: thinned, or with halves added, none longer than `longest`.
fn sized(mut prefixes: Vec<Destination>, size: usize, longest: u8) -> Vec<Destination> {
    if prefixes.len() >= size {
        return thinned(&prefixes, size);
    }
    let mut known: HashSet<Destination> = prefixes.iter().copied().collect();
    let mut at = 0;
    while let Some((address, length)) = prefixes.get(at).copied() {
        at += 1;
        if length >= longest {
            continue;
        }
        let upper = match address {
            IpAddr::V4(it) => IpAddr::V4(Ipv4Addr::from(it.to_bits() | 1 << (31 - length))),
            IpAddr::V6(it) => IpAddr::V6(Ipv6Addr::from(it.to_bits() | 1 << (127 - length))),
        };
        for half in [(address, length + 1), (upper, length + 1)] {
            if prefixes.len() < size && known.insert(half) {
                prefixes.push(half);
            }
        }
    }
    prefixes.sort_unstable();
    prefixes
}

fn read(path: &Path) -> Result<Vec<Destination>> {
    let name = path.display();
    ensure!(path.is_file(), "no such file: {name}");
    let mut gzip =
        Command::new("gzip").arg("-dc").arg(path).stdout(Stdio::piped()).spawn().context("gzip")?;
    let mut prefixes = Vec::new();
    for line in gzip.stdout.take().into_iter().flat_map(|text| BufReader::new(text).lines()) {
        let line = line?;
        let prefix = line.split_whitespace().next().unwrap_or_default();
        let (address, length) = prefix.split_once('/').with_context(|| name.to_string())?;
        prefixes.push((
            address.parse().with_context(|| name.to_string())?,
            length.parse().with_context(|| name.to_string())?,
        ));
    }
    ensure!(gzip.wait()?.success(), "gzip -dc {name} failed");
    prefixes.sort_unstable();
    prefixes.dedup();
    Ok(prefixes)
}

/// Numbers without a pattern, the same each time (Knuth's 64-bit linear congruential generator).
pub struct Numbers(pub u64);

impl Numbers {
    /// Returns a number from 0 to `below`, exclusive.
    pub fn below(&mut self, below: u32) -> u32 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32 % below
    }

    fn length(&mut self, shares: &[(u8, u32)]) -> u8 {
        let mut left = self.below(shares.iter().map(|(_, share)| share).sum());
        for (length, share) in shares {
            match left.checked_sub(*share) {
                Some(rest) => left = rest,
                None => return *length,
            }
        }
        shares[0].0
    }
}

fn synthetic_v4(count: usize) -> Vec<Destination> {
    let (mut numbers, mut at) = (Numbers(4), 1_u32 << 24);
    let mut prefixes = Vec::with_capacity(count);
    while prefixes.len() < count {
        let length = numbers.length(&LENGTHS_V4);
        let size = 1_u32 << (32 - length);
        at = at.next_multiple_of(size);
        match RESERVED_V4.iter().find(|(network, length): &&(Ipv4Addr, u8)| {
            at >> (32 - length) == network.to_bits() >> (32 - length)
        }) {
            Some((_, length)) => at += 1 << (32 - length),
            None => {
                prefixes.push((Ipv4Addr::from(at).into(), length));
                at += size;
            }
        }
    }
    prefixes
}

fn synthetic_v6(count: usize) -> Vec<Destination> {
    let (mut numbers, mut at) = (Numbers(6), 0x2001_u128 << 112);
    let mut prefixes = Vec::with_capacity(count);
    while prefixes.len() < count {
        let length = numbers.length(&LENGTHS_V6);
        let size = 1_u128 << (128 - length);
        at = at.next_multiple_of(size);
        prefixes.push((Ipv6Addr::from(at).into(), length));
        at += size * (1 + u128::from(numbers.below(4)));
    }
    prefixes
}

#[cfg(test)]
mod tests {
    use super::*;

    fn v4(bytes: [u8; 4], length: u8) -> Destination {
        (bytes.into(), length)
    }

    #[test]
    fn a_synthetic_table_is_of_the_internets_size_and_ascending() {
        let table = Prefixes::synthetic();
        assert_eq!((table.v4.len(), table.v6.len()), INTERNET);
        for family in [&table.v4, &table.v6] {
            assert!(family.windows(2).all(|pair| pair[0] < pair[1]));
        }
        assert!(table.v4.iter().all(|prefix| *prefix <= v4([223, 255, 255, 0], 24)));
        assert!(!table.v4.contains(&v4([10, 0, 0, 0], 24)));
    }

    #[test]
    fn a_family_with_too_few_prefixes_gets_halves_of_them() {
        let few = vec![v4([11, 0, 0, 0], 22), v4([12, 0, 0, 0], 24)];
        let all = sized(few.clone(), 100, LONGEST.0);
        assert_eq!(all.len(), 1 + 1 + 2 + 4);
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(all.contains(&v4([11, 0, 3, 0], 24)));
        assert_eq!(sized(few.clone(), 3, LONGEST.0).len(), 3);
        assert_eq!(sized(few, 1, LONGEST.0).len(), 1);
    }

    #[test]
    fn a_thinned_table_has_what_was_asked_for_of_both_families() {
        let thin = Prefixes::synthetic().thinned(1_000);
        assert_eq!((thin.v4.len(), thin.v6.len()), (770, 230));
        for family in [&thin.v4, &thin.v6] {
            assert!(family.windows(2).all(|pair| pair[0] < pair[1]));
        }
    }
}

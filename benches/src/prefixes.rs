//! Prefixes by the hundred thousand: a table that was read from files, or one of the same size and
//! shape made up, the same each time.

use std::collections::HashSet;
use std::env;
use std::io::{BufRead as _, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use trueup_net::Prefix;

/// Prefixes of both families, each list ascending and without duplicates.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Prefixes {
    /// IPv4.
    pub v4: Vec<Prefix>,
    /// IPv6.
    pub v6: Vec<Prefix>,
}

/// The sizes of the internet's table as of June 2026, adjacent prefixes of one origin merged.
const INTERNET: (usize, usize) = (564_580, 167_901);

/// How long prefixes are, as shares of a thousand: roughly the internet's.
const LENGTHS_V4: [(u8, u32); 8] =
    [(24, 400), (23, 190), (22, 190), (21, 85), (20, 60), (19, 40), (18, 22), (17, 13)];
const LENGTHS_V6: [(u8, u32); 6] =
    [(48, 400), (47, 150), (44, 150), (40, 100), (36, 50), (32, 150)];

/// The longest prefixes that networks announce to all others.
const LONGEST_V4: u8 = 24;
const LONGEST_V6: u8 = 48;

/// Networks that are no part of the table, because the benchmark's own gateways are in one of them
/// or the kernel would treat them in a way of its own.
const RESERVED_V4: [&str; 5] =
    ["10.0.0.0/8", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.168.0.0/16"];

impl Prefixes {
    /// Reads `internet-v4.txt.gz` and `internet-v6.txt.gz`: a prefix at the start of each line. One
    /// that is there twice counts once.
    ///
    /// # Errors
    ///
    /// When one cannot be read by `gzip -dc`, or has a line that starts with no prefix.
    pub fn read(directory: &Path) -> Result<Prefixes> {
        Ok(Prefixes {
            v4: read(&directory.join("internet-v4.txt.gz"))?,
            v6: read(&directory.join("internet-v6.txt.gz"))?,
        })
    }

    /// As many as the internet has, made up.
    pub fn synthetic() -> Prefixes {
        Prefixes { v4: synthetic_v4(INTERNET.0), v6: synthetic_v6(INTERNET.1) }
    }

    /// `size` prefixes of the internet's table: that in a directory, by default the one that
    /// `$TRUEUP_DATA` names, or else one made up.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read).
    pub fn internet(directory: Option<&Path>, size: usize) -> Result<Prefixes> {
        let named = env::var_os("TRUEUP_DATA").map(PathBuf::from);
        let all = match directory.or(named.as_deref()) {
            Some(directory) => Prefixes::read(directory)?,
            None => Prefixes::synthetic(),
        };
        Ok(all.thinned(size))
    }

    /// So many prefixes of each family: of the table that `$TRUEUP_DATA` names, or else of one made
    /// up. A family that has fewer gets halves of its prefixes as well, as networks announce parts
    /// of what they have.
    ///
    /// # Errors
    ///
    /// Those of [`read`](Self::read).
    pub fn internet_of(v4: usize, v6: usize) -> Result<Prefixes> {
        let all = Prefixes::internet(None, usize::MAX)?;
        Ok(Prefixes { v4: sized(all.v4, v4, LONGEST_V4), v6: sized(all.v6, v6, LONGEST_V6) })
    }

    /// `size` of them in all, spread over the whole and over both families; all, where there are
    /// no more.
    #[must_use]
    pub fn thinned(self, size: usize) -> Prefixes {
        let all = self.len();
        if size >= all {
            return self;
        }
        let v4 = size * self.v4.len() / all;
        Prefixes { v4: thinned(&self.v4, v4), v6: thinned(&self.v6, size - v4) }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Returns true if there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// IPv4, then IPv6.
    pub fn iter(&self) -> impl Iterator<Item = Prefix> + '_ {
        self.v4.iter().chain(&self.v6).copied()
    }
}

fn thinned(prefixes: &[Prefix], size: usize) -> Vec<Prefix> {
    (0..size).map(|at| prefixes[at * prefixes.len() / size]).collect()
}

/// So many of a family: thinned, or with halves added, none longer than `longest`.
fn sized(mut prefixes: Vec<Prefix>, size: usize, longest: u8) -> Vec<Prefix> {
    if prefixes.len() >= size {
        return thinned(&prefixes, size);
    }
    let mut known: HashSet<Prefix> = prefixes.iter().copied().collect();
    let mut at = 0;
    while let Some(prefix) = prefixes.get(at).copied() {
        at += 1;
        for half in halves(prefix, longest) {
            if prefixes.len() < size && known.insert(half) {
                prefixes.push(half);
            }
        }
    }
    prefixes.sort_unstable();
    prefixes
}

/// The two halves of a prefix, if they are not longer than `longest`.
fn halves(prefix: Prefix, longest: u8) -> impl Iterator<Item = Prefix> {
    let length = prefix.len() + 1;
    let upper = match prefix.address() {
        IpAddr::V4(address) if length <= longest => {
            let bit = 1_u32 << (32 - u32::from(length));
            Some(IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() | bit)))
        }
        IpAddr::V6(address) if length <= longest => {
            let bit = 1_u128 << (128 - u32::from(length));
            Some(IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() | bit)))
        }
        _ => None,
    };
    let both = upper.map(|upper| [prefix.address(), upper]);
    let both = both.into_iter().flatten();
    both.filter_map(move |address| Prefix::new(address, length).ok())
}

fn read(path: &Path) -> Result<Vec<Prefix>> {
    ensure!(path.is_file(), "no such file: {}", path.display());
    let mut gzip =
        Command::new("gzip").arg("-dc").arg(path).stdout(Stdio::piped()).spawn().context("gzip")?;
    let mut prefixes = Vec::new();
    if let Some(text) = gzip.stdout.take() {
        for line in BufReader::new(text).lines() {
            let line = line?;
            let prefix = line.split_whitespace().next().unwrap_or_default();
            prefixes.push(prefix.parse().with_context(|| path.display().to_string())?);
        }
    }
    if !gzip.wait()?.success() {
        bail!("gzip -dc {} failed", path.display());
    }
    prefixes.sort_unstable();
    prefixes.dedup();
    Ok(prefixes)
}

/// Numbers without pattern, the same each time (Knuth's 64-bit linear congruential generator).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    /// From 0 to `below`, that not counted.
    pub(crate) fn below(&mut self, below: u32) -> u32 {
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

fn synthetic_v4(count: usize) -> Vec<Prefix> {
    let reserved: Vec<Prefix> = RESERVED_V4.iter().flat_map(|text| text.parse()).collect();
    let mut numbers = Numbers(4);
    let mut at: u32 = 1 << 24;
    let mut prefixes = Vec::with_capacity(count);
    while prefixes.len() < count {
        let length = numbers.length(&LENGTHS_V4);
        let size = 1_u32 << (32 - length);
        at = at.next_multiple_of(size);
        let address = IpAddr::V4(Ipv4Addr::from(at));
        match reserved.iter().find(|network| network.contains(address)) {
            Some(network) => at += 1 << (32 - network.len()),
            None => {
                prefixes.extend(Prefix::new(address, length));
                at += size;
            }
        }
    }
    prefixes
}

fn synthetic_v6(count: usize) -> Vec<Prefix> {
    let mut numbers = Numbers(6);
    let mut at: u128 = 0x2001 << 112;
    let mut prefixes = Vec::with_capacity(count);
    while prefixes.len() < count {
        let length = numbers.length(&LENGTHS_V6);
        let size = 1_u128 << (128 - length);
        at = at.next_multiple_of(size);
        prefixes.extend(Prefix::new(IpAddr::V6(Ipv6Addr::from(at)), length));
        at += size * (1 + u128::from(numbers.below(4)));
    }
    prefixes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_synthetic_table_is_of_the_internets_size_and_ascending() {
        let table = Prefixes::synthetic();
        assert_eq!((table.v4.len(), table.v6.len()), INTERNET);
        for family in [&table.v4, &table.v6] {
            assert!(family.windows(2).all(|pair| pair[0] < pair[1]));
        }
        let last: Prefix = "223.255.255.0/24".parse().unwrap();
        assert!(table.v4.iter().all(|prefix| *prefix <= last));
        assert!(!table.v4.contains(&"10.0.0.0/24".parse().unwrap()));
    }

    #[test]
    fn a_family_with_too_few_prefixes_gets_halves_of_them() {
        let few: Vec<Prefix> = ["11.0.0.0/22", "12.0.0.0/24"].map(|it| it.parse().unwrap()).into();
        let all = sized(few.clone(), 100, LONGEST_V4);
        assert_eq!(all.len(), 1 + 1 + 2 + 4);
        assert!(all.windows(2).all(|pair| pair[0] < pair[1]));
        assert!(all.contains(&"11.0.3.0/24".parse().unwrap()));
        assert_eq!(sized(few.clone(), 3, LONGEST_V4).len(), 3);
        assert_eq!(sized(few, 1, LONGEST_V4).len(), 1);
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

//! Hashes an observed state: equal states have equal hashes, in any order of reading.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};

use crate::each_kind;
use crate::kinds::{Kind, ObjectKind, OfKind, Route};
use crate::observed::Observed;

/// Returns an observed state's hash, 16 hex digits.
///
/// Compare hashes to find out if two plans were made from the same state, on one machine or
/// several, with the same version of this crate. The hash does not guard against forgery. It covers
/// only the observed objects: reading fewer tables gives another hash.
///
/// The order of objects does not matter. The hash omits values that change without a writer: the
/// rest of a finite lifetime, and undeclared neighbours.
pub fn snapshot_hash(observed: &Observed) -> String {
    let mut sum = one("", Kind::DECLARED.map(|kind| observed.complete.contains(kind)));
    each_kind!(K => {
        sum = sum.wrapping_add(all::<K, _>(OfKind::<K>::of_kind(observed)));
    });
    format!("{:016x}", sum.wrapping_add(all::<Route, _>(observed.compact.iter())))
}

/// Sums over objects of one kind. A sum ignores order and counts duplicates.
fn all<K: ObjectKind + Hash, O: Borrow<K>>(objects: impl IntoIterator<Item = O>) -> u64 {
    let hashes =
        objects.into_iter().filter_map(|object| Some(one(K::NAME, object.borrow().lasting()?)));
    hashes.fold(0, u64::wrapping_add)
}

fn one(kind: &str, object: impl Hash) -> u64 {
    let mut hasher = Fnv::new();
    hasher.write(kind.as_bytes());
    object.hash(&mut hasher);
    hasher.finish()
}

/// FNV-1a of 64 bits, with a mixed result so that sums keep its quality. Numbers hash the same on
/// every platform, with any byte order and width of `usize`.
struct Fnv(u64);

impl Fnv {
    fn new() -> Fnv {
        Fnv(0xcbf2_9ce4_8422_2325)
    }
}

impl Hasher for Fnv {
    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = (self.0 ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    }

    fn write_u16(&mut self, n: u16) {
        self.write(&n.to_le_bytes());
    }

    fn write_u32(&mut self, n: u32) {
        self.write(&n.to_le_bytes());
    }

    fn write_u64(&mut self, n: u64) {
        self.write(&n.to_le_bytes());
    }

    fn write_u128(&mut self, n: u128) {
        self.write(&n.to_le_bytes());
    }

    fn write_usize(&mut self, n: usize) {
        self.write_u64(n as u64);
    }

    /// Discriminants of enumerations.
    fn write_isize(&mut self, n: isize) {
        self.write_u64(n as u64);
    }

    /// Applies the finalizer of MurmurHash3.
    fn finish(&self) -> u64 {
        let mut hash = self.0;
        hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        hash ^ hash >> 33
    }
}

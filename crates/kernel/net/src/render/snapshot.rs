//! A name for an observed state: equal states have equal hashes, in whatever order they were read.

use std::borrow::Borrow;
use std::hash::{Hash, Hasher};

use crate::each_kind;
use crate::kinds::{Kind, ObjectKind, OfKind, Route};
use crate::observed::Observed;

/// Returns the hash of an observed state, 16 digits in hex.
///
/// It is good for telling whether the state that one plan was made from is the state that another
/// was made from: on one machine or on several, under one version of this crate. It is no guard
/// against forgery, and it covers what was observed: a look at fewer tables gives another hash.
///
/// It does not depend on the order of the objects, and leaves out what changes without anyone
/// changing it: what remains of a finite lifetime, and undeclared neighbours.
pub fn snapshot_hash(observed: &Observed) -> String {
    let mut sum = one("", Kind::DECLARED.map(|kind| observed.complete.contains(kind)));
    each_kind!(K => {
        sum = sum.wrapping_add(all::<K, _>(OfKind::<K>::of_kind(observed)));
    });
    format!("{:016x}", sum.wrapping_add(all::<Route, _>(observed.compact.iter())))
}

/// The sum over objects of one kind: a sum forgets the order and counts what is there twice.
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

/// FNV-1a of 64 bits, its result mixed so that sums of it are as good as it. Numbers go in alike
/// on every platform, whatever its byte order and the width of `usize`.
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

    /// The finalizer of MurmurHash3.
    fn finish(&self) -> u64 {
        let mut hash = self.0;
        hash = (hash ^ hash >> 33).wrapping_mul(0xff51_afd7_ed55_8ccd);
        hash = (hash ^ hash >> 33).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        hash ^ hash >> 33
    }
}

//! Sorts a million ops by rank, in little time and without a second copy.

use crate::kinds::Action;
use crate::kinds::Object;
use crate::op::Op;
use crate::values::Family;

/// Deletes are scattered from this number on. Fewer cost the kernel little in any order, and their
/// own order is easier to read.
const SCATTERED: usize = 256;
/// The number of rounds over scattered ops, a power of two. The kernel is equally fast with 16 to
/// 256. Readers that follow the same order read ahead better with few.
const ROUNDS: usize = 64;

/// An op's sort key. Ops with equal ranks keep their order.
pub(super) type Rank = u64;

/// An op's rank, its former position, and true if it is to be scattered.
type Place = (Rank, u32, bool);

/// Sorts ops by rank, and scatters runs that the kernel processes faster so. Within a rank,
/// scattered ops come first.
pub(super) fn arrange(ops: &mut [Op], rank: impl Fn(&Op) -> Rank) {
    if !ops.iter().any(is_scattered) && ops.iter().map(&rank).is_sorted() {
        return;
    }
    let mut order: Vec<Place> =
        ops.iter().zip(0..).map(|(op, at)| (rank(op), at, is_scattered(op))).collect();
    let sorted = order.is_sorted_by_key(|(rank, ..)| *rank);
    if !sorted {
        order.sort_by_key(|(rank, ..)| *rank);
    }
    let mut moved = !sorted;
    let mut scratch = Vec::new();
    for run in order.chunk_by_mut(|one, other| one.0 == other.0) {
        let count = run.iter().filter(|(.., scattered)| *scattered).count();
        if count < SCATTERED {
            continue;
        }
        moved = true;
        if count < run.len() {
            run.sort_by_key(|(.., scattered)| !scattered);
        }
        scatter(&mut run[..count], &mut scratch);
    }
    if moved {
        permute(ops, order);
    }
}

/// Returns true if the kernel is faster with such ops scattered. It keeps IPv4 routes in a trie
/// whose nodes grow and shrink (`resize` in net/ipv4/fib_trie.c). If the trie is filled or emptied
/// from one side, each node is resized again and again; if from everywhere, once. A replace resizes
/// no node. IPv6 routes are in a tree without such nodes, where the neighbour of the last route is
/// found fastest.
fn is_scattered(op: &Op) -> bool {
    let route = matches!(&op.object, Object::Route(route) if route.family() == Family::Inet);
    route && op.action != Action::Update
}

/// Reorders a run into rounds. Each round takes items at equal distances, and halves the widest
/// gaps left by earlier rounds.
fn scatter<T: Copy>(run: &mut [T], scratch: &mut Vec<T>) {
    scratch.clear();
    scratch.extend_from_slice(run);
    let starts = (0..ROUNDS).map(|round| round.reverse_bits() >> (ROUNDS.leading_zeros() + 1));
    let places = starts.flat_map(|start| (start..scratch.len()).step_by(ROUNDS));
    for (place, from) in run.iter_mut().zip(places) {
        *place = scratch[from];
    }
}

/// Moves the ops to their ordered positions, following each cycle of positions once.
fn permute(ops: &mut [Op], mut order: Vec<Place>) {
    for start in 0..order.len() {
        let mut at = start;
        loop {
            let from = order[at].1 as usize;
            order[at].1 = at as u32;
            if from == start {
                break;
            }
            ops.swap(at, from);
            at = from;
        }
    }
}

#[cfg(test)]
mod tests;

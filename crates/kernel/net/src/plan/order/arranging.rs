//! Putting ops in the order of their ranks, at a million of them in little time and no second copy.

use crate::kinds::Action;
use crate::kinds::Object;
use crate::op::Op;
use crate::values::Family;

/// From so many on deletes are scattered. Fewer cost the kernel next to nothing in any order, and
/// read better in their own.
const SCATTERED: usize = 256;
/// So many rounds are made over what is scattered, a power of two. The kernel is as quick from 16
/// to 256 of them; the fewer there are, the better reads ahead whoever goes round.
const ROUNDS: usize = 64;

/// Where an op goes, before what has a greater one. Ops of one rank stay as they were.
pub(super) type Rank = u64;

/// An op's rank, where it was, and whether it is to be scattered.
type Place = (Rank, u32, bool);

/// Orders ops by rank, and scatters runs where the kernel is quicker with them so. What is not to
/// be scattered comes after what is then.
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

/// Returns true if the kernel is quicker with ops like this when none comes beside the one before
/// it. IPv4 routes are kept in a trie whose nodes grow and shrink (`resize` in
/// net/ipv4/fib_trie.c): filled or emptied from one side, each does so again and again; from
/// everywhere, once. A replace changes no node, and IPv6 routes are kept in a tree without such
/// nodes: there the next is found sooner than any other.
fn is_scattered(op: &Op) -> bool {
    let route = matches!(&op.object, Object::Route(route) if route.family() == Family::Inet);
    route && op.action != Action::Update
}

/// Reorders a run into rounds over the whole of it: each takes every so many-th, and halves the
/// widest gaps that those before it left.
fn scatter<T: Copy>(run: &mut [T], scratch: &mut Vec<T>) {
    scratch.clear();
    scratch.extend_from_slice(run);
    let starts = (0..ROUNDS).map(|round| round.reverse_bits() >> (ROUNDS.leading_zeros() + 1));
    let places = starts.flat_map(|start| (start..scratch.len()).step_by(ROUNDS));
    for (place, from) in run.iter_mut().zip(places) {
        *place = scratch[from];
    }
}

/// Puts at each place the op that the order says, going round each circle of places once.
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

//! Putting ops in the order of their ranks, at a million of them in little time and no second copy.

use crate::model::Family;
use crate::plan::{Action, Object, Op};

/// From so many on deletes are scattered. Fewer cost the kernel next to nothing in any order, and read better in their own.
const SCATTERED: usize = 256;

/// Where an op goes, before what has a greater one. Ops of one rank stay as they were.
pub(super) type Rank = u64;

/// Orders ops by rank, and scatters runs of deletes where the kernel is quicker with them so.
pub(super) fn arrange(ops: &mut [Op], rank: impl Fn(&Op) -> Rank) {
    let mut order: Vec<(Rank, u32)> = ops.iter().zip(0..).map(|(op, at)| (rank(op), at)).collect();
    let sorted = order.is_sorted_by_key(|(rank, _)| *rank);
    if !sorted {
        order.sort_by_key(|(rank, _)| *rank);
    }
    let mut scattered = false;
    let mut scratch = Vec::new();
    for run in order.chunk_by_mut(|one, other| one.0 == other.0) {
        if run.len() >= SCATTERED && is_scattered(&ops[run[0].1 as usize]) {
            scattered = true;
            scatter(run, &mut scratch);
        }
    }
    if !sorted || scattered {
        permute(ops, order);
    }
}

/// Whether the kernel is quicker with ops like this when none comes beside the one before it. Taking IPv4 routes away one
/// beside the other, it has each node of their trie shrink again and again; taken from everywhere, they leave nodes that
/// are thin and shrink once. Of IPv6 routes, which have a tree without such nodes, it finds the next sooner than any other.
fn is_scattered(op: &Op) -> bool {
    let route = matches!(&op.object, Object::Route(route) if route.family() == Family::Inet);
    route && op.action == Action::Delete
}

/// Reorders a run by steps of about 0.618 of its length, which meet each once and, at any time, leave gaps that are as even
/// as can be.
fn scatter<T: Copy>(run: &mut [T], scratch: &mut Vec<T>) {
    scratch.clear();
    scratch.extend_from_slice(run);
    let len = run.len();
    let step = stride(len);
    let mut from = 0;
    for place in run {
        *place = scratch[from];
        from += step;
        if from >= len {
            from -= len;
        }
    }
}

/// A stride through so many places that is nearest the golden section from above, and has no divisor in common with them.
fn stride(len: usize) -> usize {
    let golden = len.saturating_mul(618) / 1000;
    let strides = golden.max(1)..len;
    strides
        .into_iter()
        .find(|stride| greatest_common_divisor(*stride, len) == 1)
        .unwrap_or(1)
}

fn greatest_common_divisor(one: usize, other: usize) -> usize {
    if other == 0 {
        one
    } else {
        greatest_common_divisor(other, one % other)
    }
}

/// Puts at each place the op that the order says, going round each circle of places once.
fn permute(ops: &mut [Op], mut order: Vec<(Rank, u32)>) {
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
mod tests {
    use super::*;

    #[test]
    fn scattering_loses_nothing_and_leaves_even_gaps() {
        for len in (1..600).chain([1_000, 4_096, 65_536, 99_999]) {
            let mut run: Vec<usize> = (0..len).collect();
            scatter(&mut run, &mut Vec::new());
            let mut sorted = run.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..len), "{len}");
            if len < 256 {
                continue;
            }
            let beside = run.windows(2).filter(|two| two[0].abs_diff(two[1]) < 8);
            assert_eq!(beside.count(), 0, "{len}");
            // Of any stretch of an eighth, the first quarter takes about a quarter.
            for stretch in 0..8 {
                let within = |at: &&usize| **at * 8 / len == stretch;
                let taken = run[..len / 4].iter().filter(within).count();
                let fair = len / 32;
                assert!(
                    taken.abs_diff(fair) <= 2 + fair / 2,
                    "{len}: {taken} of {fair}"
                );
            }
        }
    }
}

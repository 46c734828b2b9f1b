//! Decides when a container's unused memory is freed.
//!
//! A queue that repeatedly fills and drains would spend much of its time on this, so a busy one
//! keeps the memory for a while. A worker frees it before it sleeps.

/// The capacity up to which a container always keeps its memory, in entries.
const SMALL: usize = 64;

/// True if a container uses less than an eighth of its capacity.
pub(crate) fn is_too_large(len: usize, capacity: usize) -> bool {
    capacity > SMALL && len * 8 < capacity
}

/// The use of a container's capacity.
#[derive(Debug, Default)]
pub(crate) struct Capacity {
    /// The number of entries removed since the container became too large.
    removed: usize,
}

impl Capacity {
    /// Notes that an entry was removed. True if the container should shrink: it has been too large
    /// for more removals than its capacity.
    pub(crate) fn is_unused(&mut self, len: usize, capacity: usize) -> bool {
        self.removed = if is_too_large(len, capacity) { self.removed + 1 } else { 0 };
        self.removed > capacity
    }
}

#[cfg(test)]
mod tests {
    use super::Capacity;

    #[test]
    fn what_fills_again_keeps_its_capacity_and_what_stays_small_does_not() {
        let mut capacity = Capacity::default();
        for _ in 0..10 {
            assert!((0..1024).rev().all(|len| !capacity.is_unused(len, 1024)));
        }
        let shrinks_at = (0..2048).position(|_| capacity.is_unused(100, 1024));
        assert!(shrinks_at.is_some_and(|removals| removals > 512), "{shrinks_at:?}");
    }

    #[test]
    fn what_is_small_keeps_its_capacity() {
        let mut capacity = Capacity::default();
        assert!((0..1024).all(|_| !capacity.is_unused(0, 64)));
    }
}

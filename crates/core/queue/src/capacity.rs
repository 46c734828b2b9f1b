//! When memory is freed that a container needs no more.
//!
//! A queue that fills and drains again and again would spend a good part of its time on that, so a
//! busy one keeps the memory for a while. A worker frees it before it sleeps.

/// A container of that capacity may stay as it is.
const SMALL: usize = 64;

/// True if a container uses an eighth of its capacity at most.
pub(crate) fn is_too_large(len: usize, capacity: usize) -> bool {
    capacity > SMALL && len * 8 < capacity
}

/// The use of a container's capacity.
#[derive(Debug, Default)]
pub(crate) struct Capacity {
    /// How many entries were removed since it was too large.
    removed: usize,
}

impl Capacity {
    /// Takes note that an entry was removed. True if the container is to shrink: it has been too
    /// large for as many removals as it has places.
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

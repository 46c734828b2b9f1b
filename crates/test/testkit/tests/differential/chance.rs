//! Random choices for all generators.

/// Returns one of a few values.
pub(crate) fn pick<T: Copy>(rng: &mut fastrand::Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}

/// Returns true once in `n` times, on average.
pub(crate) fn one_in(rng: &mut fastrand::Rng, n: u8) -> bool {
    rng.u8(..n) == 0
}

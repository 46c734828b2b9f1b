//! What every generator draws.

/// One of a few.
pub(crate) fn pick<T: Copy>(rng: &mut fastrand::Rng, from: &[T]) -> T {
    from[rng.usize(..from.len())]
}

/// True once in `n` times.
pub(crate) fn one_in(rng: &mut fastrand::Rng, n: u8) -> bool {
    rng.u8(..n) == 0
}

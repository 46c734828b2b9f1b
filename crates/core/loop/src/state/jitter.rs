//! Random jitter, reproducible from a seed.

use std::time::Duration;

/// A source of jitter. The same seed gives the same sequence.
#[derive(Clone, Debug)]
pub(crate) struct Jitter(fastrand::Rng);

impl Jitter {
    pub(crate) fn with_seed(seed: u64) -> Jitter {
        Jitter(fastrand::Rng::with_seed(seed))
    }

    /// Returns `time`, longer or shorter by up to `percent` of it. With 0 per cent it draws no
    /// random number.
    pub(crate) fn apply(&mut self, time: Duration, percent: u8) -> Duration {
        if percent == 0 {
            return time;
        }
        let reach = time.as_nanos() / 100 * u128::from(percent);
        let nanos = time.as_nanos() - reach + self.0.u128(0..=2 * reach);
        let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
        Duration::new(seconds, (nanos % 1_000_000_000) as u32)
    }
}

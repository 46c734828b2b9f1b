//! Random jitter, reproducible from a seed.

use std::time::Duration;

/// A source of jitter. The same seed gives the same sequence.
#[derive(Clone, Debug)]
pub(super) struct Jitter(fastrand::Rng);

impl Jitter {
    pub(super) fn with_seed(seed: u64) -> Jitter {
        Jitter(fastrand::Rng::with_seed(seed))
    }

    /// Returns `time`, longer or shorter by up to `percent` of it. With 0 per cent it draws no
    /// random number.
    pub(super) fn apply(&mut self, time: Duration, percent: u8) -> Duration {
        if percent == 0 {
            return time;
        }
        let reach = time.as_nanos() / 100 * u128::from(percent);
        let nanos = time.as_nanos() - reach + self.0.u128(0..=2 * reach);
        let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
        Duration::new(seconds, (nanos % 1_000_000_000) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_one_sequence() {
        let sequence = |seed| {
            let mut jitter = Jitter::with_seed(seed);
            [(); 3].map(|()| jitter.apply(Duration::from_secs(5), 10))
        };
        assert_eq!(sequence(1_234_567), sequence(1_234_567));
        assert_ne!(sequence(1_234_567), sequence(7));
    }

    #[test]
    fn times_spread_over_all_of_their_reach_and_no_further() {
        let time = Duration::from_secs(5);
        let mut jitter = Jitter::with_seed(7);
        let spread: Vec<_> = (0..10_000).map(|_| jitter.apply(time, 10)).collect();
        let (least, most) = (spread.iter().min().unwrap(), spread.iter().max().unwrap());
        let (from, to) = (Duration::from_millis(4_500), Duration::from_millis(5_500));
        assert!((from..from + Duration::from_millis(5)).contains(least), "{least:?}");
        assert!((to - Duration::from_millis(5)..=to).contains(most), "{most:?}");
        assert_eq!(jitter.apply(time, 0), time);
        for time in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
            for percent in [1, 100] {
                let spread = jitter.apply(time, percent);
                assert!(spread <= time.saturating_mul(2));
            }
        }
    }
}

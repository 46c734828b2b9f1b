//! Chance for jitter: reproducible from a seed, and good for nothing else.

use std::time::Duration;

/// SplitMix64 (Steele, Lea and Flood, 2014): one word of state, every seed as good as any other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Random(pub(super) u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A time that is longer or shorter by up to so many per cent. Without any no chance is used up.
    pub(super) fn spread(&mut self, time: Duration, percent: u8) -> Duration {
        if percent == 0 {
            return time;
        }
        let reach = time.as_nanos() / 100 * u128::from(percent);
        // At most 100 % of a time in 96 bits: twice that, times 32 bits of chance, does not fit; so the other way round.
        let steps = u128::from(self.next() >> 32);
        let add = (2 * reach / u128::from(u32::MAX)).saturating_mul(steps)
            + (2 * reach % u128::from(u32::MAX)) * steps / u128::from(u32::MAX);
        let nanos = (time.as_nanos() - reach).saturating_add(add);
        let seconds = u64::try_from(nanos / 1_000_000_000).unwrap_or(u64::MAX);
        Duration::new(seconds, (nanos % 1_000_000_000) as u32)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_published_generator() {
        // The first numbers of the reference implementation for the seed 1234567.
        let mut random = Random(1_234_567);
        let first = [random.next(), random.next(), random.next()];
        assert_eq!(
            first,
            [
                6_457_827_717_110_365_317,
                3_203_168_211_198_807_973,
                9_817_491_932_198_370_423
            ]
        );
    }

    #[test]
    fn times_spread_over_all_of_their_reach_and_no_further() {
        let time = Duration::from_secs(5);
        let mut random = Random(7);
        let spread: Vec<_> = (0..10_000).map(|_| random.spread(time, 10)).collect();
        let (least, most) = (spread.iter().min().unwrap(), spread.iter().max().unwrap());
        let (from, to) = (Duration::from_millis(4_500), Duration::from_millis(5_500));
        assert!(
            (from..from + Duration::from_millis(5)).contains(least),
            "{least:?}"
        );
        assert!(
            (to - Duration::from_millis(5)..=to).contains(most),
            "{most:?}"
        );
        assert_eq!(random.spread(time, 0), time);
        for time in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
            for percent in [1, 100] {
                let spread = random.spread(time, percent);
                assert!(spread <= time.saturating_mul(2));
            }
        }
    }
}

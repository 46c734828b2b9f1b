//! Jitter.

use std::time::Duration;

use crate::state::schedule::Jitter;

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

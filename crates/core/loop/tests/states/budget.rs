//! The budget of ops.

use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crate::state::budget::{Bucket, Budget, StateBudget};
use crate::sync::Mutex;

fn bucket(limit: u32, burst: u32) -> Bucket {
    let [limit, burst] = [limit, burst].map(|it| NonZeroU32::new(it).unwrap());
    Bucket::new(limit, burst)
}

#[test]
fn a_burst_at_first_then_the_limit() {
    let (mut bucket, now) = (bucket(10, 4), Instant::now());
    assert_eq!(bucket.available(now), 4);
    bucket.spend(now, 4);
    assert_eq!(bucket.available(now), 0);
    assert_eq!(bucket.available(now + Duration::from_millis(99)), 0);
    assert_eq!(bucket.available(now + Duration::from_millis(100)), 1);
    assert_eq!(bucket.available(now + Duration::from_secs(3600)), 4);
}

#[test]
fn going_on_waits_for_what_is_left_or_a_seconds_worth_or_the_burst() {
    let now = Instant::now();
    let at = |limit, burst, left| {
        let mut bucket = bucket(limit, burst);
        bucket.spend(now, burst.into());
        let then = bucket.refilled(now, left).unwrap();
        assert!(bucket.available(then) >= 1, "enough for progress");
        then - now
    };
    assert_eq!(at(10, 100, 5), Duration::from_millis(500));
    assert_eq!(at(10, 100, 1_000), Duration::from_secs(1));
    assert_eq!(at(10, 2, 1_000), Duration::from_millis(200));
    assert_eq!(at(1, 100, 0), Duration::from_secs(1));
    assert_eq!(at(3, 1, 1), Duration::from_nanos(333_333_334));
}

#[test]
fn clones_of_a_budget_are_the_same_and_a_copy_of_a_bucket_is_apart() {
    let (own, now) = (bucket(1, 5), Instant::now());
    let shared = Budget(Arc::new(Mutex::new(own.clone())));
    for (mut first, left) in [(StateBudget::Own(own), 5), (StateBudget::Shared(shared), 1)] {
        let mut second = first.clone();
        first.with(|it| it.spend(now, 4));
        assert_eq!(first.with(|it| it.available(now)), 1);
        assert_eq!(second.with(|it| it.available(now)), left);
    }
}

#[test]
fn debt_is_bounded() {
    let (mut bucket, now) = (bucket(1, 5), Instant::now());
    bucket.spend(now, u64::MAX);
    assert_eq!(bucket.refilled(now, 1), Some(now + Duration::from_secs(6)));
}

//! What is resident while the clock runs: in a process of its own, as what other tests hold and
//! free would be in it.

use trueup_works::clock::timed;

#[test]
fn what_was_freed_before_the_clock_started_is_not_in_the_peak() {
    const MIB: usize = 1 << 20;
    let large = vec![1_u8; 64 * MIB];
    assert!(large.iter().all(|byte| *byte == 1));
    drop(large);
    let ((), took) = timed(|| Ok(())).unwrap();
    let (held, more) = timed(|| Ok(vec![1_u8; 64 * MIB])).unwrap();
    assert_eq!(held.len(), 64 * MIB);
    assert!(more.peak_rss_kb > took.peak_rss_kb + 60 * 1024, "{took:?} {more:?}");
}

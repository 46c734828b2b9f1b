//! Checks the peak of resident memory while the clock runs. It is a separate process, as other
//! tests' memory would count.

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

use super::*;

#[test]
fn what_another_writer_may_have_undone_is_tried_again_after_growing_delays() {
    let now = Instant::now();
    assert!(Held::Not.is_over(now));
    let mut held = Held::Not;
    for minutes in [1, 2, 4, 8, 16, 32, 60, 60] {
        held = held.longer(now);
        let end = now + Duration::from_secs(minutes * 60);
        assert!(held.is_over(end), "{minutes}");
        assert!(!held.is_over(end - Duration::from_secs(1)), "{minutes}");
    }
    assert!(!Held::UntilChanged.longer(now).is_over(now + LAST_DELAY * 9));
}

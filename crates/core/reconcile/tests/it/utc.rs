//! Formatting of times.

use std::time::{Duration, UNIX_EPOCH};

use trueup_reconcile::utc;

#[test]
fn a_time_is_that_of_the_calendar() {
    for (seconds, expected) in [
        (0, "1970-01-01 00:00:00 UTC"),
        (951_782_399, "2000-02-28 23:59:59 UTC"),
        (951_782_400, "2000-02-29 00:00:00 UTC"),
        (1_709_164_800, "2024-02-29 00:00:00 UTC"),
        (1_735_689_599, "2024-12-31 23:59:59 UTC"),
        (4_107_542_400, "2100-03-01 00:00:00 UTC"),
    ] {
        let time = UNIX_EPOCH + Duration::from_secs(seconds);
        assert_eq!(utc(time), expected, "{seconds}");
    }
}

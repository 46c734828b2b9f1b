//! Words that several messages have.

use std::error::Error;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns an error with its causes. Many errors name their cause themselves; it is not repeated.
pub fn with_causes(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let said = cause.to_string();
        // As the netlink errors write those of the operating system.
        let bare = said.split(" (os error").next().unwrap_or_default();
        if !text.ends_with(&said) && !text.ends_with(bare) {
            text = format!("{text}: {said}");
        }
        next = cause.source();
    }
    text
}

/// Returns a number with its noun.
pub fn count(number: usize, one: &str, many: &str) -> String {
    format!("{number} {}", if number == 1 { one } else { many })
}

/// Returns the seconds since 1970, to the millisecond.
pub fn seconds(time: SystemTime) -> f64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    (since.as_secs_f64() * 1e3).round() / 1e3
}

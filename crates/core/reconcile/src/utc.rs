//! Formatting of times.

use std::time::{SystemTime, UNIX_EPOCH};

/// Formats a time in UTC with a precision of seconds: `2026-11-26 00:45:00 UTC`.
///
/// ```
/// use std::time::{Duration, SystemTime};
///
/// let time = SystemTime::UNIX_EPOCH + Duration::from_secs(86_400);
/// assert_eq!(trueup_reconcile::utc(time), "1970-01-02 00:00:00 UTC");
/// ```
pub fn utc(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH);
    let seconds = since.unwrap_or_default().as_secs();
    let (days, of_day) = (seconds / 86_400, seconds % 86_400);
    // Days since 0000-03-01, in eras of 400 years that end with a leap day.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let (month, next) = if month < 10 { (month + 3, 0) } else { (month - 9, 1) };
    let year = era * 400 + year + next;
    let (hour, minute, second) = (of_day / 3_600, of_day / 60 % 60, of_day % 60);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02} UTC")
}

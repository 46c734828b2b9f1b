//! Retention: which records of ended operations and of their keys stay.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// The records to keep of ended operations or of their keys. There is no default: a forgotten key
/// can be executed again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Keep {
    /// Those that ended no longer ago than `than`, at the time `now`. Those that ended after `now`
    /// are kept too: clocks are set back.
    Younger {
        /// The greatest age, in whole milliseconds.
        than: Duration,
        /// The present time.
        now: SystemTime,
    },
    /// This many, the latest in the order in which they ended.
    Latest(u64),
}

/// A record that may be forgotten.
pub(crate) struct Ended {
    /// The number of its end.
    pub(crate) number: u64,
    /// The time of its end.
    pub(crate) at: SystemTime,
    /// The name of the operation, or the key.
    pub(crate) name: Vec<u8>,
}

impl Keep {
    /// Returns the records that are not kept.
    pub(crate) fn surplus(self, mut ended: Vec<Ended>) -> Vec<Ended> {
        match self {
            Keep::Latest(count) => {
                ended.sort_unstable_by_key(|record| record.number);
                let count = usize::try_from(count).unwrap_or(usize::MAX);
                ended.truncate(ended.len().saturating_sub(count));
            }
            Keep::Younger { than, now } => ended.retain(|record| {
                let age = millis(now).saturating_sub(millis(record.at));
                u128::from(age) > than.as_millis()
            }),
        }
        ended
    }
}

/// Returns the milliseconds since 1970, UTC; 0 for a time before.
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Returns the time that is `millis` milliseconds after 1970, UTC.
pub(crate) fn time(millis: u64) -> SystemTime {
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(millis));
    at.unwrap_or(UNIX_EPOCH)
}

//! How much of what is over is kept: the caller's choice, and nothing goes without it.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Error;
use crate::record::{Fields, Space, Tx};

/// What to keep of what is over. There is no default: what is forgotten may happen again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// What ended no longer ago than this, at the time `now`. What ended after `now` is kept: clocks are set back.
    Younger {
        /// Than this. In milliseconds; what is finer is cut off.
        than: Duration,
        /// The present time.
        now: SystemTime,
    },
    /// The latest ones, so many, in the order in which they ended.
    Latest(u64),
}

impl Keep {
    /// Removes from an index of what is over the entries that are not kept, and returns their names.
    pub(crate) fn forget(self, tx: &mut Tx<'_>, index: Space) -> Result<Vec<Vec<u8>>, Error> {
        let prefix = index.key(&[]);
        let surplus = match self {
            Keep::Latest(count) => {
                let all = tx.scan(&prefix)?.count() as u64;
                all.saturating_sub(count)
            }
            Keep::Younger { .. } => u64::MAX,
        };
        let mut going = Vec::new();
        for (_, entry) in (0..surplus).zip(tx.scan(&prefix)?) {
            let (number, value) = entry?;
            let mut fields = Fields(&value);
            let at = fields.u64()?;
            let old = match self {
                Keep::Latest(_) => true,
                Keep::Younger { than, now } => {
                    u128::from(millis(now).saturating_sub(at)) > than.as_millis()
                }
            };
            if old {
                going.push((number, fields.bytes()?.to_vec()));
            }
        }
        let mut names = Vec::with_capacity(going.len());
        for (number, name) in going {
            tx.remove(&index.key(&number))?;
            names.push(name);
        }
        Ok(names)
    }
}

/// Milliseconds since 1970, UTC; 0 for what was before.
pub(crate) fn millis(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// The time so many milliseconds after 1970, UTC.
pub(crate) fn time(millis: u64) -> SystemTime {
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(millis));
    at.unwrap_or(UNIX_EPOCH)
}

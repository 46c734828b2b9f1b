//! Retention: which records of ended operations and of their keys stay.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::Error;
use crate::record::{Decoder, Keyspace, Transaction};

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

impl Keep {
    /// Removes the entries that are not kept from an index, and returns their names.
    pub(crate) fn prune(
        self,
        transaction: &mut Transaction<'_>,
        index: Keyspace,
    ) -> Result<Vec<Vec<u8>>, Error> {
        let prefix = index.key(&[]);
        let surplus = match self {
            Keep::Latest(count) => {
                let all = transaction.scan(&prefix)?.count() as u64;
                all.saturating_sub(count)
            }
            Keep::Younger { .. } => u64::MAX,
        };
        let mut expired = Vec::new();
        for (_, entry) in (0..surplus).zip(transaction.scan(&prefix)?) {
            let (number, value) = entry?;
            // One that cannot be read stays.
            let Ok((at, name)) = parse(&value) else {
                continue;
            };
            let is_expired = match self {
                Keep::Latest(_) => true,
                Keep::Younger { than, now } => {
                    u128::from(millis(now).saturating_sub(at)) > than.as_millis()
                }
            };
            if is_expired {
                expired.push((number, name));
            }
        }
        let mut names = Vec::with_capacity(expired.len());
        for (number, name) in expired {
            transaction.remove(&index.key(&number))?;
            names.push(name);
        }
        Ok(names)
    }
}

/// Parses an entry of an index: the time of the end, and a name.
pub(crate) fn parse(value: &[u8]) -> Result<(u64, Vec<u8>), Error> {
    let mut fields = Decoder(value);
    let at = fields.u64()?;
    let name = fields.bytes()?.to_vec();
    fields.end()?;
    Ok((at, name))
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

//! Grants: an operator's signed list of the prefixes that each host may export.

mod check;
mod error;
mod follower;
mod signed;
mod store;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};
use trueup_net::Prefix;

pub use check::GrantsCheck;
pub use error::GrantsError;
pub use follower::GrantsFollower;
pub use signed::grants_public_key;

/// The prefixes that each host may export, with a time of validity.
///
/// The list has a serial number. After a reader has seen a list, it refuses lists with lower
/// numbers, so that an old list cannot be put back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grants {
    serial: u64,
    /// The begin of validity, in seconds since 1970.
    begins: u64,
    ends: u64,
    prefixes: BTreeMap<String, BTreeSet<Prefix>>,
}

/// The last second of the year 9999.
const LAST: u64 = 253_402_300_799;

/// The list as JSON. An operator's file has no times, which are added with the signature.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    serial: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    begins: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ends: Option<u64>,
    grants: Vec<Entry>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    host: String,
    prefixes: Vec<String>,
}

impl Grants {
    /// The longest list, in bytes.
    pub const MAX_BYTES: usize = 1 << 20;

    /// The longest time of validity: ten years.
    pub const MAX_LIFETIME: Duration = Duration::from_secs(3_653 * 86_400);

    /// Makes a list without grants. It is valid from `begins` on, for `lifetime`. Both count in
    /// whole seconds.
    ///
    /// # Errors
    ///
    /// [`Malformed`](GrantsError::Malformed) if the serial number is 0, or the lifetime is shorter
    /// than a second or longer than [`MAX_LIFETIME`](Self::MAX_LIFETIME).
    pub fn new(serial: u64, begins: SystemTime, lifetime: Duration) -> Result<Grants, GrantsError> {
        let begins = seconds(begins);
        Grants {
            serial,
            begins,
            ends: begins.saturating_add(lifetime.as_secs()),
            prefixes: BTreeMap::new(),
        }
        .checked()
    }

    /// Grants a prefix, and all parts of it, to a host.
    #[must_use]
    pub fn with_grant(mut self, host: impl Into<String>, prefix: Prefix) -> Grants {
        let prefixes = self.prefixes.entry(host.into()).or_default();
        prefixes.insert(prefix);
        self
    }

    /// Reads an operator's file: a JSON object of `serial` and `grants`, which has an object of
    /// `host` and `prefixes` for each host.
    ///
    /// # Errors
    ///
    /// [`Malformed`](GrantsError::Malformed), and the errors of [`new`](Self::new).
    pub fn read_list(
        text: &[u8],
        begins: SystemTime,
        lifetime: Duration,
    ) -> Result<Grants, GrantsError> {
        let record = Record::read(text)?;
        if record.begins.is_some() || record.ends.is_some() {
            return Err(malformed(
                "the list to sign has no `begins` and `ends`: leave them out, as the signature \
                 adds them",
            ));
        }
        let grants = Grants::new(record.serial, begins, lifetime)?;
        let prefixes = record.prefixes()?;
        Ok(Grants { prefixes, ..grants })
    }

    /// Reads the signed text.
    fn parse(text: &[u8]) -> Result<Grants, GrantsError> {
        let record = Record::read(text)?;
        let (Some(begins), Some(ends)) = (record.begins, record.ends) else {
            return Err(malformed("a signed list has `begins` and `ends`"));
        };
        Grants { serial: record.serial, begins, ends, prefixes: record.prefixes()? }.checked()
    }

    /// Returns the text to sign.
    fn to_text(&self) -> Result<String, GrantsError> {
        let grants = self.prefixes.iter().map(|(host, prefixes)| Entry {
            host: host.clone(),
            prefixes: prefixes.iter().map(ToString::to_string).collect(),
        });
        let record = Record {
            serial: self.serial,
            begins: Some(self.begins),
            ends: Some(self.ends),
            grants: grants.collect(),
        };
        serde_json::to_string(&record).map_err(malformed)
    }

    fn checked(self) -> Result<Grants, GrantsError> {
        let lifetime = Duration::from_secs(self.ends.saturating_sub(self.begins));
        if self.serial == 0 {
            return Err(malformed(
                "the serial number is 0: give one from 1 on, which rises with each list",
            ));
        }
        if self.ends > LAST {
            return Err(malformed("it is valid until after the year 9999: give an earlier time"));
        }
        if lifetime.is_zero() || lifetime > Grants::MAX_LIFETIME {
            return Err(malformed(format!(
                "it is valid for {} s: give a list 1 s to {} days",
                lifetime.as_secs(),
                Grants::MAX_LIFETIME.as_secs() / 86_400
            )));
        }
        Ok(self)
    }

    /// Returns the serial number, at least 1.
    pub fn serial(&self) -> u64 {
        self.serial
    }

    /// Returns the first second of validity.
    pub fn begins(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(self.begins)
    }

    /// Returns the time from which the list is no longer valid.
    pub fn ends(&self) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(self.ends)
    }

    /// Returns the prefixes that each host may export, by the host's name.
    pub fn prefixes(&self) -> &BTreeMap<String, BTreeSet<Prefix>> {
        &self.prefixes
    }

    /// Returns true if a host may export a route to this destination, because one of its prefixes
    /// covers it.
    pub fn allows(&self, host: &str, dst: Prefix) -> bool {
        let mut granted = self.prefixes.get(host).into_iter().flatten();
        granted.any(|granted| granted.covers(dst))
    }

    /// Checks that the list is valid at a time.
    ///
    /// # Errors
    ///
    /// [`Early`](GrantsError::Early) or [`Expired`](GrantsError::Expired).
    pub fn check_time(&self, now: SystemTime) -> Result<(), GrantsError> {
        let (serial, now) = (self.serial, seconds(now));
        if now < self.begins {
            Err(GrantsError::Early { serial, begins: self.begins() })
        } else if now >= self.ends {
            Err(GrantsError::Expired { serial, ended: self.ends() })
        } else {
            Ok(())
        }
    }
}

impl Record {
    fn read(text: &[u8]) -> Result<Record, GrantsError> {
        if text.len() > Grants::MAX_BYTES {
            return Err(malformed(format!("it is longer than {} bytes", Grants::MAX_BYTES)));
        }
        serde_json::from_slice(text).map_err(malformed)
    }

    fn prefixes(&self) -> Result<BTreeMap<String, BTreeSet<Prefix>>, GrantsError> {
        let mut all = BTreeMap::<String, BTreeSet<Prefix>>::new();
        for Entry { host, prefixes } in &self.grants {
            // There are no wildcards: each host is named.
            if host.is_empty() || ["any", "*"].contains(&&**host) {
                let message = format!("{host:?} is no name of a host: name each host");
                return Err(malformed(message));
            }
            let of_host = all.entry(host.clone()).or_default();
            for text in prefixes {
                let prefix = text.parse().map_err(|error| {
                    malformed(format!("the prefix {text:?} of host {host:?}: {error}"))
                })?;
                of_host.insert(prefix);
            }
        }
        Ok(all)
    }
}

fn malformed(why: impl ToString) -> GrantsError {
    GrantsError::Malformed(why.to_string())
}

fn seconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}

//! The reasons to refuse a list of grants.

use std::fmt;
use std::time::SystemTime;

use trueup_reconcile::utc;

use crate::Error;

/// The reason to refuse a list of grants. Until a list is accepted, the rights of hosts are
/// unknown. Take nothing from any host, and withdraw nothing.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum GrantsError {
    /// The store was not read yet.
    Unread,
    /// The store has no list.
    Missing,
    /// It is not a list, or has values that are not allowed. The text says which.
    Malformed(String),
    /// It is not signed with the operator's key, or was changed after that.
    Forged,
    /// It is older than a list that was seen before.
    RolledBack {
        /// The list's serial number.
        serial: u64,
        /// The serial number of the newest list seen.
        seen: u64,
    },
    /// A different list with the same serial number was seen before.
    Reused {
        /// The serial number of both lists.
        serial: u64,
    },
    /// The list is not valid yet.
    Early {
        /// The list's serial number.
        serial: u64,
        /// The first second of validity.
        begins: SystemTime,
    },
    /// The list is no longer valid.
    Expired {
        /// The list's serial number.
        serial: u64,
        /// The end of its validity.
        ended: SystemTime,
    },
    /// The record that it was seen could not be written. An older list could be put back later.
    Unrecorded(Error),
    /// The store cannot be read.
    Store(Error),
}

impl fmt::Display for GrantsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GrantsError::Unread => f.write_str("the operator's grants are not read yet"),
            GrantsError::Missing => f.write_str(
                "the store has no grants: sign a list, and put it there with `trueup world grants \
                 put`",
            ),
            GrantsError::Malformed(why) => write!(f, "the list of grants is malformed: {why}"),
            GrantsError::Forged => f.write_str(
                "the list of grants is not signed with the operator's key (`grants_key`), or was \
                 changed after that: put the signed one there again, and look for who wrote it",
            ),
            GrantsError::RolledBack { serial, seen } => write!(
                f,
                "the list of grants has the serial number {serial}, and one with {seen} was seen: \
                 an older list was put back. Sign one with a higher number"
            ),
            GrantsError::Reused { serial } => write!(
                f,
                "another list of grants with the serial number {serial} was seen: sign each list \
                 with a number of its own"
            ),
            GrantsError::Early { serial, begins } => write!(
                f,
                "the list of grants {serial} is valid from {} on: is the clock right?",
                utc(*begins)
            ),
            GrantsError::Expired { serial, ended } => write!(
                f,
                "the list of grants {serial} was valid until {}: sign a new one",
                utc(*ended)
            ),
            GrantsError::Unrecorded(error) => {
                write!(f, "it cannot be recorded which grants were seen: {error}")
            }
            GrantsError::Store(error) => write!(f, "the grants cannot be read: {error}"),
        }
    }
}

impl std::error::Error for GrantsError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            GrantsError::Unrecorded(error) | GrantsError::Store(error) => Some(error),
            _ => None,
        }
    }
}

//! Takes a host's name, with a new lease or with the lease of the owner's earlier session.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::ATTEMPTS;
use crate::world::{fence, write};
use crate::{Entry, Error, ErrorKind, LeaseId, World};

/// The value of a session's key.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Mark {
    pub(crate) owner: String,
    /// A number that is unique to the session.
    session: String,
}

/// Writes the session's key, with a new lease or with the lease of the owner's earlier session. If
/// the session has lost its key, `own` is its value, and only that value is taken over.
pub(super) fn acquire(
    world: &World,
    owner: &str,
    ttl: Duration,
    own: Option<&[u8]>,
) -> Result<(LeaseId, Vec<u8>), Error> {
    let key = world.keys.of_host(world.host(), "session");
    let session = format!("{:032x}", fastrand::u128(..));
    let mark = Mark { owner: owner.to_owned(), session };
    let value = serde_json::to_vec(&mark)
        .map_err(|error| Error::new(ErrorKind::Invalid, error.to_string()))?;
    for _ in 0..ATTEMPTS {
        let entry = world.entry(&key)?;
        let lease = match &entry {
            Some(entry) if entry.value == value => return Ok((lease_of(entry)?, value)),
            Some(entry) => {
                let is_own = own.is_none_or(|own| entry.value == own);
                if !is_own || Mark::parse(entry).is_none_or(|it| it.owner != mark.owner) {
                    return Err(taken(world, entry));
                }
                let lease = lease_of(entry)?;
                match world.store.renew(lease) {
                    Ok(_) => lease,
                    Err(error) if error.kind() == ErrorKind::LeaseEnded => continue,
                    Err(error) => return Err(error),
                }
            }
            None => world.store.grant(ttl)?,
        };
        let mark = write(&key, Some(value.clone()), Some(lease));
        match world.store.commit(&[fence(&key, entry.as_ref())], &[mark]) {
            Ok(Some(_)) => return Ok((lease, value)),
            Ok(None) => {}
            // The next round reads the result.
            Err(error) if matches!(error.kind(), ErrorKind::Indeterminate) => continue,
            Err(error) if matches!(error.kind(), ErrorKind::LeaseEnded) => continue,
            Err(error) => return Err(error),
        }
        if entry.is_none() {
            world.store.revoke(lease)?;
        }
    }
    let message = format!("host {}: its session changes all the time; try again", world.host());
    Err(Error::new(ErrorKind::Conflict, message))
}

impl Mark {
    pub(crate) fn parse(entry: &Entry) -> Option<Mark> {
        serde_json::from_slice(&entry.value).ok()
    }
}

fn lease_of(entry: &Entry) -> Result<LeaseId, Error> {
    entry.lease.ok_or_else(|| {
        let message = format!("{}: a session without a lease; delete it", entry.key.escape_ascii());
        Error::new(ErrorKind::Malformed, message)
    })
}

fn taken(world: &World, entry: &Entry) -> Error {
    let owner = Mark::parse(entry).map_or("an unreadable value".into(), |it| it.owner);
    let host = world.host();
    let message = format!(
        "host {host}: {owner} has its session, until its lease ends; give each machine a name of \
         its own"
    );
    Error::new(ErrorKind::Conflict, message)
}

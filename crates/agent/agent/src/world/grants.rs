//! The operator's grants, for a file with `grants_key`. The ledger records which list was seen
//! last.

use std::sync::Arc;
use std::time::SystemTime;

use crate::error::{Context as _, Result};
use trueup_file as file;
use trueup_reconcile::{Claim, Hints, Ledger};
use trueup_world::{Error, ErrorKind, Grants, GrantsCheck, GrantsFollower, WatchConfig, World};

use crate::state::{LedgerOf, State, StateFile};

/// Returns a verifier of the operator's lists, or `None` if the file has no key.
///
/// # Errors
///
/// Fails if `grants_key` is not a key.
pub fn grants_check(named: &file::World) -> Result<Option<GrantsCheck>> {
    let check = named.grants_key.as_ref().map(GrantsCheck::new);
    check.transpose().context("grants_key in [world]")
}

/// Reads the valid grants, or returns `None` if the file has no key.
///
/// # Errors
///
/// Fails if no grants are valid. It is then unknown what hosts may export.
pub fn read_grants(
    world: &World,
    named: &file::World,
    state: &StateFile,
    record: impl FnOnce(&str) -> Result<(), Error>,
) -> Result<Option<Arc<Grants>>> {
    let Some(mut check) = check_of(named, &state.read_ledger(LedgerOf::World)?)? else {
        return Ok(None);
    };
    let grants = world.grants(&mut check, SystemTime::now(), record);
    Ok(Some(Arc::new(grants?)))
}

/// Follows the grants. Returns `None` if the file has no key. Fails if the list that was seen last
/// cannot be read, or if the operating system refuses a thread.
pub(crate) fn follow_grants(
    world: &World,
    named: &file::World,
    state: &State,
    hints: Hints,
) -> Result<Option<Arc<GrantsFollower>>> {
    let Some(check) = check_of(named, &state.ledger(LedgerOf::World))? else {
        return Ok(None);
    };
    let record = recorder(state, named);
    let follower = GrantsFollower::start(world, check, record, WatchConfig::default(), hints)?;
    Ok(Some(Arc::new(follower)))
}

/// Returns a callback that records in the ledger which list was seen.
pub(crate) fn recorder(
    state: &State,
    named: &file::World,
) -> impl FnMut(&str) -> Result<(), Error> + Send + 'static {
    let mut ledger = state.ledger(LedgerOf::World);
    let key = named.grants_key.unwrap_or_default();
    move |seen| {
        let claim = Claim::Ours(seen.as_bytes().to_vec());
        let recorded = ledger.commit_outcomes([(entry(&key), claim)].into());
        recorded.map_err(|error| Error::new(ErrorKind::Store, error.to_string()).with_source(error))
    }
}

/// Returns a verifier of the operator's lists, which knows the list that was seen last.
fn check_of(named: &file::World, ledger: &impl Ledger) -> Result<Option<GrantsCheck>> {
    let (Some(check), Some(key)) = (grants_check(named)?, &named.grants_key) else {
        return Ok(None);
    };
    let Some(seen) = ledger.owned()?.remove(&entry(key)) else {
        return Ok(Some(check));
    };
    check
        .with_seen(&String::from_utf8_lossy(&seen))
        .map(Some)
        .context("the ledger does not say which grants were seen last")
}

/// The record's key in the ledger.
fn entry(key: &[u8; 32]) -> Vec<u8> {
    [b"grants ", &key[..]].concat()
}

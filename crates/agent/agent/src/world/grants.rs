//! The operator's grants, of a file with `grants_key`. The ledger says which list was seen last.

use std::sync::Arc;
use std::time::SystemTime;

use crate::error::{Context as _, Result, bail};
use trueup_file as file;
use trueup_reconcile::{Claim, Hints, Ledger};
use trueup_world::{
    Error, ErrorKind, Grants, GrantsCheck, GrantsFollower, GrantsKey, SeenGrants, WatchConfig,
    World,
};

use crate::state::{LedgerOf, State, StateFile};

/// Returns the operator's key, if the file has one.
///
/// # Errors
///
/// When it is none.
pub fn grants_key(named: &file::World) -> Result<Option<GrantsKey>> {
    let key = named.grants_key.as_ref().map(GrantsKey::new);
    key.transpose().context("grants_key in [world]")
}

/// Reads the grants that count now; none if the file has no key.
///
/// # Errors
///
/// When there are none that count: then it is not known what hosts may export.
pub fn read_grants(
    world: &World,
    named: &file::World,
    state: &StateFile,
    record: impl FnOnce(&SeenGrants) -> Result<(), Error>,
) -> Result<Option<Arc<Grants>>> {
    let Some(key) = grants_key(named)? else {
        return Ok(None);
    };
    let seen = seen(&state.read_ledger(LedgerOf::World)?, &key)?;
    let mut check = GrantsCheck::new(key, seen);
    let grants = world.grants(&mut check, SystemTime::now(), record);
    Ok(Some(Arc::new(grants?)))
}

/// Follows the grants; none if the file has no key.
///
/// # Errors
///
/// When it cannot be read which list was seen last, or the operating system refuses a thread.
pub(crate) fn follow_grants(
    world: &World,
    named: &file::World,
    state: &State,
    hints: Hints,
) -> Result<Option<Arc<GrantsFollower>>> {
    let Some(key) = grants_key(named)? else {
        return Ok(None);
    };
    let seen = seen(&state.ledger(LedgerOf::World), &key)?;
    let record = recorder(state, named);
    let check = GrantsCheck::new(key, seen);
    let follower = GrantsFollower::start(world, check, record, WatchConfig::default(), hints)?;
    Ok(Some(Arc::new(follower)))
}

/// Returns what records in the ledger that a list was seen.
pub(crate) fn recorder(
    state: &State,
    named: &file::World,
) -> impl FnMut(&SeenGrants) -> Result<(), Error> + Send + 'static {
    let mut ledger = state.ledger(LedgerOf::World);
    let key = named.grants_key.unwrap_or_default();
    move |seen| {
        let claim = Claim::Ours(seen.to_text().into_bytes());
        let recorded = ledger.commit_outcomes([(entry(&key), claim)].into());
        recorded.map_err(|error| Error::new(ErrorKind::Store, error.to_string()).with_source(error))
    }
}

/// Returns the list that was seen last.
fn seen(ledger: &impl Ledger, key: &GrantsKey) -> Result<Option<SeenGrants>> {
    let mut owned = ledger.owned()?;
    let Some(value) = owned.remove(&entry(key.as_bytes())) else {
        return Ok(None);
    };
    let text = str::from_utf8(&value).ok();
    match text.and_then(SeenGrants::from_text) {
        Some(seen) => Ok(Some(seen)),
        None => bail!("the ledger does not say which grants were seen last"),
    }
}

/// The key of the record in the ledger.
fn entry(key: &[u8; 32]) -> Vec<u8> {
    [b"grants ", &key[..]].concat()
}

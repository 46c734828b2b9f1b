//! `trueup plan`: what a pass would do. Needs no privilege and writes nothing.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use trueup::reconcile::{Ledger, MemoryLedger};

use super::{Declared, Target};
use crate::host::{Host, Options};
use crate::state::{self, LedgerOf};
use crate::{Common, output};

/// Changes are pending.
const PENDING: u8 = 2;

pub(crate) fn plan(common: &Common, file: &Path) -> Result<ExitCode> {
    let declared = Declared::read(file, Duration::ZERO)?;
    let target = Target::open(common)?;
    let state = find_state_file(&target, common, &declared.options)?;
    let (desired, _) = declared.collect(&target, common)?;
    let planned = Host::new(ledger(state.as_ref(), LedgerOf::Settings)?)
        .plan(
            &target.namespace,
            &desired,
            &*ledger(state.as_ref(), LedgerOf::Network)?,
            &declared.options,
        )
        .map_err(|error| declared.explain(error))?;
    output::plan(common.format, &planned)?;
    for doubt in &planned.network.doubts {
        output::note(doubt);
    }
    if planned.is_converged() {
        return Ok(ExitCode::SUCCESS);
    }
    if planned.is_empty() {
        bail!("cannot tell whether there is anything to do");
    }
    Ok(ExitCode::from(PENDING))
}

/// Returns the journal, for commands that only read. Where no directory is usable the ledger is
/// empty, and a note says so.
///
/// # Errors
///
/// When that is not known.
pub(super) fn find_state_file(
    target: &Target,
    common: &Common,
    options: &Options,
) -> Result<Option<state::StateFile>> {
    let found = target.state(common, options)?;
    if found.is_none() {
        let none = state::NO_STATE_DIRECTORY;
        output::note(format_args!(
            "{none}. The output is that of an empty ledger"
        ));
    }
    Ok(found)
}

/// Returns a ledger to read.
pub(super) fn ledger(
    state: Option<&state::StateFile>,
    of: LedgerOf,
) -> Result<Box<dyn Ledger + Send>> {
    Ok(match state {
        Some(state) => Box::new(state.read_ledger(of)?),
        None => Box::new(MemoryLedger::default()),
    })
}

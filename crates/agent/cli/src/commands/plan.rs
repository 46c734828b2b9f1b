//! `trueup plan`: the changes that a pass would make. Needs no privilege and writes nothing.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};

use super::{agent, note_cautions};
use crate::{Common, output};

/// The exit code if changes are pending.
pub(super) const PENDING: u8 = 2;

pub(crate) fn plan(common: &Common, file: &Path) -> Result<ExitCode> {
    let agent = agent(common)?;
    let declared = agent.read(file, common.writers())?;
    note_cautions(&declared);
    let plan = agent.plan(&declared)?;
    output::plan(common.format, &plan)?;
    let missing = declared.all_missing(&plan.network.devices, agent.namespace());
    missing.iter().for_each(output::note);
    plan.observed.incomplete.iter().for_each(output::note);
    if plan.is_converged() {
        return Ok(ExitCode::SUCCESS);
    }
    if plan.is_empty() {
        bail!("cannot tell whether there is anything to do");
    }
    Ok(ExitCode::from(PENDING))
}

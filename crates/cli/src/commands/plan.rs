//! `trueup plan`: what a pass would do. Needs no privilege and writes nothing.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use trueup::reconcile::{Ledger, MemoryLedger};
use trueup::{Options, Rtnl};

use super::{Declared, Place};
use crate::{Common, output};

/// Changes are pending.
const PENDING: u8 = 2;

pub(crate) fn plan(common: &Common, file: &Path) -> Result<ExitCode> {
    let declared = Declared::read(file, Duration::ZERO)?;
    let place = Place::open(common)?;
    let ledger = remembered(&place, common, &declared.options)?;
    let planned = Rtnl::new()
        .plan(
            &place.namespace,
            &declared.file.desired,
            &*ledger,
            &declared.options,
        )
        .map_err(|error| declared.explain(error))?;
    output::plan(common.format, &planned)?;
    for doubt in &planned.doubts {
        output::note(doubt);
    }
    if planned.is_converged() {
        return Ok(ExitCode::SUCCESS);
    }
    if planned.plan.is_empty() {
        bail!("whether there is something to do could not be told");
    }
    Ok(ExitCode::from(PENDING))
}

/// The ledger as it is, for those who change nothing. Where there is no place for one, nothing is remembered, and that is told.
pub(super) fn remembered(
    place: &Place,
    common: &Common,
    options: &Options,
) -> Result<Box<dyn Ledger>> {
    Ok(match place.state(common, options) {
        Ok(state) => Box::new(state.peek()?),
        Err(none) => {
            output::note(format_args!(
                "{none}. What follows is told as if nothing were remembered"
            ));
            Box::new(MemoryLedger::default())
        }
    })
}

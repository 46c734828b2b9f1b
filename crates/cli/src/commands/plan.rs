//! `trueup plan`: what a pass would do. Needs no privilege and writes nothing.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use trueup::Rtnl;
use trueup::reconcile::{Ledger, MemoryLedger};

use super::{Declared, Place};
use crate::{Common, output};

/// Changes are pending.
const PENDING: u8 = 2;

pub(crate) fn plan(common: &Common, file: &Path) -> Result<ExitCode> {
    let declared = Declared::read(file, Duration::ZERO)?;
    let place = Place::open(common)?;
    let ledger: Box<dyn Ledger> = match place.state(common, &declared.options) {
        Ok(state) => Box::new(state.peek()?),
        Err(none) => {
            output::note(format_args!(
                "{none}. This plan is made as if nothing were remembered"
            ));
            Box::new(MemoryLedger::default())
        }
    };
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

//! `trueup apply`: one pass. All that can be refused is refused before the kernel is touched.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context as _, Result};
use trueup::{Report as _, Rtnl, Source as _};

use super::{Declared, Place, privilege};
use crate::{Common, output};

/// Said when the kernel was changed and the ledger was not.
pub(super) const FORGOTTEN: &str = "what this pass made is not remembered: links of it that are \
                                    no longer wanted will have to be deleted by hand";

/// The kernel is not as desired.
const NOT_CONVERGED: u8 = 2;

pub(crate) fn apply(common: &Common, file: &Path) -> Result<ExitCode> {
    let declared = Declared::read(file, Duration::ZERO)?;
    let place = Place::open(common)?;
    privilege::require(&place)?;
    let mut state = place.state(common, &declared.options)?.claim()?;
    let report = Rtnl
        .reconcile(
            &place.namespace,
            &declared.file.desired,
            state.last_applied(),
            &declared.options,
        )
        .map_err(|error| declared.explain(error))?;
    let saved = state.save(report.last_applied()).context(FORGOTTEN);
    output::report(common.format, &report)?;
    saved?;
    Ok(if report.converged() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_CONVERGED)
    })
}

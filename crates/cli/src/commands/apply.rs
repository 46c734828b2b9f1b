//! `trueup apply`: one pass. All that can be refused is refused before the kernel is touched.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use trueup::{Report as _, Rtnl, Source as _};

use super::{Declared, Place, privilege};
use crate::{Common, output};

/// The kernel is not as desired.
const NOT_CONVERGED: u8 = 2;

pub(crate) fn apply(common: &Common, file: &Path) -> Result<ExitCode> {
    let declared = Declared::read(file, Duration::ZERO)?;
    let place = Place::open(common)?;
    privilege::require(&place)?;
    let state = place.state(common, &declared.options)?.claim()?;
    let report = Rtnl::new()
        .reconcile(
            &place.namespace,
            &declared.file.desired,
            &mut state.ledger(),
            &declared.options,
        )
        .map_err(|error| declared.explain(error))?;
    output::report(common.format, &report)?;
    Ok(if report.converged() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_CONVERGED)
    })
}

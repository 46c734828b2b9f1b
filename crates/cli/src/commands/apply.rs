//! `trueup apply`: one pass. All that can be refused is refused before the kernel is touched.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Result;
use trueup::{Report as _, Source as _};

use super::{Declared, Place, privilege};
use crate::host::Host;
use crate::state::Of;
use crate::{Common, output};

/// The kernel is not as desired.
const NOT_CONVERGED: u8 = 2;

pub(crate) fn apply(common: &Common, file: &Path) -> Result<ExitCode> {
    let declared = Declared::read(file, Duration::ZERO)?;
    let place = Place::open(common)?;
    privilege::require(&place)?;
    let state = place.state(common, &declared.options)?.claim()?;
    let report = Host::new(Box::new(state.ledger(Of::Settings)))
        .reconcile(
            &place.namespace,
            &declared.desired(),
            &mut state.ledger(Of::Network),
            &declared.options,
        )
        .map_err(|error| {
            output::set_all_the_same(&error);
            declared.explain(error)
        })?;
    output::report(common.format, &report)?;
    Ok(if report.converged() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_CONVERGED)
    })
}

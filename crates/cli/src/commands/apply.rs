//! `trueup apply`: one pass. What can be refused is refused before the kernel is touched, with exit
//! code 1. After a change the exit code of a failure is 2.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Error, Result, anyhow};
use trueup::{Report as _, Source as _};

use super::{Declared, Target, privilege};
use crate::host::Host;
use crate::state::LedgerOf;
use crate::{Common, output};

/// The kernel is not as desired, or what the pass did could not be reported.
const NOT_CONVERGED: u8 = 2;

pub(crate) fn apply(common: &Common, file: &Path) -> Result<ExitCode> {
    let declared = Declared::read(file, Duration::ZERO)?;
    let target = Target::open(common)?;
    privilege::require(&target)?;
    let state = target.claim(common, &declared.options)?;
    let (desired, _) = declared.collect(&target, common)?;
    if !declared.exports().is_empty() {
        output::note(
            "nothing is exported: exports live as long as the `trueup watch` that has them",
        );
    }
    let report = Host::new(Box::new(state.ledger(LedgerOf::Settings)))
        .reconcile(
            &target.namespace,
            &desired,
            &mut state.ledger(LedgerOf::Network),
            &declared.options,
        )
        .map_err(|error| declared.explain(error))?;
    let reported = output::report(common.format, &report);
    if let Err(error) = &reported {
        output::print_error(&unreported(error, output::verdict(&report)));
    }
    Ok(if report.converged() && reported.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_CONVERGED)
    })
}

/// Returns how the pass ended whose report could not be written.
fn unreported(error: &Error, verdict: Option<String>) -> Error {
    let verdict = verdict.map_or("converged".to_owned(), |why| {
        format!("not converged: {why}")
    });
    anyhow!("the pass ran ({verdict}), but its report is incomplete: {error:#}")
}

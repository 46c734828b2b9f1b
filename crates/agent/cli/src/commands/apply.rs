//! `trueup apply`: one run of the file's graph. Exit code 1 means that trueup refused to start,
//! with the kernel unchanged. After a change the exit code of a failure is 2.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Error, Result, anyhow};
use trueup_agent::Applied;
use trueup_agent::text::verdict;

use super::{agent, note_cautions};
use crate::{Common, output};

/// The exit code if the kernel is not as desired, or if the report could not be written.
const NOT_CONVERGED: u8 = 2;

pub(crate) fn apply(
    common: &Common,
    file: &Path,
    strict: bool,
    allow_deletes: bool,
) -> Result<ExitCode> {
    let agent = agent(common)?;
    let mut declared = agent.read(file, common.writers())?;
    let network = &mut declared.options.network;
    *network = network.clone().with_strict(strict);
    if allow_deletes {
        *network = network.clone().with_no_max_deletes();
    }
    note_cautions(&declared);
    let mut applied = agent.apply(&declared)?;
    let report = match applied.passed() {
        Ok(report) => report,
        Err(error) => return failed(error.into(), &applied),
    };
    let is_converged = applied.is_converged_with(&report);
    let reported = output::report(common.format, &report, &applied);
    let missing = report.devices().flat_map(|it| declared.all_missing(it, agent.namespace()));
    missing.for_each(output::note);
    if let Err(error) = &reported {
        let verdict = match verdict(&report) {
            Some(why) => format!("not converged: {why}"),
            None => "converged".to_owned(),
        };
        output::print_error(&anyhow!(
            "the pass ran ({verdict}), but its report is incomplete: {error:#}"
        ));
    }
    let is_done = is_converged && reported.is_ok();
    Ok(ExitCode::from(if is_done { 0 } else { NOT_CONVERGED }))
}

/// Ends after a pass that could not run. The exit code is 1 if files and commands changed nothing
/// either.
fn failed(error: Error, applied: &Applied) -> Result<ExitCode> {
    if applied.changes.is_empty() {
        return Err(error);
    }
    output::print(|out| {
        let mut changes = applied.changes.iter();
        changes.try_for_each(|change| writeln!(out, "{change}"))
    })?;
    output::print_error(&error);
    Ok(ExitCode::from(NOT_CONVERGED))
}

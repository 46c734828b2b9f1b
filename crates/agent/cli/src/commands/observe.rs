//! `trueup observe`: the namespace's state as a file for which a plan is empty. A note names each
//! omitted object.

use std::process::ExitCode;

use anyhow::{Result, bail};
use trueup_agent::Authored;
use trueup_file as file;

use super::agent;
use crate::Common;
use crate::output::{self, Format};

pub(crate) fn observe(common: &Common, is_portable: bool) -> Result<ExitCode> {
    let shown = Authored::read(agent(common)?.namespace(), is_portable)?;
    for doubt in &shown.incomplete {
        output::note(format_args!("the state is incomplete: {doubt}"));
    }
    let settings = file::Settings::default();
    let toml = file::to_toml(&settings, &shown.desired);
    for left_out in &shown.left_out {
        output::note(format_args!("left out: {left_out}"));
    }
    for line in toml.lines() {
        if let Some(left_out) = line.strip_prefix("# not here: ") {
            output::note(format_args!("left out: {left_out}"));
        }
    }
    output::print(|out| match common.format {
        Format::Text => {
            for left_out in &shown.left_out {
                writeln!(out, "# not here: {left_out}")?;
            }
            output::write_lines(out, &toml)
        }
        Format::Json => output::write_lines(out, file::to_json(&settings, &shown.desired)),
        _ => output::write_lines(out, shown.batch()),
    })?;
    if !shown.incomplete.is_empty() {
        // If applied, it would delete everything that is missing in it.
        bail!("the printed state is incomplete: run it again");
    }
    Ok(ExitCode::SUCCESS)
}

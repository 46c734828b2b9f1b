//! `trueup doctor`: the abilities of this kernel and this caller in a namespace, and the problems
//! that would prevent a pass. It changes nothing.

use std::path::Path;
use std::process::ExitCode;

use anyhow::Result;

use super::{agent, refuse_ip};
use crate::Common;
use crate::output::{self, Format};

/// The exit code if a problem would prevent a pass.
const NOT_READY: u8 = 2;

pub(crate) fn doctor(common: &Common, file: Option<&Path>) -> Result<ExitCode> {
    refuse_ip(common, "doctor")?;
    let found = agent(common)?.doctor(file, common.writers())?;
    output::print(|out| match common.format {
        Format::Json => output::write_json(out, &found),
        _ => output::write_lines(out, found.to_string()),
    })?;
    Ok(ExitCode::from(if found.is_ready() { 0 } else { NOT_READY }))
}

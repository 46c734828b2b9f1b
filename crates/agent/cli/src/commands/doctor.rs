//! `trueup doctor`: what this kernel and this caller can do in a namespace, and the problems that
//! would prevent a pass. It changes nothing.

use std::path::Path;
use std::process::ExitCode;

use anyhow::{Result, bail};

use super::agent;
use crate::Common;
use crate::output::{self, Format};

/// A problem would prevent a pass.
const NOT_READY: u8 = 2;

pub(crate) fn doctor(common: &Common, file: Option<&Path>) -> Result<ExitCode> {
    if common.format == Format::Ip {
        bail!("`doctor` prints no commands: --format is text or json here");
    }
    let found = agent(common)?.doctor(file, common.writers())?;
    output::print(|out| match common.format {
        Format::Json => {
            serde_json::to_writer(&mut *out, &found)?;
            writeln!(out)
        }
        _ => output::write_lines(out, found.to_string()),
    })?;
    Ok(ExitCode::from(if found.is_ready() { 0 } else { NOT_READY }))
}

//! A program that does works: what it can do, and how it is run.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};

use crate::clock::{Line, Took};
use crate::works::Work;

/// The time after which a program is ended, in seconds; it then counts as failed.
const TIMEOUT: &str = "300";

/// A program that does works.
#[derive(Clone, Debug)]
pub struct Program {
    /// The command that knows the program by its name.
    pub command: PathBuf,
    /// Its name.
    pub name: String,
    /// The works that it can do, and the largest size of each.
    pub works: Vec<(Work, usize)>,
}

impl Program {
    /// Returns the programs that a command answers `list` with. Works that the benchmark does not
    /// know are left out.
    ///
    /// # Errors
    ///
    /// When it cannot be run, or says something else.
    pub fn of_command(command: &PathBuf) -> Result<Vec<Program>> {
        let output = Command::new(command)
            .arg("list")
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| command.display().to_string())?;
        ensure!(output.status.success(), "{}: {}", command.display(), output.status);
        let mut programs: Vec<Program> = Vec::new();
        for line in String::from_utf8(output.stdout)?.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name, work, largest] = words[..] else {
                bail!("{} list: {line}", command.display());
            };
            let Ok(work) = work.parse() else { continue };
            let largest = largest.parse()?;
            match programs.iter_mut().find(|program| program.name == name) {
                Some(program) => program.works.push((work, largest)),
                None => programs.push(Program {
                    command: command.clone(),
                    name: name.to_owned(),
                    works: vec![(work, largest)],
                }),
            }
        }
        Ok(programs)
    }

    pub(super) fn can(&self, work: Work, size: usize) -> bool {
        let found = self.works.iter().find(|(known, _)| *known == work);
        found.is_some_and(|(_, largest)| size <= *largest)
    }

    /// Returns true if it is the floor or trueup, which are measured as often as possible.
    pub(super) fn is_of_ours(&self) -> bool {
        self.name == "floor" || self.name == "trueup"
    }

    pub(super) fn perform(&self, work: Work, size: usize) -> Result<Took> {
        self.perform_under(with_timeout(), work, size)
    }

    /// Does a work by way of `command`, which runs the program in its further arguments, as
    /// [`with_timeout`] does.
    ///
    /// # Errors
    ///
    /// When either fails, or the program prints another line than the one of this work.
    pub(super) fn perform_under(
        &self,
        mut command: Command,
        work: Work,
        size: usize,
    ) -> Result<Took> {
        let words = [&self.name, &work.to_string(), &size.to_string()].map(OsString::from);
        let output = command
            .arg(&self.command)
            .args(words)
            .stderr(Stdio::inherit())
            .output()
            .context("timeout, of coreutils")?;
        ensure!(output.status.success(), "{}", output.status);
        let line: Line = serde_json::from_slice(&output.stdout).context("its line")?;
        let of = (line.program == self.name, line.work == work.to_string(), line.size == size);
        ensure!(of == (true, true, true), "the line is about something else: {line:?}");
        Ok(line.took)
    }
}

/// Returns a command that ends the command in its further arguments after [`TIMEOUT`].
pub(super) fn with_timeout() -> Command {
    let mut timeout = Command::new("timeout");
    timeout.arg(TIMEOUT);
    timeout
}

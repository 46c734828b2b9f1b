//! A program that does works: what it can do, and how it is run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use trueup_works::Work;
use trueup_works::clock::{Line, Took};

/// The time after which a program is ended, in seconds; it then counts as failed.
const TIMEOUT: &str = "300";

/// A program that does works.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The command that knows the program by its name.
    command: PathBuf,
    pub(super) name: String,
    /// The works that it can do, and the largest size of each.
    works: Vec<(Work, usize)>,
}

impl Program {
    /// Returns the programs that a command answers `list` with. Works that the benchmark does not
    /// know are left out.
    pub(super) fn of_command(command: &Path) -> Result<Vec<Program>> {
        let mut list = Command::new(command);
        let output = list
            .arg("list")
            .stderr(Stdio::inherit())
            .output()
            .with_context(|| format!("{command:?}"))?;
        ensure!(output.status.success(), "{command:?}: {}", output.status);
        let mut programs: Vec<Program> = Vec::new();
        for line in String::from_utf8(output.stdout)?.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [name, work, largest] = words[..] else { bail!("{command:?} list: {line}") };
            let Ok(work) = work.parse() else { continue };
            let work = (work, largest.parse()?);
            match programs.iter_mut().find(|program| program.name == name) {
                Some(program) => program.works.push(work),
                None => programs.push(Program {
                    command: command.to_owned(),
                    name: name.to_owned(),
                    works: vec![work],
                }),
            }
        }
        Ok(programs)
    }

    pub(super) fn can(&self, work: Work, size: usize) -> bool {
        self.works.iter().any(|(known, largest)| *known == work && size <= *largest)
    }

    pub(super) fn perform(&self, work: Work, size: usize) -> Result<Took> {
        self.perform_under(with_timeout(), work, size)
    }

    /// Does a work by way of `command`, which runs the program in its further arguments, as
    /// [`with_timeout`] does.
    pub(super) fn perform_under(
        &self,
        mut command: Command,
        work: Work,
        size: usize,
    ) -> Result<Took> {
        command.arg(&self.command).args([&self.name, &work.to_string(), &size.to_string()]);
        let output = command.stderr(Stdio::inherit()).output().context("timeout, of coreutils")?;
        ensure!(output.status.success(), "{}", output.status);
        let line: Line = serde_json::from_slice(&output.stdout).context("its line")?;
        let of = (&line.program, &line.work, line.size);
        ensure!(of == (&self.name, &work.to_string(), size), "about something else: {line:?}");
        Ok(line.took)
    }
}

/// Returns a command that ends the command in its further arguments after [`TIMEOUT`].
pub(super) fn with_timeout() -> Command {
    let mut timeout = Command::new("timeout");
    timeout.arg(TIMEOUT);
    timeout
}

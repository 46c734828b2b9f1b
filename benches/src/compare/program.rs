//! A program that does works: its abilities, and the way to run it.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use trueup_works::Work;
use trueup_works::clock::{Line, Took};

/// The time in seconds after which a program is killed and counts as failed.
const TIMEOUT: &str = "300";

/// A program, known by name to a command.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// The command that runs the program by its name.
    command: PathBuf,
    pub(super) name: String,
    /// The works that it can do, each with its largest size.
    works: Vec<(Work, usize)>,
}

impl Program {
    /// Returns the programs in a command's answer to `list`. Works unknown to the benchmark are
    /// left out.
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

    /// Does a work through `command`, whose further arguments are the program's command line, as in
    /// [`with_timeout`].
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

/// Returns a command that kills the command in its further arguments after [`TIMEOUT`].
pub(super) fn with_timeout() -> Command {
    let mut timeout = Command::new("timeout");
    timeout.arg(TIMEOUT);
    timeout
}

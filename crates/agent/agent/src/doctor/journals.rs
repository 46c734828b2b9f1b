//! The state directory, and the journals of the namespace in it.

use std::fs;
use std::io;
use std::path::Path;

use rustix::fs::{Access, access};
use serde::Serialize;
use trueup_journal::{self as journal, Journal};

use super::Problem;
use crate::error::{Context as _, Result, bail};
use crate::state;

/// The state of a journal, as `doctor` prints it.
#[derive(Serialize)]
pub(super) struct JournalState {
    pub(super) file: String,
    pub(super) protocol: u8,
    /// The domain's name. `None` if it has no name.
    pub(super) domain: Option<String>,
    pub(super) present: bool,
    pub(super) held: bool,
    /// The process that holds the journal. `None` if that is not known.
    pub(super) holder: Option<Holder>,
}

#[derive(Serialize)]
pub(super) struct Holder {
    pub(super) pid: u32,
    pub(super) command: String,
}

/// Returns an error unless journals could be made in the directory. For that, the directory or its
/// nearest existing ancestor must be writable.
pub(super) fn usable(directory: &Path) -> Result<()> {
    let shown = directory.display();
    let absolute = std::path::absolute(directory)
        .with_context(|| format!("cannot resolve the directory {shown}"))?;
    let mut ancestors = absolute.ancestors();
    let Some(nearest) = ancestors.find(|path| {
        fs::metadata(path).err().is_none_or(|error| error.kind() != io::ErrorKind::NotFound)
    }) else {
        bail!("there is no root directory");
    };
    let reading = if nearest == absolute { Access::READ_OK } else { Access::empty() };
    if let Err(errno) = access(nearest, reading | Access::WRITE_OK | Access::EXEC_OK) {
        return Err(io::Error::from(errno)).with_context(|| {
            format!(
                "cannot use the state directory {shown}: {} cannot be written",
                nearest.display()
            )
        });
    }
    if !nearest.is_dir() {
        bail!("cannot use the state directory {shown}: {} is not a directory", nearest.display());
    }
    Ok(())
}

/// Returns the namespace's journals, sorted by agent. Includes the journal of `asked` even if it is
/// missing.
pub(super) fn journals(
    asked: &state::StateFile,
    problems: &mut Vec<Problem>,
) -> Result<Vec<JournalState>> {
    let mut found = Vec::new();
    let mut places = asked.of_all_agents();
    if !places.iter().any(|place| place.agent == asked.agent) {
        places.push(asked.clone());
        places.sort_by(|one, other| one.agent.cmp(&other.agent));
    }
    for place in places {
        let file = place.file();
        let present = fs::exists(&file).unwrap_or(true);
        let mut held = false;
        let mut holder = None;
        if let Err(error) = journal::check_not_held(&file) {
            held = error.is_held();
            holder =
                error.holder().map(|(pid, command)| Holder { pid, command: command.to_owned() });
            problems.push(Problem::of(&error, &file, &place.agent));
        }
        match Journal::open_read_only(&file) {
            Err(error) => problems.push(Problem::of(&error, &file, &place.agent)),
            Ok(_) if present && access(&file, Access::WRITE_OK).is_err() => {
                problems.push(Problem {
                    problem: format!("{} cannot be written", file.display()),
                    remedy: Some(state::FIX_PERMISSIONS.to_owned()),
                });
            }
            Ok(_) => {}
        }
        found.push(JournalState {
            file: file.display().to_string(),
            protocol: place.agent.marker,
            domain: place.agent.domain,
            present,
            held,
            holder,
        });
    }
    Ok(found)
}

impl Problem {
    /// Returns a journal's error as a problem with its remedy.
    fn of(error: &journal::Error, file: &Path, agent: &state::Agent) -> Problem {
        let shown = file.display();
        let (problem, remedy) = if error.is_held() {
            let problem =
                format!("another trueup writes with `protocol = {}`: {error}", agent.marker);
            let remedy = "stop it, or give the two files different `protocol` numbers, or a \
                          `[domain]` with a name each";
            (problem, Some(remedy.to_owned()))
        } else if error.is_damaged() {
            let remedy = format!(
                "look with `trueup journal check {shown}`, go on after `trueup journal repair {shown}`"
            );
            (format!("the journal {shown} is damaged: {error}"), Some(remedy))
        } else {
            (format!("cannot use {shown}: {error}"), state::remedy(error).map(str::to_owned))
        };
        Problem { problem, remedy }
    }
}

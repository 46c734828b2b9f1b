//! `trueup journal`: checks, prints and repairs journals.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context as _, Error, Result, bail};
use serde::Serialize;
use trueup::journal::{self, Counts, Repaired};

use trueup_agent::journals::{EXTENSION, directories, existing};

use super::refuse_ip;
use crate::Common;
use crate::output::{self, Format, LossyPath};

/// The task.
#[derive(clap::Subcommand)]
pub(crate) enum Task {
    /// Read journals whole, and print their counts of records and their damage
    ///
    /// Exits with 0 when all are whole, 2 when one is damaged, 1 when one could not be read.
    Check(Files),
    /// Print every record of journals as a line of JSON
    ///
    /// Of a damaged journal it prints what a repair would keep. Exits with 0 when all was printed,
    /// 2 when one is damaged, 1 when one could not be read.
    Export(Files),
    /// Make damaged journals usable, and keep each damaged file beside the new one
    ///
    /// A repair that would lose records is refused and says what it would lose. A file that does
    /// not begin as a journal stays as it is. No process may have the journals open. Exits with 0
    /// when all are whole now, 1 when not.
    Repair {
        #[command(flatten)]
        files: Files,
        /// Repair also where records are lost; the journals have to be named then
        #[arg(long)]
        accept_loss: bool,
    },
}

/// Journals.
#[derive(clap::Args)]
pub(crate) struct Files {
    /// The journals [default: all in the state directory]
    #[arg(value_name = "FILE")]
    files: Vec<PathBuf>,
}

/// The exit code if a file is damaged.
const DAMAGED: u8 = 2;
/// The exit code if the task failed, or if its result is unknown.
const FAILED: u8 = 1;

pub(crate) fn journal(common: &Common, task: &Task) -> Result<ExitCode> {
    let (Task::Check(files) | Task::Export(files) | Task::Repair { files, .. }) = task;
    refuse_ip(common, "journal")?;
    if matches!(task, Task::Repair { accept_loss: true, .. }) && files.files.is_empty() {
        bail!(
            "--accept-loss gives records up, and so wants the journals to be named: \
             `trueup journal repair FILE --accept-loss`"
        );
    }
    let mut worst = 0;
    for file in chosen(common, &files.files) {
        let done = file.and_then(|file| match task {
            Task::Check(_) => check(common.format, &file),
            Task::Export(_) => export(&file),
            Task::Repair { accept_loss, .. } => repair(common.format, &file, *accept_loss),
        });
        // Known damage outweighs an unknown state.
        worst = worst.max(done.unwrap_or_else(|error| {
            output::print_error(&error);
            FAILED
        }));
    }
    Ok(ExitCode::from(worst))
}

/// Returns the named journals, or all in the state directories, sorted by name. An error says why
/// they are not known.
fn chosen(common: &Common, named: &[PathBuf]) -> Vec<Result<PathBuf>> {
    if !named.is_empty() {
        return named.iter().cloned().map(Ok).collect();
    }
    let directories = directories(common.state.as_deref());
    let mut chosen = Vec::new();
    let mut read = Vec::new();
    for directory in &directories {
        match journals(directory) {
            Ok(files) => {
                read.push(directory);
                chosen.extend(files.into_iter().map(Ok));
            }
            // Root's directory is like this. Other users have journals elsewhere.
            Err(error) if common.state.is_none() && is_unlisted(directory, &error) => {
                output::note(format_args!(
                    "{}, so its journals are left out; run it as the owner of that directory to \
                     have them looked at",
                    output::with_causes(error.as_ref())
                ));
            }
            Err(error) => chosen.push(Err(error)),
        }
    }
    if chosen.is_empty() && !read.is_empty() {
        let read: Vec<String> = read.iter().map(|path| path.display().to_string()).collect();
        output::note(format_args!(
            "there is no journal in {}, which is in order: no pass had anything to \
             record there. Objects that bear the marker in the kernel are ours without a journal",
            read.join(" or ")
        ));
    }
    chosen
}

/// Returns true if the caller may search a directory but not list it.
fn is_unlisted(directory: &Path, error: &Error) -> bool {
    let kind = error.downcast_ref::<io::Error>().map(io::Error::kind);
    kind == Some(io::ErrorKind::PermissionDenied) && fs::metadata(directory.join(".")).is_ok()
}

#[expect(clippy::disallowed_methods, reason = "names alone, of a state directory of ours")]
fn journals(directory: &Path) -> Result<Vec<PathBuf>> {
    existing(directory)?;
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        entries => entries
            .and_then(Iterator::collect)
            .with_context(|| format!("cannot read the state directory {}", directory.display()))?,
    };
    let mut files: Vec<PathBuf> = entries.iter().map(fs::DirEntry::path).collect();
    files.retain(|path| path.extension().is_some_and(|found| found == EXTENSION));
    files.sort();
    Ok(files)
}

/// The result of a check, as JSON.
#[derive(Serialize)]
struct CheckRecord<'a> {
    file: LossyPath<&'a Path>,
    whole: bool,
    #[serde(flatten)]
    records: Option<Counts>,
    #[serde(skip_serializing_if = "Option::is_none")]
    problem: Option<&'a str>,
}

fn check(format: Format, file: &Path) -> Result<u8> {
    let (counts, problem) = match journal::check(file) {
        Ok(counts) => (Some(counts), None),
        Err(error) if error.is_damaged() => (None, Some(error.to_string())),
        Err(error) => return Err(about(file, error)),
    };
    output::print(|out| match (format, counts, &problem) {
        (Format::Json, ..) => output::write_json(
            out,
            &CheckRecord {
                file: LossyPath(file),
                whole: counts.is_some(),
                records: counts,
                problem: problem.as_deref(),
            },
        ),
        (_, Some(counts), _) => {
            writeln!(out, "{}: whole, {}", file.display(), count_words(counts))
        }
        (_, None, problem) => {
            writeln!(out, "{}: {}", file.display(), problem.as_deref().unwrap_or_default())
        }
    })?;
    Ok(if problem.is_none() { 0 } else { DAMAGED })
}

fn count_words(counts: Counts) -> String {
    [
        (counts.owned, "owned", "owned"),
        (counts.intents, "open intent", "open intents"),
        (counts.operations, "operation", "operations"),
        (counts.keys, "key", "keys"),
        (counts.nonces, "spent nonce", "spent nonces"),
        (counts.backoffs, "backoff", "backoffs"),
    ]
    .map(|(number, one, many)| format!("{number} {}", if number == 1 { one } else { many }))
    .join(", ")
}

fn export(file: &Path) -> Result<u8> {
    let mut lines = Vec::new();
    let exported = journal::export(file, &mut lines);
    output::print(|out| out.write_all(&lines))?;
    match exported {
        Ok(()) => Ok(0),
        Err(error) => {
            let damaged = error.is_damaged();
            output::print_error(&about(file, error));
            Ok(if damaged { DAMAGED } else { FAILED })
        }
    }
}

/// The result of a repair, as JSON.
#[derive(Serialize)]
struct RepairRecord<'a> {
    file: LossyPath<&'a Path>,
    lost: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    kept: Option<LossyPath<&'a Path>>,
}

fn repair(format: Format, file: &Path, accept_loss: bool) -> Result<u8> {
    let shown = file.display();
    let repaired = match journal::repair(file, accept_loss) {
        Err(error) if error.is_damaged() => bail!(
            "{shown}: {error}. Nothing was done. What can be done: look at what can be read with \
             `trueup journal export {shown}`; `trueup journal repair {shown} --accept-loss` makes it \
             usable without the rest, and keeps the damaged file beside it"
        ),
        repaired => repaired.map_err(|error| about(file, error))?,
    };
    let (lost, kept) = match &repaired {
        Repaired::Whole => (None, None),
        Repaired::Restored { damaged } => (None, Some(damaged)),
        Repaired::Shortened { damaged } => (Some("the last commits"), Some(damaged)),
        Repaired::Reduced { damaged } => (Some("what could not be read"), Some(damaged)),
        Repaired::Emptied { damaged } => (Some("everything"), Some(damaged)),
    };
    let what = lost.unwrap_or("nothing");
    output::print(|out| match (format, kept) {
        (Format::Json, kept) => {
            let record = RepairRecord {
                file: LossyPath(file),
                lost: what,
                kept: kept.map(|kept| LossyPath(kept.as_path())),
            };
            output::write_json(out, &record)
        }
        (_, None) => writeln!(out, "{shown}: whole, nothing to repair"),
        (_, Some(kept)) => writeln!(
            out,
            "{shown}: repaired, {what} of what was remembered is lost. The damaged file is kept as {}",
            kept.display()
        ),
    })?;
    if lost.is_some() {
        output::note(
            "objects that bear no marker, such as links, may count as foreign now: delete them by \
             hand",
        );
    }
    Ok(0)
}

/// Adds the file and the remedy to an error.
fn about(file: &Path, error: journal::Error) -> Error {
    let remedy = match error.remedy() {
        Some(remedy) => format!(". What can be done: {remedy}"),
        None => String::new(),
    };
    anyhow::anyhow!("{}: {error}{remedy}", file.display())
}

//! The agent: the engine of trueup-control over the guests of a folder, driven by trueup-loop.
//!
//! The folder has the guests, the journal, the last status, and tokens on their way to the agent.
//! It also has the approver's key, which is acceptable only in an example.

use std::fmt::Write as _;
use std::fs;
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use trueup_control::{
    ActionHash, Approval, Config, Engine, EngineHandle, Error, ErrorKind, Gate, Objects, Report,
    Terms, WatchedFile, public_key,
};
use trueup_journal::Journal;
use trueup_loop::Loop;
use trueup_path::TrustedUsers;
use trueup_reconcile::{LedgerScope, Report as _};

use crate::backend::Guests;
use crate::file::File;
use crate::host::Host;
use crate::objects::{desired, normalisers};

/// The error describes why the agent ends.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// The name of the agent: an approval for another agent is not valid for this one.
const NAME: &str = "guests";

/// The validity of an approval.
const APPROVAL: Duration = Duration::from_secs(600);

/// An upper limit of a token's length in bytes.
const MAX_TOKEN: u64 = 16 * 1024;

/// The settings of an agent, fixed while it runs.
#[derive(Clone, Debug)]
pub struct Options {
    /// The longest time between two passes; QEMU's events cause earlier ones.
    pub interval: Duration,
    /// The speed limit of a backup in bytes a second; 0 for none.
    pub backup_speed: u64,
    /// A folder in which each QEMU records its commands; `None` for no records.
    pub traces: Option<PathBuf>,
}

/// Keeps the guests as the file declares them, until the process ends. It may be killed at any
/// time.
///
/// # Errors
///
/// If the folder or its journal cannot be used, such as while another agent runs in it, or if
/// another user can change the folder.
pub fn run(file: &Path, state: &Path, options: &Options) -> Result<()> {
    make_ours(state)?;
    let host = Host::open(&state.join("guests"), options.traces.as_deref())?;
    let journal = Journal::open(state.join("journal"))?;
    let gate = Gate::signed_by(NAME, &public_key(&approver_key(state)?))?;
    let config = Config::default()
        .with_name(NAME)
        .with_create()
        .with_destroy()
        .with_normalisers(normalisers())
        .with_gate(gate)
        // Settling is not needed: a monitor answers, or the conversation fails.
        .with_settle(Duration::ZERO)
        .with_poll(options.interval)
        .with_backoff(options.interval, 60 * options.interval);
    let provider = WatchedFile::new(file, parse);
    let backend = Guests::new(host, options.backup_speed);
    let engine = Engine::new(backend, provider, &journal, config)?;
    let ledger = journal.ledger(NAME, &LedgerScope::new("guests", ""))?;
    let config = trueup_loop::Config::default().with_interval(options.interval);
    let handle = engine.handle();
    let tokens = state.join("tokens");
    fs::create_dir_all(&tokens)?;
    let mut shown = String::new();
    let mut show = |status: String| -> io::Result<()> {
        if status != shown {
            eprint!("{status}");
            write_file(&state.join("status"), status.as_bytes())?;
            shown = status;
        }
        Ok(())
    };
    Loop::new(engine, (), (), ledger, (), config)
        .on_report(|_, result| {
            let status = match result {
                Ok(report) => status(report, &handle),
                Err(error) => format!("converged: no\n{}\n", with_sources(error)),
            };
            let refused = take_tokens(&tokens, &handle);
            if let Err(error) = show(status + &refused) {
                eprintln!("{}: {error}", state.display());
            }
        })
        .run()?;
    Ok(())
}

/// Returns the status after the agent's last pass.
///
/// # Errors
///
/// If no agent has run yet.
pub fn status_of(state: &Path) -> io::Result<String> {
    fs::read_to_string(state.join("status"))
}

/// Approves the action with a hash from the status.
///
/// # Errors
///
/// If this is no hash, the agent's folder cannot be written, or it has no journal yet.
pub fn approve(state: &Path, hash: &str) -> Result<()> {
    let hash: ActionHash = hash.parse()?;
    make_ours(state)?;
    let journal = Journal::open_read_only(state.join("journal"))?.id()?;
    let now = SystemTime::now();
    let terms = Terms::new(hash, journal, random()?, now, now + APPROVAL);
    let token = Approval::sign_with(&approver_key(state)?, terms);
    write_file(&state.join("tokens").join(hash.to_string()), token.to_string().as_bytes())?;
    Ok(())
}

/// Makes the agent's folder. Other users must not be able to change it: with a token or the key
/// they could approve actions, and with a link in place of a file they could make the agent write
/// elsewhere.
fn make_ours(state: &Path) -> Result<()> {
    TrustedUsers::current()?.make_folder(state, 0o755)?.ours()?;
    Ok(())
}

fn parse(bytes: &[u8]) -> std::result::Result<Objects, Error> {
    let invalid = |message: String| Error::new(ErrorKind::Provider, message);
    let text = std::str::from_utf8(bytes).map_err(|error| invalid(error.to_string()))?;
    let file = File::parse(text).map_err(|error| invalid(error.to_string()))?;
    Ok(desired(&file))
}

/// Describes a pass: a line for each action, and for each action that waits for an approval.
fn status(report: &Report, handle: &EngineHandle<Guests>) -> String {
    let mut text = format!("converged: {}\n", if report.converged() { "yes" } else { "no" });
    let mut line = |line: &dyn std::fmt::Display| {
        let _ = writeln!(text, "{line}");
    };
    if let Some((_, error)) = report.failing() {
        line(&with_sources(error));
    }
    if let Some(trouble) = report.trouble() {
        line(&trouble);
    }
    report.unread().iter().for_each(|unread| line(unread));
    report.ops().iter().for_each(|op| line(op));
    for key in report.undesired() {
        line(&format!("{key}: not desired, and not made by this agent: it stays"));
    }
    for request in handle.approvals() {
        line(&format!("to approve: {} {}", request.hash, request.action));
    }
    text
}

/// Passes new tokens to the agent. Returns why some were not accepted.
fn take_tokens(folder: &Path, handle: &EngineHandle<Guests>) -> String {
    let mut refused = String::new();
    for file in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = file.path();
        let mut token = String::new();
        let _is_refused =
            fs::File::open(&path).and_then(|file| file.take(MAX_TOKEN).read_to_string(&mut token));
        // While it is being written, a token has the extension `new`.
        let is_taken = path.extension().is_none() && fs::remove_file(&path).is_ok();
        if is_taken && let Err(error) = handle.approve(&token) {
            let _ = writeln!(refused, "a token is not accepted: {}", with_sources(&error));
        }
    }
    refused
}

fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let _ = write!(text, ": {error}");
        source = error.source();
    }
    text
}

/// Reads the approver's key; the first call makes it.
fn approver_key(state: &Path) -> io::Result<[u8; 32]> {
    let path = state.join("approver.key");
    if !path.exists() {
        let new = new_name(&path);
        let mut options = fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&new)?;
        file.write_all(&random::<32>()?)?;
        fs::rename(new, &path)?;
    }
    let bytes = fs::read(&path)?;
    bytes.try_into().map_err(|_| {
        let message = format!("{}: a key has 32 bytes: remove it to make another", path.display());
        io::Error::new(io::ErrorKind::InvalidData, message)
    })
}

fn random<const N: usize>() -> io::Result<[u8; N]> {
    let mut bytes = [0; N];
    fs::File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes)
}

/// Writes a file beside and renames it, so that no reader sees half of it.
fn write_file(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = new_name(path);
    fs::write(&new, bytes)?;
    fs::rename(new, path)
}

fn new_name(path: &Path) -> PathBuf {
    path.with_extension("new")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn a_folder_that_others_can_write_is_refused_before_anything_is_made_in_it() {
        let state = std::env::temp_dir().join(format!("trueup-guests-{}", std::process::id()));
        fs::create_dir_all(&state).unwrap();
        fs::set_permissions(&state, fs::Permissions::from_mode(0o777)).unwrap();
        let options = Options { interval: Duration::from_secs(1), backup_speed: 0, traces: None };
        let hash = "0".repeat(64);
        for refused in [run(&state.join("guests.toml"), &state, &options), approve(&state, &hash)] {
            let error = refused.unwrap_err().to_string();
            assert!(error.contains("use another folder"), "{error}");
        }
        assert_eq!(fs::read_dir(&state).unwrap().count(), 0);
        fs::remove_dir_all(&state).unwrap();
    }
}

//! Brings the example up, damages it and repairs it, in a temporary namespace: `cargo xtask demo`.
//! It runs the `trueup` program as a user would and checks its exit codes. Raw dumps, not the
//! program itself, show that the repair is complete.

use std::env;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use trueup_testkit::{Kind, Snapshot};

/// The error is a message for the user.
type Result<T> = std::result::Result<T, String>;

const FILE: &str = "docs/examples/edge.toml";

/// Exit codes of trueup.
const DONE: i32 = 0;
const PENDING: i32 = 2;

/// The damage. The replaced route keeps the marker: another writer's route with our key would be a
/// conflict to report, not drift to repair.
const DAMAGE: [&str; 5] = [
    "ip route delete 10.2.0.0/16",
    "ip -6 route replace fd00:3::/64 via fd00:1::bad dev br0 metric 50 protocol 116",
    "ip address delete 192.0.2.2/24 dev wan0",
    "ip link set dev br0 mtu 1400",
    "ip rule delete priority 1001",
];

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("demo: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    let trueup = built()?;
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../..");
    env::set_current_dir(root).map_err(|error| format!("{root}: {error}"))?;
    // The process must have one thread, and no other exists yet.
    trueup_testkit::enter().map_err(|error| error.to_string())?;

    title("An empty namespace. What would a pass do?");
    expect(&trueup, "plan", PENDING)?;
    title("One pass.");
    expect(&trueup, "apply", DONE)?;
    let whole = Snapshot::settled();

    title("Five things break. The address takes the default route and a neighbour along.");
    for command in DAMAGE {
        show_and_run(command)?;
    }
    title("The drift.");
    expect(&trueup, "plan", PENDING)?;
    title("The repair.");
    expect(&trueup, "apply", DONE)?;
    title("A second plan, which is empty.");
    expect(&trueup, "plan", DONE)?;

    // Neighbours learnt by resolution meanwhile do not count.
    const NUD_PERMANENT: u8 = 0x80;
    let declared = |snapshot: Snapshot| {
        snapshot.only(|row| row.kind != Kind::Neighbour || row.header[8] & NUD_PERMANENT != 0)
    };
    let diff = declared(whole).diff(&declared(Snapshot::settled()));
    if !diff.is_empty() {
        return Err(format!("the repair left a difference:\n{diff}"));
    }
    title("Raw dumps before the damage and after the repair are equal. The namespace ends here.");
    Ok(())
}

/// Returns the path of the `trueup` program beside this one.
fn built() -> Result<PathBuf> {
    let this = env::current_exe().map_err(|error| format!("the path of the demo: {error}"))?;
    let trueup = this.with_file_name("trueup-under-test");
    let built = trueup.is_file().then_some(trueup.clone());
    built.ok_or_else(|| format!("{} was not built", trueup.display()))
}

/// Runs a command of trueup on the example and checks its exit code.
fn expect(trueup: &Path, command: &str, code: i32) -> Result<()> {
    let line = format!("trueup {command} {FILE}");
    println!("$ {line}");
    let status = Command::new(trueup)
        .args([command, FILE])
        .status()
        .map_err(|error| format!("{line}: {error}"))?;
    println!("({status})");
    if status.code() == Some(code) {
        return Ok(());
    }
    Err(format!("{line}: {status}, where {code} was expected"))
}

/// Runs a shell command, which must succeed.
fn show_and_run(command: &str) -> Result<()> {
    println!("$ {command}");
    let mut words = command.split(' ');
    let status = Command::new(words.next().unwrap_or_default())
        .args(words)
        .status()
        .map_err(|error| format!("{command}: {error}"))?;
    let done = status.success().then_some(());
    done.ok_or_else(|| format!("{command}: {status}"))
}

fn title(text: &str) {
    println!("\n== {text}");
}

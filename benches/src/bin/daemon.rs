//! `cargo xtask bench --work daemon`: what a routing daemon asks of trueup, measured from the call
//! to the kernel's own event, beside the same change as one raw request.
//!
//! Each part is done by a process of its own, in a network namespace of its own. A line of JSON
//! goes to the standard output for each row as soon as it is measured; a table of all goes to the
//! standard error in the end.

use std::env;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use trueup_benches::daemon::table::{Exceptions, Form};
use trueup_benches::daemon::{FLOOR, bird, day, forms, watch};
use trueup_benches::row::{Row, table};

use flags::Daemon;

#[allow(missing_docs, reason = "the macro documents the flags, not the struct that it makes")]
mod flags {
    use std::path::PathBuf;

    xflags::xflags! {
        /// Measures what a routing daemon asks of trueup. The prefixes of a day are read from the
        /// folder that $TRUEUP_DATA names, from internet-v4.txt.gz and internet-v6.txt.gz with a
        /// prefix at the start of each line; else they are made up.
        cmd daemon {
            /// Measure this part alone: forms, day, watch or bird; may be repeated.
            repeated --part name: String
            /// How many IPv4 routes a day has; 1,000,000 by default.
            optional --v4 routes: usize
            /// How many IPv6 routes a day has; 200,000 by default.
            optional --v6 routes: usize
            /// How long each part of a day lasts; 60 by default.
            optional --seconds seconds: u64
            /// Among how many routes single changes are measured, with commas between the numbers;
            /// 1000,50000,1000000 by default.
            optional --sizes list: String
            /// How many single changes of each form; 500 by default.
            optional --changes changes: usize
            /// How many routes the file of `trueup watch` has; 50,000 by default.
            optional --watched routes: usize
            /// How many of them are deleted and restored; 50 by default.
            optional --samples samples: usize
            /// `--v4 20000 --v6 4000 --seconds 6 --sizes 1000 --changes 50 --watched 1000
            /// --samples 5`, unless any is given.
            optional --quick
            /// The command `trueup`: set by xtask. Without it `watch` is left out.
            optional --trueup path: PathBuf
            /// The piece of work of this process: for the benchmark's own use.
            optional --piece piece: String
        }
    }
}

/// The parts, in their order.
const PARTS: [&str; 4] = ["forms", "day", "watch", "bird"];
/// The bound of one piece of work, in seconds.
const TIMEOUT: &str = "3600";

fn main() -> Result<ExitCode> {
    let mut flags = Daemon::from_env_or_exit();
    if flags.quick {
        quicken(&mut flags);
    }
    if let Some(piece) = &flags.piece {
        work(piece, &flags)?;
        return Ok(ExitCode::SUCCESS);
    }
    for part in &flags.part {
        ensure!(PARTS.contains(&&**part), "no such part: {part}");
    }
    // Before there is a second thread.
    trueup_testkit::enter()?;
    let mut rows = Vec::new();
    let mut failed = Vec::new();
    for piece in pieces(&flags)? {
        if let Err(error) = run(&piece, &flags, &mut rows) {
            eprintln!("{piece}: {error:#}");
            failed.push(piece);
        }
    }
    eprintln!("{}", table(&rows, FLOOR));
    match failed.is_empty() {
        true => Ok(ExitCode::SUCCESS),
        false => bail!("failed: {}", failed.join(", ")),
    }
}

fn quicken(flags: &mut Daemon) {
    flags.v4.get_or_insert(20_000);
    flags.v6.get_or_insert(4_000);
    flags.seconds.get_or_insert(6);
    flags.sizes.get_or_insert("1000".to_owned());
    flags.changes.get_or_insert(50);
    flags.watched.get_or_insert(1_000);
    flags.samples.get_or_insert(5);
}

/// The pieces of work, each for a process.
fn pieces(flags: &Daemon) -> Result<Vec<String>> {
    let mut pieces = Vec::new();
    for part in PARTS {
        if !flags.part.is_empty() && !flags.part.iter().any(|named| named == part) {
            continue;
        }
        match part {
            "forms" => {
                for size in sizes(flags)? {
                    for form in Form::ALL {
                        for exceptions in Exceptions::OF_FORMS {
                            let (form, with) = (form.name(), exceptions.name());
                            pieces.push(format!("form:{form}:{size}:{with}"));
                        }
                    }
                }
            }
            "watch" if flags.trueup.is_none() => eprintln!("watch: left out: no --trueup"),
            "watch" => pieces.extend(watch::STATES.map(|(state, ..)| format!("watch:{state}"))),
            "bird" => {
                eprintln!("zebra: left out: it takes changes from FRR's other daemons alone");
                match bird::find() {
                    Some(_) => pieces.push(part.to_owned()),
                    None => eprintln!("bird: left out: not installed (Debian's package bird2)"),
                }
            }
            other => pieces.push(other.to_owned()),
        }
    }
    Ok(pieces)
}

fn sizes(flags: &Daemon) -> Result<Vec<usize>> {
    let list = flags.sizes.as_deref().unwrap_or("1000,50000,1000000");
    let sizes = list.split(',').filter(|size| !size.is_empty());
    sizes.map(|size| size.parse().with_context(|| format!("--sizes: {size}"))).collect()
}

/// Has a process do a piece of work, prints its rows, and keeps them.
fn run(piece: &str, flags: &Daemon, rows: &mut Vec<Row>) -> Result<()> {
    let (v4, v6) = of_day(flags);
    let mut command = Command::new("timeout");
    command
        .arg(TIMEOUT)
        .arg(env::current_exe()?)
        .args(["--piece", piece])
        .args(["--v4", &v4.to_string(), "--v6", &v6.to_string()])
        .args(["--seconds", &lasts(flags).as_secs().to_string()])
        .args(["--changes", &changes(flags).to_string()])
        .args(["--watched", &watched(flags).to_string()])
        .args(["--samples", &samples(flags).to_string()]);
    if let Some(trueup) = &flags.trueup {
        command.arg("--trueup").arg(trueup);
    }
    let mut child = command.stdout(Stdio::piped()).spawn().context("timeout, of coreutils")?;
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).lines() {
            let row: Row = serde_json::from_str(&line?).context("a row")?;
            row.print()?;
            rows.push(row);
        }
    }
    let status = child.wait()?;
    ensure!(status.success(), "{status}");
    Ok(())
}

fn of_day(flags: &Daemon) -> (usize, usize) {
    (flags.v4.unwrap_or(1_000_000), flags.v6.unwrap_or(200_000))
}

fn lasts(flags: &Daemon) -> Duration {
    Duration::from_secs(flags.seconds.unwrap_or(60))
}

fn changes(flags: &Daemon) -> usize {
    flags.changes.unwrap_or(500)
}

fn watched(flags: &Daemon) -> usize {
    flags.watched.unwrap_or(50_000)
}

fn samples(flags: &Daemon) -> usize {
    flags.samples.unwrap_or(50)
}

/// The side of the process that does one piece of work.
fn work(piece: &str, flags: &Daemon) -> Result<()> {
    let words: Vec<&str> = piece.split(':').collect();
    match words[..] {
        ["form", form, size, with] => {
            let form = Form::named(form).with_context(|| format!("no such form: {form}"))?;
            let exceptions =
                Exceptions::named(with).with_context(|| format!("no such state: {with}"))?;
            print(&forms::run(form, size.parse()?, exceptions, changes(flags))?)
        }
        ["day"] => day::run(of_day(flags), lasts(flags), &mut |row| row.print()),
        ["watch", state] => {
            let trueup: Option<&PathBuf> = flags.trueup.as_ref();
            let trueup: &Path = trueup.context("--trueup is missing")?;
            let lasts = lasts(flags).min(Duration::from_secs(20));
            let (size, samples) = (watched(flags), samples(flags));
            print(&watch::run(trueup, state, size, lasts, samples)?)
        }
        ["bird"] => print(&[bird::run(of_day(flags))?]),
        _ => bail!("no such piece: {piece}"),
    }
}

fn print(rows: &[Row]) -> Result<()> {
    rows.iter().try_for_each(Row::print)
}

//! The internet's table, through 64 gateways, and thousands of rules: put in, held, taken out; by a
//! pass of trueup, by `ip -batch`, and by nothing but system calls, on the same machine in the same
//! run.
//!
//! Each piece of work is done by a process of its own, so that its peak memory is its own, in a
//! network namespace of its own: neither root nor a free machine is needed. Without `--data` the
//! prefixes are made up.

use std::env;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::{Context as _, Result, bail, ensure};
use trueup_benches::measurement::{self, Measurement};
use trueup_benches::prefixes::Prefixes;
use trueup_benches::usage::{measure, measure_command, memory};
use trueup_benches::{floor, state};
use trueup_file::{Settings, to_json, to_toml};
use trueup_net::Desired;
use trueup_reconcile::{PassInput, Report as _, Source as _};
use trueup_rtnl::{MemoryLedger, Namespace, Options, Rtnl};

use flags::Internet;

#[allow(missing_docs, reason = "the macro documents the flags, not the struct that it makes")]
mod flags {
    use std::ffi::OsString;
    use std::path::PathBuf;

    xflags::xflags! {
        /// Measures whole passes beside `ip -batch` on the same work.
        cmd internet {
            /// Where internet-v4.txt.gz and internet-v6.txt.gz are; $TRUEUP_DATA by default.
            /// Without either, prefixes of the same number and shape are made up.
            optional --data directory: PathBuf
            /// How many routes; by default all.
            optional --size routes: usize
            /// How many rules; 10,000 by default.
            optional --rules rules: usize
            /// Measure the growth from 1,000 routes to all, and from 1,250 rules to 10,000,
            /// instead.
            optional --growth
            /// Measure this `trueup` command as well, on TOML and JSON files of the same state.
            optional --agent command: PathBuf
            /// Take the median of so many runs; 1 by default.
            optional --runs runs: usize
            /// The piece of work of this process: for the benchmark's own use.
            optional --piece piece: String
            /// The command of the piece.
            repeated words: OsString
        }
    }
}

fn main() -> Result<ExitCode> {
    let flags = Internet::from_env_or_exit();
    if let Some(piece) = &flags.piece {
        println!("{}", serde_json::to_string(&work(piece, &flags)?)?);
        return Ok(ExitCode::SUCCESS);
    }
    // Before there is a second thread.
    trueup_testkit::enter()?;
    let scratch = PathBuf::from("/run/trueup-benches");
    fs::create_dir_all(&scratch)?;
    let bench = Bench { flags, scratch };
    if bench.flags.growth {
        bench.growth()?;
    } else {
        bench.one()?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The side of the process that does one piece of work.
fn work(piece: &str, flags: &Internet) -> Result<Measurement> {
    if piece == "command" {
        let [command, words @ ..] = &flags.words[..] else { bail!("no command") };
        let usage = measure_command(
            Command::new(command).args(words).stdout(Stdio::null()).stderr(Stdio::null()),
        )?;
        return Ok(Measurement { usage, ..Measurement::default() });
    }
    let size = flags.size.unwrap_or(usize::MAX);
    let rules = flags.rules.unwrap_or(RULES);
    let prefixes = || -> Result<Prefixes> { Ok(table(flags)?.thinned(size)) };
    let pass = |desired: &Desired, changes: bool| -> Result<Measurement> {
        let held = memory("VmRSS")?;
        let (report, usage) = measure(|| {
            let here = Namespace::current();
            let mut ledger = MemoryLedger::default();
            Rtnl::new().reconcile(PassInput::new(&here, desired, &mut ledger, &Options::default()))
        })?;
        let report = report?;
        let count = report.ops().count();
        ensure!(report.converged(), "not converged: {:?}", report.failed().next());
        ensure!(changes == (count > 0), "{piece}: {count} ops");
        Ok(Measurement { usage, held, count })
    };
    match piece {
        "create" => pass(&state::desired(&prefixes()?, rules), true),
        "keep" => pass(&state::desired(&prefixes()?, rules), false),
        "delete" => pass(&state::desired(&Prefixes::default(), 0), true),
        "floor-create" | "floor-delete" => {
            let requests = floor::encode(&prefixes()?, rules, piece == "floor-create")?;
            let held = memory("VmRSS")?;
            let (count, usage) = measure(|| floor::send(&requests))?;
            Ok(Measurement { usage, held, count: count? })
        }
        "floor-read" => {
            let held = memory("VmRSS")?;
            let (count, usage) = measure(floor::read)?;
            Ok(Measurement { usage, held, count: count? })
        }
        _ => bail!("no such piece: {piece}"),
    }
}

const RULES: usize = 10_000;

fn table(flags: &Internet) -> Result<Prefixes> {
    Prefixes::internet(flags.data.as_deref(), usize::MAX)
}

struct Bench {
    flags: Internet,
    scratch: PathBuf,
}

/// The three things that are done.
const WORK: [&str; 3] = ["create", "keep", "delete"];

impl Bench {
    fn one(&self) -> Result<()> {
        let prefixes = table(&self.flags)?.thinned(self.flags.size.unwrap_or(usize::MAX));
        let rules = self.flags.rules.unwrap_or(RULES);
        let runs = self.flags.runs.unwrap_or(1).max(1);
        println!(
            "{} IPv4 and {} IPv6 routes over {} gateways each, {rules} rules, median of {runs}",
            prefixes.v4.len(),
            prefixes.v6.len(),
            state::GATEWAYS
        );
        let routes = prefixes.len();
        let mut all: Vec<[[Measurement; 3]; 3]> = Vec::new();
        for _ in 0..runs {
            // In turn, so that what else the machine does meets all alike.
            all.push([
                self.trueup(routes, rules)?,
                self.ip(&prefixes, rules)?,
                self.floor(routes, rules)?,
            ]);
        }
        let names = ["trueup", "ip -batch, ip show", "system calls alone"];
        let median = |who: usize, what: usize| {
            measurement::median(all.iter().map(|run| run[who][what]).collect())
        };
        for (what, work) in WORK.iter().enumerate() {
            let base = median(0, what);
            for (who, name) in names.iter().enumerate() {
                median(who, what).row(&format!("{work}: {name}"), (who > 0).then_some(&base));
            }
        }
        if let Some(agent) = &self.flags.agent {
            self.agent(agent, &prefixes, rules)?;
        }
        Ok(())
    }

    /// In a namespace of their own: create, hold, delete.
    fn trueup(&self, routes: usize, rules: usize) -> Result<[Measurement; 3]> {
        fresh();
        let piece = |piece| self.piece(piece, routes, rules);
        Ok([piece("create")?, piece("keep")?, piece("delete")?])
    }

    fn floor(&self, routes: usize, rules: usize) -> Result<[Measurement; 3]> {
        fresh();
        let piece = |piece| self.piece(piece, routes, rules);
        Ok([piece("floor-create")?, piece("floor-read")?, piece("floor-delete")?])
    }

    fn ip(&self, prefixes: &Prefixes, rules: usize) -> Result<[Measurement; 3]> {
        fresh();
        let paths = ["main", "rules-v6"].map(|name| self.scratch.join(name));
        let batch = |create| -> Result<Measurement> {
            let [mut main, mut rules_v6] =
                [File::create(&paths[0])?, File::create(&paths[1])?].map(BufWriter::new);
            state::write_batch(create, prefixes, rules, &mut main, &mut rules_v6)?;
            main.flush()?;
            rules_v6.flush()?;
            let script = if create {
                "ip -force -batch \"$0\" && ip -6 -force -batch \"$1\""
            } else {
                "ip -6 -force -batch \"$1\" && ip -force -batch \"$0\""
            };
            let [main, rules_v6] = paths.clone().map(OsString::from);
            self.command(&["sh".into(), "-c".into(), script.into(), main, rules_v6])
        };
        let show = "ip -4 route show table all; ip -6 route show table all; ip -4 rule; ip -6 rule";
        let create = batch(true)?;
        let there = self.piece("floor-read", 0, 0)?.count;
        ensure!(there >= prefixes.len() + rules, "`ip -batch` added less than it should have");
        let keep = self.command(&["sh".into(), "-c".into(), show.into()])?;
        Ok([create, keep, batch(false)?])
    }

    fn agent(&self, command: &Path, prefixes: &Prefixes, rules: usize) -> Result<()> {
        type Write = fn(&Settings, &Desired) -> String;
        let settings = Settings::default();
        for (format, write) in [("toml", to_toml as Write), ("json", to_json as Write)] {
            fresh();
            let path = self.scratch.join(format!("internet.{format}"));
            let nothing = self.scratch.join(format!("nothing.{format}"));
            fs::write(&path, write(&settings, &state::desired(prefixes, rules)))?;
            fs::write(&nothing, write(&settings, &state::desired(&Prefixes::default(), 0)))?;
            let run = |verb: &str, path: &PathBuf| {
                let state = self.scratch.join("state");
                let (command, path) = (command.to_path_buf().into(), path.clone().into());
                self.command(&[command, verb.into(), path, "--state".into(), state.into()])
            };
            run("plan", &path)?.row(&format!("trueup plan, {format}: all missing"), None);
            run("apply", &path)?.row(&format!("trueup apply, {format}: all missing"), None);
            run("plan", &path)?.row(&format!("trueup plan, {format}: nothing to do"), None);
            run("apply", &path)?.row(&format!("trueup apply, {format}: nothing to do"), None);
            run("apply", &nothing)?.row(&format!("trueup apply, {format}: all undesired"), None);
        }
        Ok(())
    }

    /// How the cost grows: routes without rules, then rules without routes.
    fn growth(&self) -> Result<()> {
        let all = table(&self.flags)?.len();
        let mut sizes = vec![1_000, 10_000, 100_000];
        sizes.retain(|size| *size < all);
        sizes.push(all);
        self.series("routes", &sizes, |size| self.trueup(size, 0))?;
        self.series("rules", &[1_250, 2_500, 5_000, 10_000], |size| self.trueup(0, size))
    }

    fn series(
        &self,
        what: &str,
        sizes: &[usize],
        run: impl Fn(usize) -> Result<[Measurement; 3]>,
    ) -> Result<()> {
        let runs = self.flags.runs.unwrap_or(1).max(1);
        println!("growth with the number of {what}, median of {runs}");
        let mut before: Option<(usize, [Measurement; 3])> = None;
        for size in sizes {
            let all: Vec<[Measurement; 3]> =
                (0..runs).map(|_| run(*size)).collect::<Result<_>>()?;
            let message: [Measurement; 3] = std::array::from_fn(|at| {
                measurement::median(all.iter().map(|run| run[at]).collect())
            });
            for (at, work) in WORK.iter().enumerate() {
                message[at].row(&format!("{work} {size}"), None);
                if let Some((smaller, old)) = &before {
                    measurement::slopes((*size, &message[at]), (*smaller, &old[at]));
                }
            }
            before = Some((*size, message));
        }
        Ok(())
    }

    /// Does a piece of work in a process of its own.
    fn piece(&self, piece: &str, routes: usize, rules: usize) -> Result<Measurement> {
        let mut command = Command::new(env::current_exe()?);
        if let Some(data) = &self.flags.data {
            command.arg("--data").arg(data);
        }
        command.args(["--size", &routes.to_string(), "--rules", &rules.to_string()]);
        run(command.args(["--piece", piece]))
    }

    fn command(&self, words: &[OsString]) -> Result<Measurement> {
        run(Command::new(env::current_exe()?).args(["--piece", "command", "--"]).args(words))
    }
}

fn fresh() {
    trueup_testkit::quiet_netns();
    state::make_uplink();
}

fn run(command: &mut Command) -> Result<Measurement> {
    let output = command.stderr(Stdio::inherit()).output()?;
    ensure!(output.status.success(), "{command:?}: {}", output.status);
    serde_json::from_slice(&output.stdout).context("what a piece of work tells")
}

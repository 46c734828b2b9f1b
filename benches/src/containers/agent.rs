//! trueup's runs: the example `container`, with a ledger for each container, in one journal or in
//! one each.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::Result;
use trueup_testkit::Snapshot;

use super::namespace::{
    self, Watcher, address, check_complete, check_others, check_without, device,
};
use super::row;
use super::runs::{self, Run, Took};
use crate::prefixes::Numbers;
use crate::row::Row;

/// Where the containers' ledgers are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Journals {
    /// In one file, for which the runs wait in turn.
    Shared,
    /// In a file each.
    Own,
}

impl Journals {
    fn program(self) -> &'static str {
        match self {
            Journals::Shared => "trueup",
            Journals::Own => "trueup-own-journals",
        }
    }
}

/// Measures it for so many containers, and checks after each part that nothing else was touched.
///
/// # Errors
///
/// When the namespace cannot be made, a run fails, or anything else was touched.
pub fn run(program: &Path, journals: Journals, containers: usize) -> Result<Vec<Row>> {
    let before = namespace::make(containers);
    let bench = Bench { program, journals, containers, scratch: Scratch::make()? };
    let show =
        |work: &str, title: &str, took| row(journals.program(), work, title, containers, took);
    let mut rows = Vec::new();

    let watcher = Watcher::start();
    let took = runs::at_once(bench.all(Bench::add))?;
    let add_at_once = took.total;
    rows.push(show("add-at-once", "ADD, all at once", took)?);
    let full = Snapshot::settled();
    check_complete(containers, &full)?;
    check_without(&full, 0..containers, &before)?;
    let took = runs::at_once(bench.all(Bench::delete))?;
    rows.push(show("del-at-once", "DEL, all at once", took)?);
    before_again(&before)?;

    let took = runs::alone(bench.all(Bench::add))?;
    let add_alone = took.total / u32::try_from(containers)?.max(1);
    rows.push(show("add-alone", "ADD, one after the other", took)?);
    check_without(&Snapshot::settled(), [], &full)?;
    let took = runs::alone(bench.all(Bench::delete))?;
    rows.push(show("del-alone", "DEL, one after the other", took)?);
    before_again(&before)?;

    let took = bench.killed_at_once(&full, add_at_once)?;
    let title = "DEL after a SIGKILL of ADD or DEL, many at once";
    rows.push(show("killed-at-once", title, took)?);
    before_again(&before)?;
    let took = bench.killed_alone(2 * add_alone)?;
    let title = "DEL after a SIGKILL of ADD or DEL, one after the other";
    rows.push(show("killed-alone", title, took)?);
    before_again(&before)?;
    watcher.end()?;
    Ok(rows)
}

fn before_again(before: &Snapshot) -> Result<()> {
    check_without(before, [], &Snapshot::settled())
}

struct Bench<'a> {
    program: &'a Path,
    journals: Journals,
    containers: usize,
    scratch: Scratch,
}

impl Bench<'_> {
    fn all(&self, run: impl Fn(&Self, usize) -> Run) -> Vec<Run> {
        (0..self.containers).map(|at| run(self, at)).collect()
    }

    fn add(&self, at: usize) -> Run {
        self.run(at, &["ADD", &name(at), &device(at), &address(at)])
    }

    fn delete(&self, at: usize) -> Run {
        self.run(at, &["DEL", &name(at)])
    }

    fn run(&self, at: usize, words: &[&str]) -> Run {
        let journal = match self.journals {
            Journals::Shared => "journal".to_owned(),
            Journals::Own => format!("journal-{at}"),
        };
        let mut command = Command::new(self.program);
        command.arg(self.scratch.0.join(journal)).args(words);
        Run { command, input: String::new(), prints: Some("converged: true\n") }
    }

    /// All containers are added at once, and half of the runs killed at random moments; these are
    /// deleted. The others are deleted, and half of those runs are killed, too. Returns what the
    /// deletes that were left to their end took.
    fn killed_at_once(&self, full: &Snapshot, within: Duration) -> Result<Took> {
        let mut numbers = Numbers(9);
        let mut moment = |is_killed: bool| is_killed.then(|| random(&mut numbers, within));
        let all = 0..self.containers;
        let adds = all.clone().map(|at| (self.add(at), moment(at % 2 == 0)));
        runs::at_once_and_killed(adds.collect())?;
        let killed = || all.clone().filter(|at| at % 2 == 0);
        check_others(full, killed(), &Snapshot::settled())?;
        let mut took = runs::at_once(killed().map(|at| self.delete(at)).collect())?;
        check_without(full, killed(), &Snapshot::settled())?;

        let others = || all.clone().filter(|at| at % 2 == 1);
        let deletes = others().map(|at| (self.delete(at), moment(at % 4 == 1)));
        took.add(runs::at_once_and_killed(deletes.collect())?);
        check_others(full, all.clone(), &Snapshot::settled())?;
        let again = others().map(|at| self.delete(at)).collect();
        took.add(runs::at_once(again)?);
        Ok(took)
    }

    /// Each container by itself: its ADD is killed, or its DEL, and a DEL follows.
    fn killed_alone(&self, within: Duration) -> Result<Took> {
        let mut numbers = Numbers(15);
        let mut took = Took::default();
        for at in 0..self.containers {
            if at % 2 == 0 {
                runs::killed(self.add(at), random(&mut numbers, within))?;
            } else {
                runs::alone(vec![self.add(at)])?;
                runs::killed(self.delete(at), random(&mut numbers, within))?;
            }
            took.add(runs::alone(vec![self.delete(at)])?);
        }
        Ok(took)
    }
}

impl Took {
    fn add(&mut self, other: Took) {
        self.each.extend(other.each);
        self.total += other.total;
        self.processor += other.processor;
    }
}

fn name(at: usize) -> String {
    format!("container-{at}")
}

fn random(numbers: &mut Numbers, within: Duration) -> Duration {
    let micros = u32::try_from(within.as_micros()).unwrap_or(u32::MAX);
    Duration::from_micros(numbers.below(micros.max(1)).into())
}

/// A directory of its own, which goes with it.
struct Scratch(PathBuf);

impl Scratch {
    fn make() -> Result<Scratch> {
        let name = format!("trueup-bench-containers-{}", std::process::id());
        let path = env::temp_dir().join(name);
        trueup_testkit::empty_directory(&path)?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // There is nothing to be done about what fails here.
        let _ = fs::remove_dir_all(&self.0);
    }
}

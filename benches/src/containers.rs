//! `cargo xtask bench --work containers`: many short runs of an agent in one namespace, as a
//! container runtime starts them. One process adds a container, and one deletes it: many at once,
//! each alone, and killed at random moments. It runs trueup's example,
//! `crates/agent/trueup/examples/container.rs`, with a ledger for each container, in one journal or
//! in one each, and the CNI project's plugins if they are installed.
//!
//! `runs` starts their processes. `namespace` makes the namespace and checks that nothing else in
//! it was touched.

mod namespace;
mod runs;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::json;
use trueup_testkit::{Snapshot, ip};
use trueup_works::clock::nanos;
use trueup_works::internet::Numbers;

use crate::row::{Row, table};
use namespace::{Watcher, address, check_complete, check_others, check_without, device};
use runs::{Run, Took};
use trueup_testkit::Scratch;

/// Measures many short runs of an agent in one namespace.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many containers; 200 by default.
    #[arg(long)]
    containers: Option<usize>,
    /// `--containers 20`, unless it is given.
    #[arg(long)]
    quick: bool,
    /// The example `crates/agent/trueup/examples/container.rs`: set by xtask.
    #[arg(long)]
    agent: PathBuf,
}

/// The plugins' name in the rows.
const PLUGINS: &str = "cni-bridge";
/// Debian's directory of the plugins.
const FOLDER: &str = "/usr/lib/cni";
/// The directory of their pool; here each namespace has its own `/run`.
const POOL: &str = "/run/trueup-bench-cni";

pub(crate) fn main(options: &Options) -> Result<()> {
    let containers = options.containers.unwrap_or(if options.quick { 20 } else { 200 });
    trueup_testkit::enter()?;
    let mut rows = Vec::new();
    let mut show = |measured: Vec<Row>| {
        measured.iter().try_for_each(Row::print)?;
        rows.extend(measured);
        anyhow::Ok(())
    };
    for program in ["trueup", "trueup-own-journals"] {
        let (agent, scratch) = (&options.agent, Scratch::make("containers")?);
        show(Bench { program, agent, containers, scratch }.run()?)?;
    }
    match plugins(containers) {
        Ok(measured) => show(measured)?,
        Err(error) => eprintln!("{PLUGINS}: left out: {error:#}"),
    }
    eprintln!("{}", table(&rows, PLUGINS));
    Ok(())
}

/// Returns a row for each work, with its costs.
fn rows(program: &str, containers: usize, took: Vec<(&str, &str, Took)>) -> Vec<Row> {
    let rows = took.into_iter().map(|(work, title, took)| {
        let count = took.each.len();
        let mut row = Row::new(program, format!("containers-{work}"), title)
            .with_times(took.each, containers)
            .with_processor(took.processor, count);
        (row.objects, row.total_ns) = (1, nanos(took.total));
        row
    });
    rows.collect()
}

fn check_as_before(before: &Snapshot) -> Result<()> {
    check_without(before, 0..0, &Snapshot::settled())
}

/// The runs of trueup's example.
struct Bench<'a> {
    program: &'a str,
    agent: &'a Path,
    containers: usize,
    scratch: Scratch,
}

impl Bench<'_> {
    /// Measures the runs, and checks after each part that nothing else was touched.
    fn run(&self) -> Result<Vec<Row>> {
        let before = namespace::make(self.containers);
        let watcher = Watcher::start();
        let add_at_once = runs::at_once(self.all(Bench::add))?;
        let full = Snapshot::settled();
        check_complete(self.containers, &full)?;
        check_without(&full, 0..self.containers, &before)?;
        let delete_at_once = runs::at_once(self.all(Bench::delete))?;
        check_as_before(&before)?;

        let add_alone = runs::alone(self.all(Bench::add))?;
        check_without(&Snapshot::settled(), 0..0, &full)?;
        let delete_alone = runs::alone(self.all(Bench::delete))?;
        check_as_before(&before)?;

        let killed_at_once = self.killed_at_once(&full, add_at_once.total)?;
        check_as_before(&before)?;
        let each = add_alone.total / u32::try_from(self.containers)?.max(1);
        let killed_alone = self.killed_alone(2 * each)?;
        check_as_before(&before)?;
        watcher.end()?;
        let killed = "DEL after a SIGKILL of ADD or DEL";
        Ok(rows(
            self.program,
            self.containers,
            vec![
                ("add-at-once", "ADD, all at once", add_at_once),
                ("del-at-once", "DEL, all at once", delete_at_once),
                ("add-alone", "ADD, one after the other", add_alone),
                ("del-alone", "DEL, one after the other", delete_alone),
                ("killed-at-once", &format!("{killed}, many at once"), killed_at_once),
                ("killed-alone", &format!("{killed}, one after the other"), killed_alone),
            ],
        ))
    }

    fn all(&self, run: impl Fn(&Self, usize) -> Run) -> Vec<Run> {
        (0..self.containers).map(|at| run(self, at)).collect()
    }

    fn add(&self, at: usize) -> Run {
        self.process(at, &["ADD", &name(at), &device(at), &address(at)])
    }

    fn delete(&self, at: usize) -> Run {
        self.process(at, &["DEL", &name(at)])
    }

    fn process(&self, at: usize, words: &[&str]) -> Run {
        let is_shared = self.program == "trueup";
        let journal = if is_shared { "journal".to_owned() } else { format!("journal-{at}") };
        let mut command = Command::new(self.agent);
        command.arg(self.scratch.join(journal)).args(words);
        Run { command, input: String::new(), prints: Some("converged: true\n") }
    }

    /// Adds all containers at once, and kills half of the runs at random moments; deletes the
    /// containers of the killed runs. Then deletes the others, and kills half of those runs, too.
    /// Returns the costs of the deletes that were not killed.
    fn killed_at_once(&self, full: &Snapshot, within: Duration) -> Result<Took> {
        let mut numbers = Numbers(9);
        let mut moment = |is_killed: bool| is_killed.then(|| random(&mut numbers, within));
        let all = 0..self.containers;
        let adds = all.clone().map(|at| (self.add(at), moment(at % 2 == 0)));
        runs::at_once_and_killed(adds.collect())?;
        let killed = all.clone().step_by(2);
        check_others(full, killed.clone(), &Snapshot::settled())?;
        let mut took = runs::at_once(killed.clone().map(|at| self.delete(at)).collect())?;
        check_without(full, killed.clone(), &Snapshot::settled())?;

        let others = all.clone().skip(1).step_by(2);
        let deletes = others.clone().map(|at| (self.delete(at), moment(at % 4 == 1)));
        took.add(runs::at_once_and_killed(deletes.collect())?);
        check_others(full, all.clone(), &Snapshot::settled())?;
        took.add(runs::at_once(others.map(|at| self.delete(at)).collect())?);
        Ok(took)
    }

    /// Handles one container at a time: kills its ADD, or its DEL, and runs a DEL afterwards.
    fn killed_alone(&self, within: Duration) -> Result<Took> {
        let mut numbers = Numbers(15);
        let mut took = Took::default();
        for at in 0..self.containers {
            let mut killed = self.add(at);
            if at % 2 == 1 {
                runs::alone(vec![killed])?;
                killed = self.delete(at);
            }
            killed.kill_after(random(&mut numbers, within))?;
            took.add(runs::alone(vec![self.delete(at)])?);
        }
        Ok(took)
    }
}

/// Measures the CNI project's plugins `bridge` and `host-local`, from Debian's
/// containernetworking-plugins. They do more for each container than the example: a pair of links,
/// one of them in the container's own namespace, an address from a pool, and a default route there.
fn plugins(containers: usize) -> Result<Vec<Row>> {
    let are_installed =
        ["bridge", "host-local"].iter().all(|name| Path::new(FOLDER).join(name).is_file());
    ensure!(are_installed, "not installed (Debian's package containernetworking-plugins)");
    trueup_testkit::quiet_netns();
    (0..containers).for_each(|at| drop(ip(&["netns", "add", &name(at)])));
    let took = vec![
        ("add-at-once", "ADD, all at once", runs::at_once(plugin_runs("ADD", containers))?),
        ("del-at-once", "DEL, all at once", runs::at_once(plugin_runs("DEL", containers))?),
        ("add-alone", "ADD, one after the other", runs::alone(plugin_runs("ADD", containers))?),
        ("del-alone", "DEL, one after the other", runs::alone(plugin_runs("DEL", containers))?),
    ];
    Ok(rows(PLUGINS, containers, took))
}

fn plugin_runs(verb: &str, containers: usize) -> Vec<Run> {
    (0..containers).map(|at| plugin(verb, at)).collect()
}

fn plugin(verb: &str, at: usize) -> Run {
    let config = json!({
        "cniVersion": "0.4.0",
        "name": "bench",
        "type": "bridge",
        "bridge": "cni0",
        "isGateway": true,
        "ipam": {
            "type": "host-local",
            "dataDir": POOL,
            "ranges": [[{ "subnet": "10.88.0.0/16" }]],
            "routes": [{ "dst": "0.0.0.0/0" }],
        },
    });
    let mut command = Command::new(Path::new(FOLDER).join("bridge"));
    command
        .env("CNI_COMMAND", verb)
        .env("CNI_CONTAINERID", name(at))
        .env("CNI_NETNS", format!("/run/netns/{}", name(at)))
        .env("CNI_IFNAME", "eth0")
        .env("CNI_PATH", FOLDER);
    Run { command, input: config.to_string(), prints: None }
}

fn name(at: usize) -> String {
    format!("container-{at}")
}

fn random(numbers: &mut Numbers, within: Duration) -> Duration {
    let micros = u32::try_from(within.as_micros()).unwrap_or(u32::MAX);
    Duration::from_micros(numbers.below(micros.max(1)).into())
}

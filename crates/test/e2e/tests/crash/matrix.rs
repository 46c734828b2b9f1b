//! Every point of a pass, combined with every continuation after the kill.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

use trueup_e2e::report::describe;
use trueup_reconcile::Report as _;
use trueup_testkit::Snapshot;
use trueup_testkit::crash::{in_parallel, nth_of, select};

use crate::agent::{Again, Died, Proof};
use crate::file::File;
use crate::host::{Host, seen};

/// The pass to be killed.
#[derive(Clone, Copy)]
struct Story {
    name: &'static str,
    /// The file to which the host had converged before; `None` for a fresh host.
    before: Option<File>,
    /// The pass's file.
    file: File,
    /// The acts that make the test meaningful, by the points of the pass's sends.
    does: &'static [(&'static str, &'static [&'static str])],
}

const EVERYTHING: &[&str] = &[
    "link",
    "address inet",
    "address inet6",
    "neighbour inet",
    "neighbour inet6",
    "route inet",
    "route inet6",
    "rule inet",
    "rule inet6",
];

const STORIES: [Story; 2] = [
    Story {
        name: "the first pass",
        before: None,
        file: File::First,
        does: &[("create", EVERYTHING)],
    },
    Story {
        name: "a changed file",
        before: Some(File::First),
        file: File::Second,
        does: &[
            ("create", EVERYTHING),
            ("delete", EVERYTHING),
            // A changed rule is a new rule.
            ("update", EVERYTHING.split_at(7).0),
        ],
    },
];

/// The number of runs for each class of kill points in a sample.
const PER_CLASS: usize = 1;

/// Runs at once. Each mostly waits for the kernel, but all namespaces share one lock.
const AT_ONCE: usize = 6;

/// The number of attempts before a point counts as unreachable. A process may go another way than
/// the first one, as an interrupted dump is repeated.
const TRIES: usize = 20;

pub(crate) fn killed_at_every_point(proof: Proof) {
    let begun = Instant::now();
    let known = Known::of(proof);
    for (story, points) in STORIES.iter().zip(&known.points) {
        for &(verb, kinds) in story.does {
            for kind in kinds {
                let send = format!("before send: {verb} {kind}");
                assert!(points.contains(&send), "{}: nowhere: {send}", story.name);
            }
        }
    }
    let runs = select(
        all_runs(&known.points),
        PER_CLASS,
        |run| format!("{}: {}", run.story().name, known.point(run)),
        Run::name,
    );
    let elsewhere = AtomicUsize::new(0);
    in_parallel(&runs, AT_ONCE, |run| {
        let there = || kill(&known, run) == known.point(run);
        let before = (0..TRIES).position(|_| there());
        let before = before.unwrap_or_else(|| panic!("out of reach: {}", known.point(run)));
        elsewhere.fetch_add(before, Ordering::Relaxed);
    });
    for (index, (story, points)) in STORIES.iter().zip(&known.points).enumerate() {
        let kills = runs.iter().filter(|run| run.story == index).count();
        println!(
            "crash matrix, by {proof}, {}: {} kill points x 3 restarts, {kills} kills",
            story.name,
            points.len()
        );
    }
    println!(
        "by {proof}: {} of the kills came at another point, and were repeated; {:.0} s",
        elsewhere.into_inner(),
        begun.elapsed().as_secs_f64()
    );
}

/// A kill, and the next process's file.
struct Run {
    /// An index into [`STORIES`].
    story: usize,
    /// The point's index in the story.
    at: usize,
    after: File,
}

impl Run {
    fn story(&self) -> Story {
        STORIES[self.story]
    }

    fn name(&self) -> String {
        let (name, at) = (self.story().name, self.at + 1);
        format!("{name} killed at {at}, then {}", self.after.name())
    }
}

/// Returns each point of each story with each restart: with the same file, another one, and an
/// emptied one.
fn all_runs(points: &[Vec<String>; 2]) -> Vec<Run> {
    let mut runs = Vec::new();
    for (index, points) in points.iter().enumerate() {
        for at in 0..points.len() {
            let files = [STORIES[index].file, File::Third, File::Nothing];
            runs.extend(files.map(|after| Run { story: index, at, after }));
        }
    }
    runs
}

/// The results on hosts without a kill.
struct Known {
    proof: Proof,
    /// The rows without ours, before and after.
    foreign: Snapshot,
    after: BTreeMap<File, Vec<String>>,
    /// The points of each story.
    points: [Vec<String>; 2],
}

impl Known {
    fn of(proof: Proof) -> Known {
        let host = Host::new(proof);
        // The kernel announces carriers at most once a second.
        thread::sleep(Duration::from_millis(1500));
        let foreign = Snapshot::settled();
        drop(host);
        thread::scope(|scope| {
            let after = [File::First, File::Second, File::Third].map(|file| {
                let foreign = &foreign;
                (file, scope.spawn(move || converged(proof, foreign, file)))
            });
            let points = STORIES.map(|story| scope.spawn(move || whole(proof, story)));
            Known {
                proof,
                after: after.map(|(file, rows)| (file, joined(rows))).into(),
                points: points.map(joined),
                foreign: foreign.clone(),
            }
        })
    }

    fn point(&self, run: &Run) -> String {
        self.points[run.story][run.at].clone()
    }
}

fn joined<T>(thread: ScopedJoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
}

/// Returns the view of a host that has converged to a file.
fn converged(proof: Proof, foreign: &Snapshot, file: File) -> Vec<String> {
    let host = Host::new(proof);
    host.becomes(foreign);
    converge(&host, file);
    thread::sleep(Duration::from_millis(1500));
    let _settled = Snapshot::settled();
    let rows = seen();
    converge(&host, File::Nothing);
    host.becomes(foreign);
    rows
}

/// Returns the points of a pass without a kill, once two passes agree on them.
fn whole(proof: Proof, story: Story) -> Vec<String> {
    let points = || {
        let host = Host::new(proof);
        if let Some(file) = story.before {
            converge(&host, file);
        }
        match host.agent.killed(story.file, None) {
            Died::Not(points) => points,
            Died::At(point) => panic!("killed at {point}"),
        }
    };
    let mut seen = vec![points()];
    for _ in 0..TRIES {
        let now = points();
        if seen.contains(&now) {
            return now;
        }
        seen.push(now);
    }
    panic!("no two passes go the same way");
}

thread_local! {
    /// The host of this thread's last run, restored to its state before.
    static HOST: Cell<Option<Host>> = const { Cell::new(None) };
}

/// Kills a process, and checks the state after a restart. Returns the point of the kill.
fn kill(known: &Known, run: &Run) -> String {
    let host = HOST.take().unwrap_or_else(|| {
        let host = Host::new(known.proof);
        host.becomes(&known.foreign);
        host
    });
    host.agent.forget();
    let story = run.story();
    if let Some(file) = story.before {
        converge(&host, file);
    }
    let points = &known.points[run.story];
    let deadly = (&*points[run.at], nth_of(points, run.at));
    let point = match host.agent.killed(story.file, Some(deadly)) {
        Died::At(point) => point,
        // It went another way, to the end.
        Died::Not(_) => "none".to_owned(),
    };
    let ended = catch_unwind(AssertUnwindSafe(|| {
        restarted(known, &host, run.after);
        if run.after != File::Nothing {
            // Everything can be deleted: no object was forgotten.
            converge(&host, File::Nothing);
            host.becomes(&known.foreign);
        }
    }));
    if let Err(panic) = ended {
        let why = panic.downcast_ref::<String>().map_or("", String::as_str);
        panic!("{} ({point}): {why}", run.name());
    }
    HOST.set(Some(host));
    point
}

/// Makes a pass in a new process after a kill, and checks the result.
fn restarted(known: &Known, host: &Host, file: File) {
    converge(host, file);
    match known.after.get(&file) {
        None => host.becomes(&known.foreign),
        Some(expected) => {
            host.looks(expected);
            let diff = known.foreign.diff(&Snapshot::take());
            let lost: Vec<_> = diff.lines().filter(|line| !line.starts_with('+')).collect();
            assert!(lost.is_empty(), "touched:\n{}", lost.join("\n"));
        }
    }

    let again = host.agent.again(file);
    let Again { owned, open, .. } = &again;
    assert!(open.is_empty(), "not known to be done or not: {open:?}");
    assert!(owned.is_empty() || file != File::Nothing, "ours, though gone: {owned:?}");
    assert!(again.report.converged(), "{}", describe(&again.report));
    assert_eq!(again.report.ops().count(), 0, "{}", describe(&again.report));
    let acts = ["create", "update", "delete"];
    let is_act = |point: &&String| acts.iter().any(|act| point.contains(act));
    let did: Vec<_> = again.points.iter().filter(is_act).collect();
    assert!(did.is_empty(), "a second pass did {did:?}");
    assert_eq!(again.writes, 0, "a second pass wrote to its journal");
}

#[track_caller]
fn converge(host: &Host, file: File) {
    let report = host.agent.pass(file);
    assert!(report.converged(), "{}:\n{}", file.name(), describe(&report));
}

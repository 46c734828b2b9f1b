//! Every point of a pass, times what comes after the kill.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use trueup_e2e::report::describe;
use trueup_reconcile::Report as _;
use trueup_testkit::Snapshot;
use trueup_testkit::crash::{in_parallel, select};

use crate::agent::{Again, Died, Proof};
use crate::file::File;
use crate::host::{Host, seen};

/// The pass that is killed.
#[derive(Clone, Copy)]
struct Story {
    name: &'static str,
    /// What the host had come to before.
    before: Option<File>,
    /// What the pass is for.
    file: File,
    /// What it has to do to have been worth the name, as the points of its sends have it.
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
            // A rule that changes is another rule.
            ("update", EVERYTHING.split_at(7).0),
        ],
    },
];

/// Runs of each class of kill points that a sample has.
const PER_CLASS: usize = 2;

/// Runs at once: each waits for the kernel most of the time, but for the one lock that all
/// namespaces share.
const AT_ONCE: usize = 8;

/// How often a process may go another way than the first one (a dump that was interrupted is
/// repeated, and then all later points have other numbers) before its point counts as out of reach.
const TRIES: usize = 20;

pub(crate) fn killed_at_every_point(proof: Proof) {
    let known = Known::of(proof);
    for story in STORIES {
        let begun = Instant::now();
        let points = whole(proof, story);
        for &(verb, kinds) in story.does {
            for kind in kinds {
                let send = format!("before send: {verb} {kind}");
                assert!(points.contains(&send), "{}: nowhere: {send}", story.name);
            }
        }
        let after = after(story);
        let runs: Vec<_> = (1..=points.len())
            .flat_map(|at| after.map(|file| (at, file)))
            .collect();
        let runs = select(
            runs,
            PER_CLASS,
            |(at, _)| points[at - 1].clone(),
            |(at, file)| called(story, *at, *file),
        );
        let elsewhere = AtomicUsize::new(0);
        in_parallel(&runs, AT_ONCE, |&(at, file)| {
            let there = || kill(&known, story, at, file) == points[at - 1];
            let before = (0..TRIES).position(|_| there());
            let before = before.unwrap_or_else(|| panic!("out of reach: {}", points[at - 1]));
            elsewhere.fetch_add(before, Ordering::Relaxed);
        });
        let after_the_last = || die(proof, story, points.len() + 1);
        let lives = (0..TRIES).any(|_| matches!(after_the_last(), Died::Not(_)));
        assert!(lives, "there are more points than were told");
        println!(
            "crash matrix, by {proof}, {}: {} kill points x {} restarts, {} kills (and {} elsewhere) in {:.0} s",
            story.name,
            points.len(),
            after.len(),
            runs.len(),
            elsewhere.into_inner(),
            begun.elapsed().as_secs_f64()
        );
    }
}

/// The restarts: with the same file, with another, and with an emptied one.
fn after(story: Story) -> [File; 3] {
    [story.file, File::Third, File::Nothing]
}

fn called(story: Story, at: usize, file: File) -> String {
    format!("{} killed at {at}, then {}", story.name, file.name())
}

/// What is to be seen of a host on which no process was killed.
struct Known {
    proof: Proof,
    /// Before us, and after us.
    foreign: Snapshot,
    after: BTreeMap<File, Vec<String>>,
}

impl Known {
    fn of(proof: Proof) -> Known {
        let host = Host::new(proof);
        // The kernel tells of carriers once a second at most.
        thread::sleep(Duration::from_millis(1500));
        let foreign = Snapshot::settled();
        let mut after = BTreeMap::new();
        for file in [File::First, File::Second, File::Third] {
            let host = Host::new(proof);
            host.becomes(&foreign);
            converge(&host, file);
            thread::sleep(Duration::from_millis(1500));
            let _settled = Snapshot::settled();
            after.insert(file, seen());
            converge(&host, File::Nothing);
            host.becomes(&foreign);
        }
        drop(host);
        Known {
            proof,
            foreign,
            after,
        }
    }
}

/// The points of a pass that no process kills, as soon as two passes agree on them.
fn whole(proof: Proof, story: Story) -> Vec<String> {
    let points = || match die(proof, story, 0) {
        Died::Not(points) => points,
        Died::At(point) => panic!("killed at {point}"),
    };
    let mut last = points();
    for _ in 0..TRIES {
        let now = points();
        if now == last {
            return now;
        }
        last = now;
    }
    panic!("no two passes go the same way");
}

fn die(proof: Proof, story: Story, at: usize) -> Died {
    let host = Host::new(proof);
    if let Some(file) = story.before {
        converge(&host, file);
    }
    host.agent.killed(story.file, at)
}

/// One kill, and what is so after it. The point that it was at.
fn kill(known: &Known, story: Story, at: usize, file: File) -> String {
    let host = Host::new(known.proof);
    host.becomes(&known.foreign);
    if let Some(file) = story.before {
        converge(&host, file);
    }
    let point = match host.agent.killed(story.file, at) {
        Died::At(point) => point,
        // It went another way, and all of it.
        Died::Not(_) => "none".to_owned(),
    };
    let ended = catch_unwind(AssertUnwindSafe(|| {
        restarted(known, &host, file);
        if file != File::Nothing {
            // All of it can go: nothing was forgotten.
            converge(&host, File::Nothing);
            host.becomes(&known.foreign);
        }
    }));
    if let Err(panic) = ended {
        let why = panic.downcast_ref::<String>().map_or("", String::as_str);
        panic!("{} ({point}): {why}", called(story, at, file));
    }
    point
}

/// What has to be so of a pass of a process that came after.
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
    assert!(
        owned.is_empty() || file != File::Nothing,
        "ours, though gone: {owned:?}"
    );
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
    assert!(
        report.converged(),
        "{}:\n{}",
        file.name(),
        describe(&report)
    );
}

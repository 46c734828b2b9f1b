//! Crash points: a process kills itself at one of its points, to show the state that a crash leaves
//! behind at every possible place.
//!
//! A first process passes all points and lists them; then one process for each of them dies there.
//! No destructor runs. For faults that a program can notice, see [`faults`](crate::faults).
//!
//! ```
//! use trueup_netlink::Socket;
//! use trueup_testkit::crash::Points;
//! use trueup_testkit::model::Kernel;
//!
//! let points = Points::counted();
//! let kernel = Kernel::new();
//! let mut socket = Socket::open(&points.namespace(kernel.namespace()))?;
//! socket.check_privilege()?;
//! assert_eq!(points.passed().last().unwrap(), "after send: delete link");
//! # Ok::<(), trueup_netlink::Error>(())
//! ```

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::hash::{Hash as _, Hasher as _};
use std::io::{self, Write as _};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::abort;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;

use rustix::process::{Signal, getpid, kill_process};
use trueup_netlink::{Connect, Namespace, Transport};

use crate::layer::{self, Layer};
use crate::message::{Kind, requests, u16_at};
use crate::runner::panic_text;

/// The points at which this process may die, counted from 1 as the process passes them. Clones
/// share the count.
///
/// ```
/// use trueup_testkit::crash::Points;
///
/// let points = Points::counted();
/// points.around("write", || ());
/// assert_eq!(points.passed().len(), 2); // one before and one after
/// ```
#[derive(Clone, Debug)]
pub struct Points(Arc<Mutex<Passed>>);

#[derive(Debug)]
struct Passed {
    points: Vec<String>,
    /// The deadly point, and how many passes are left, the deadly one included.
    deadly: Option<(String, usize)>,
}

impl Points {
    /// Returns points that only count: none is deadly.
    pub fn counted() -> Self {
        Self::new(None)
    }

    /// Returns points of which `point` is deadly when passed for the `nth` time, from 1. The
    /// process then prints the point's name on standard output and kills itself (`SIGKILL`). See
    /// [`nth_of`].
    pub fn deadly(point: &str, nth: usize) -> Self {
        Self::new(Some((point.to_owned(), nth)))
    }

    fn new(deadly: Option<(String, usize)>) -> Self {
        let points = Vec::new();
        Self(Arc::new(Mutex::new(Passed { points, deadly })))
    }

    /// Passes a point, named after the step just done or about to be done.
    pub fn pass(&self, point: String) {
        let mut passed = self.lock();
        let is_deadly = match &mut passed.deadly {
            Some((deadly, left)) if *deadly == point => {
                *left = left.saturating_sub(1);
                *left == 0
            }
            _ => false,
        };
        passed.points.push(point);
        if is_deadly {
            die(passed.points.last());
        }
    }

    /// Runs `work` with a point before and one after it.
    pub fn around<T>(&self, what: &str, work: impl FnOnce() -> T) -> T {
        self.pass(format!("before {what}"));
        let done = work();
        self.pass(format!("after {what}"));
        done
    }

    /// Returns all points passed so far, in order.
    pub fn passed(&self) -> Vec<String> {
        self.lock().points.clone()
    }

    /// Returns a namespace with a point before and after every message sent to it. A batch is sent
    /// message by message, so there are points in its middle too.
    pub fn namespace(&self, inner: Namespace) -> Namespace {
        Namespace::through(Arc::new(Deadly { inner, points: self.clone() }))
    }

    fn lock(&self) -> MutexGuard<'_, Passed> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Returns how often the point at index `at` has been passed by then, from 1. This number finds the
/// point again in the next run; its place does not, as a repeated dump (after an interruption)
/// shifts all later points.
///
/// ```
/// use trueup_testkit::crash::nth_of;
///
/// let points = ["write".to_owned(), "sync".to_owned(), "write".to_owned()];
/// assert_eq!(nth_of(&points, 2), 2); // the second `write`
/// ```
pub fn nth_of(points: &[String], at: usize) -> usize {
    let same = points[..=at].iter().filter(|point| **point == points[at]);
    same.count()
}

/// Selects the runs that this process makes. `TRUEUP_CRASH` is `all` or the name of a single run.
/// Without it, up to `per_class` runs of each class are drawn by `TRUEUP_SEED` (a number, by
/// default 1). A class is the text of a point, such as `after send: delete link`.
///
/// # Panics
///
/// If `TRUEUP_SEED` is not a number.
pub fn select<T>(
    runs: Vec<T>,
    per_class: usize,
    class: impl Fn(&T) -> String,
    name: impl Fn(&T) -> String,
) -> Vec<T> {
    match env::var("TRUEUP_CRASH").as_deref() {
        Ok("all") => return runs,
        Ok(only) => return runs.into_iter().filter(|run| name(run) == only).collect(),
        Err(_) => {}
    }
    let seed: u64 = env::var("TRUEUP_SEED").map_or(1, |text| text.parse().unwrap());
    sample(runs, per_class, class, seed)
}

/// Draws up to `per_class` runs of each class and keeps their order.
fn sample<T>(runs: Vec<T>, per_class: usize, class: impl Fn(&T) -> String, seed: u64) -> Vec<T> {
    let mut classes: BTreeMap<String, Vec<(u64, usize)>> = BTreeMap::new();
    for (at, run) in runs.iter().enumerate() {
        let mut hasher = DefaultHasher::new();
        (seed, at).hash(&mut hasher);
        let drawn = (hasher.finish(), at);
        classes.entry(class(run)).or_default().push(drawn);
    }
    let mut kept = BTreeSet::new();
    for mut drawn in classes.into_values() {
        drawn.sort_unstable();
        kept.extend(drawn.iter().take(per_class).map(|(_, at)| *at));
    }
    let mut at = 0..;
    runs.into_iter().filter(|_| at.next().is_some_and(|at| kept.contains(&at))).collect()
}

/// Executes the runs, `at_once` at a time, each on the next free thread: a run spends most of its
/// time waiting for the kernel.
///
/// # Panics
///
/// After all runs are over, with the messages of those that panicked.
pub fn in_parallel<T: Sync>(runs: &[T], at_once: usize, run: impl Fn(&T) + Sync) {
    let next = AtomicUsize::new(0);
    let failed = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..at_once {
            scope.spawn(|| {
                while let Some(one) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(one))) {
                        let mut failed = failed.lock().unwrap_or_else(PoisonError::into_inner);
                        failed.push(panic_text(&*panic).to_owned());
                    }
                }
            });
        }
    });
    let mut failed = failed.into_inner().unwrap_or_else(PoisonError::into_inner);
    failed.sort();
    let (count, all) = (failed.len(), runs.len());
    assert!(failed.is_empty(), "{count} of {all} failed:\n{}", failed.join("\n"));
}

fn die(point: Option<&String>) -> ! {
    if let Some(point) = point {
        let _nobody_reads = writeln!(io::stdout(), "{point}");
    }
    let _killed = kill_process(getpid(), Signal::KILL);
    // Not reached: a signal to oneself arrives before the call returns. If it were, the test would
    // fail without a crash.
    abort()
}

#[derive(Debug)]
struct Deadly {
    inner: Namespace,
    points: Points,
}

impl Connect for Deadly {
    fn connect(&self) -> io::Result<Box<dyn Transport>> {
        let points = self.points.clone();
        layer::connect(&self.inner, OneByOne { points })
    }

    fn below(&self) -> Option<&Namespace> {
        Some(&self.inner)
    }
}

struct OneByOne {
    points: Points,
}

impl Layer for OneByOne {
    fn send(&mut self, inner: &mut dyn Transport, datagram: &[u8]) -> io::Result<()> {
        requests(datagram).try_for_each(|request| {
            let what = format!("send: {}", named(request));
            self.points.around(&what, || inner.send(request))
        })
    }
}

/// Describes a request in words: `create`, `update`, `delete`, `query` or `dump`, the kind, and the
/// family if it has one.
fn named(request: &[u8]) -> String {
    const NLM_F_DUMP: u16 = 0x300;
    const NLM_F_CREATE: u16 = 0x400;
    const NLM_F_REPLACE: u16 = 0x100;
    const HEADER: usize = 16;
    let Some(family) = request.get(HEADER) else {
        return "noop".to_owned();
    };
    let (message_type, flags) = (u16_at(request, 4), u16_at(request, 6));
    let creates = flags & (NLM_F_CREATE | NLM_F_REPLACE) == NLM_F_CREATE;
    let verb = match message_type & 3 {
        0 if creates => "create",
        0 => "update",
        1 => "delete",
        _ if flags & NLM_F_DUMP == NLM_F_DUMP => "dump",
        _ => "query",
    };
    let kind = Kind::ALL
        .into_iter()
        .find(|kind| kind.new_type() == message_type & !3)
        .map_or("other", Kind::word);
    match family {
        2 => format!("{verb} {kind} inet"),
        10 => format!("{verb} {kind} inet6"),
        _ => format!("{verb} {kind}"),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::Command;

    use super::*;
    use crate::message::framed;
    use crate::model::Kernel;
    use trueup_netlink::{Batch, Socket};

    const AT: &str = "TESTKIT_CRASH_AT";

    fn batch(points: &Points) {
        let mut socket = Socket::open(&points.namespace(Kernel::new().namespace())).unwrap();
        let mut batch = Batch::new();
        for (kind, verb, family) in [(Kind::Link, 0x400, 0), (Kind::Route, 0x500, 10)] {
            let mut body = vec![0; kind.header_len()];
            body[0] = family;
            let message = framed(kind.new_type(), verb, 0, 0, &body);
            let pushed = batch.push(|buffer| {
                buffer.extend(message);
                Ok::<_, io::Error>(())
            });
            assert!(pushed.unwrap());
        }
        assert_eq!(socket.send_batch(&mut batch).unwrap().len(), 2);
    }

    #[test]
    fn all_runs_are_carried_out_and_those_that_fail_are_reported() {
        let done = AtomicUsize::new(0);
        let run = |at: &usize| {
            done.fetch_add(1, Ordering::Relaxed);
            assert_ne!(at % 3, 1, "run {at}");
        };
        let ended = catch_unwind(AssertUnwindSafe(|| in_parallel(&[1, 2, 3, 4, 5], 2, run)));
        let panic = ended.unwrap_err();
        assert_eq!(done.into_inner(), 5);
        let message = panic_text(&*panic);
        assert!(message.starts_with("2 of 5 failed:"), "{message}");
        assert!(message.contains("run 1") && message.contains("run 4"), "{message}");
    }

    #[test]
    fn a_sample_has_runs_of_every_class_and_another_seed_has_others() {
        let runs: Vec<u32> = (0..400).collect();
        let class = |run: &u32| format!("class {}", if *run < 2 { 99 } else { run % 7 });
        let kept = sample(runs.clone(), 3, class, 1);
        let classes: Vec<_> = kept.iter().map(class).collect();
        for (count, name) in (0..7).map(|n| (3, n)).chain([(2, 99)]) {
            let name = format!("class {name}");
            let found = classes.iter().filter(|class| **class == name).count();
            assert_eq!(found, count, "{name}");
        }
        assert!(kept.is_sorted());
        assert_eq!(kept, sample(runs.clone(), 3, class, 1));
        assert_ne!(kept, sample(runs, 3, class, 2));
    }

    #[test]
    fn between_any_two_messages_of_a_batch_there_are_points() {
        let points = Points::counted();
        batch(&points);
        let expected = [
            "before send: create link",
            "after send: create link",
            "before send: update route inet6",
            "after send: update route inet6",
        ];
        assert_eq!(points.passed(), expected);
    }

    /// Runs in the process that dies; it is not a test itself.
    #[test]
    fn child() {
        if let Ok(deadly) = env::var(AT) {
            let (nth, point) = deadly.split_once(' ').unwrap();
            batch(&Points::deadly(point, nth.parse().unwrap()));
        }
    }

    #[test]
    fn a_process_dies_at_each_point_and_lives_after_the_last() {
        let points = Points::counted();
        batch(&points);
        let points = points.passed();
        assert_eq!(points.len(), 4);
        let runs = points.iter().map(|point| (point, 1)).chain([(&points[3], 2)]);
        for (point, nth) in runs {
            let output = Command::new(env::current_exe().unwrap())
                .args(["crash::tests::child", "--exact", "--nocapture"])
                .env(AT, format!("{nth} {point}"))
                .output()
                .unwrap();
            if nth == 2 {
                assert!(output.status.success(), "{output:?}");
                continue;
            }
            assert_eq!(output.status.signal(), Some(9), "{output:?}");
            let message = String::from_utf8(output.stdout).unwrap();
            assert_eq!(message.lines().last(), Some(&**point));
        }
    }

    #[test]
    fn a_point_passed_again_has_another_number() {
        let points = ["a", "b", "a", "a", "b"].map(str::to_owned);
        let numbers: Vec<_> = (0..5).map(|at| nth_of(&points, at)).collect();
        assert_eq!(numbers, [1, 1, 2, 3, 2]);
    }
}

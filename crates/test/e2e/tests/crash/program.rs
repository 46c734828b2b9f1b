//! The agent itself, killed at every system call that sends or writes something, in its first pass
//! and in one with another file. The next agent takes over with the same file, another one, and an
//! emptied one.
//!
//! `matrix` covers every message of a batch, for objects of every kind and without markers. Here
//! the installed program runs, with its own journal.

use std::cell::Cell;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use trueup::journal::Journal;
use trueup_testkit::crash::{in_parallel, nth_of, select};
use trueup_testkit::{Kind, Snapshot, ip_batch, quiet_netns};

use crate::host::until_it_is;
use crate::trace::{Ended, run};

const THEIRS: [&str; 9] = [
    "link add name for0 address 02:00:00:00:99:00 type veth peer name for1 address 02:00:00:00:99:01",
    "link set dev for0 up",
    "link set dev for1 up",
    "address add 10.200.0.1/24 dev for0",
    "address add fd00:200::1/64 dev for0 nodad",
    "neighbour add 10.200.0.9 lladdr 02:00:00:00:00:99 dev for0 nud permanent",
    "route add 10.50.0.0/16 via 10.200.0.9 protocol static",
    "route add fd50::/32 via fd00:200::9 protocol static",
    "rule add priority 1000 from 10.200.0.0/24 lookup 100",
];

/// A file and the expected state: the links, and the number of rows with our marker.
#[derive(Debug)]
struct File {
    name: &'static str,
    text: &'static str,
    links: &'static [&'static str],
    marked: usize,
}

const FIRST: File = File {
    name: "first",
    text: r#"
        link = [
            { name = "v0", kind = "veth", peer = "v1", up = true },
            { name = "v1", kind = "veth", peer = "v0", up = true },
            { name = "vx0", kind = "vxlan", id = 100, port = 4789, up = true },
        ]
        address = [{ dev = "v0", address = "10.1.0.1/24" }, { dev = "for0", address = "fd00:200::50/128", nodad = true }]
        neighbour = [{ dev = "v0", dst = "10.1.0.9", lladdr = "02:00:00:00:00:01" }]
        route = [{ dst = "10.10.0.0/16", via = "10.1.0.9" }, { dst = "fd10::/32", via = "fd00:200::9" }]
        rule = [{ priority = 1000, from = "10.1.0.0/24", table = 100 }]
    "#,
    links: &["v0", "v1", "vx0"],
    marked: 6,
};

const SECOND: File = File {
    name: "second",
    text: r#"
        link = [
            { name = "v0", kind = "veth", peer = "v1", up = true, mtu = 1400 },
            { name = "v1", kind = "veth", peer = "v0", up = true },
            { name = "vx0", kind = "vxlan", id = 101, port = 4789, up = true },
            { name = "ifb7", kind = "ifb", up = true },
        ]
        address = [{ dev = "v0", address = "10.1.0.1/24" }, { dev = "ifb7", address = "fd07::1/64", nodad = true }]
        neighbour = [{ dev = "v0", dst = "10.1.0.9", lladdr = "02:00:00:00:00:02" }]
        route = [{ dst = "10.10.0.0/16", via = "10.1.0.8" }, { dst = "fd11::/32", via = "fd07::9" }]
        rule = [{ priority = 1000, from = "10.1.0.0/24", table = 101 }]
    "#,
    links: &["ifb7", "v0", "v1", "vx0"],
    marked: 6,
};

const THIRD: File = File {
    name: "third",
    text: r#"
        link = [{ name = "vx0", kind = "vxlan", id = 102, port = 4789, up = true }]
        address = [{ dev = "vx0", address = "10.1.0.1/24" }]
        neighbour = []
        route = [{ dst = "10.10.0.0/16", via = "10.1.0.7" }]
        rule = [{ priority = 1000, from = "10.1.0.0/24", table = 101 }, { priority = 1000, from = "fd01::/64", table = 101 }]
    "#,
    links: &["vx0"],
    marked: 4,
};

const NOTHING: File = File {
    name: "nothing",
    text: "link = []\naddress = []\nneighbour = []\nroute = []\nrule = []\n",
    links: &[],
    marked: 0,
};

/// Returns the foreign objects alone in a namespace, settled: they are equal in all these
/// namespaces, byte for byte.
fn theirs() -> Snapshot {
    quiet_netns();
    ip_batch(THEIRS);
    // The kernel announces carriers at most once a second.
    thread::sleep(Duration::from_millis(1500));
    Snapshot::settled()
}

/// The calling thread's namespace with the foreign objects, and the agent's directory.
struct Host {
    directory: PathBuf,
}

impl Host {
    fn new(theirs: &Snapshot) -> Host {
        quiet_netns();
        ip_batch(THEIRS);
        until_it_is(theirs);
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let directory = PathBuf::from(format!("/run/crash-agent-{}-{next}", std::process::id()));
        fs::create_dir(&directory).unwrap();
        Host { directory }
    }

    /// Deletes the agent's state, as if it had never run.
    fn forget(&self) {
        fs::remove_dir_all(&self.directory).unwrap();
        fs::create_dir(&self.directory).unwrap();
    }

    /// Runs an agent on a host converged to `before`, and kills the agent if it reaches a point.
    fn dies(&self, before: Option<&File>, file: &File, deadly: Option<(&str, usize)>) -> Ended {
        if let Some(before) = before {
            self.succeeds("apply", before);
        }
        run(&mut self.command("apply", file), deadly)
    }

    fn command(&self, command: &str, file: &File) -> Command {
        let path = self.directory.join(file.name);
        fs::write(&path, file.text).unwrap();
        let mut agent = Command::new(env!("CARGO_BIN_EXE_trueup-under-test"));
        agent.arg(command).arg(path);
        agent.arg("--state").arg(self.directory.join("state"));
        agent
    }

    fn succeeds(&self, command: &str, file: &File) {
        let output = self.command(command, file).output().unwrap();
        assert!(output.status.success(), "{command} {}: {output:?}", file.name);
    }

    /// Makes a pass after a kill, and checks the result.
    fn restarted(&self, file: &File, theirs: &Snapshot) {
        self.succeeds("apply", file);
        // Nothing is left to do, by the plan and by the journal.
        self.succeeds("plan", file);
        for entry in fs::read_dir(self.directory.join("state")).unwrap() {
            let path = entry.unwrap().path();
            if path.extension().is_some_and(|known| known == "journal") {
                let mut lines = Vec::new();
                Journal::open_read_only(&path).unwrap().export(&mut lines).unwrap();
                let lines = String::from_utf8(lines).unwrap();
                assert!(!lines.contains("intent"), "{lines}");
                assert!(lines.is_empty() || file.marked > 0, "{lines}");
            }
        }
        // And by the kernel's state.
        let now = Snapshot::take();
        let links = now.of(Kind::Link).map(|link| link.ifname().unwrap());
        let mut links: Vec<_> = links.collect();
        links.sort();
        let mut expected = [file.links, &["for0", "for1", "lo"]].concat();
        expected.sort();
        assert_eq!(links, expected);
        let marked = Kind::ALL.into_iter().flat_map(|kind| now.of(kind));
        let marked = marked.filter(|row| row.protocol() == Some(116)).count();
        assert_eq!(marked, file.marked, "{}", theirs.diff(&now));
        let diff = theirs.diff(&now);
        let touched: Vec<_> = diff.lines().filter(|line| !line.starts_with('+')).collect();
        assert!(touched.is_empty(), "{touched:?}");
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _left = fs::remove_dir_all(&self.directory);
    }
}

/// The number of runs for each class of kill points in a sample.
const PER_CLASS: usize = 5;

/// The number of runs at the same time.
const AT_ONCE: usize = 6;
/// An interrupted dump is repeated, so a pass may go another way.
const TRIES: usize = 20;

/// Passes without a kill; the shortest gives the points.
const WHOLE: usize = 12;

/// Returns the points of a pass without a kill. A pass that goes another way only repeats
/// something, so it has all points of the shortest. As many passes run at once as in the runs with
/// a kill.
fn whole(theirs: &Snapshot, before: Option<&File>, file: &File) -> Vec<String> {
    let shortest = Mutex::new(None::<Vec<String>>);
    in_parallel(&[(); WHOLE], AT_ONCE, |()| {
        let host = Host::new(theirs);
        let points = match host.dies(before, file, None) {
            Ended::Itself { code: Some(0), points, .. } => points,
            ended => panic!("{ended:?}"),
        };
        let mut shortest = shortest.lock().unwrap();
        if shortest.as_ref().is_none_or(|known| points.len() < known.len()) {
            *shortest = Some(points);
        }
    });
    shortest.into_inner().unwrap().unwrap()
}

thread_local! {
    /// The host of this thread's last run, restored to its state before.
    static HOST: Cell<Option<Host>> = const { Cell::new(None) };
}

fn killed_at_every_call(name: &str, before: Option<&File>, file: &File, counts: &[&str]) {
    let begun = Instant::now();
    let theirs = &theirs();
    let points = whole(theirs, before, file);
    for call in counts {
        assert!(points.contains(&format!("after {call}")), "{call}: {points:?}");
    }
    let after = [file, &THIRD, &NOTHING];
    let runs: Vec<_> = (0..points.len()).flat_map(|at| after.map(|after| (at, after))).collect();
    let called = |at: usize, after: &File| {
        let at = at + 1;
        format!("{name} killed at {at}, then {}", after.name)
    };
    let runs =
        select(runs, PER_CLASS, |(at, _)| points[*at].clone(), |(at, after)| called(*at, after));
    let elsewhere = AtomicUsize::new(0);
    in_parallel(&runs, AT_ONCE, |&(at, after)| {
        let there = (0..TRIES).any(|_| {
            let host = HOST.take().unwrap_or_else(|| Host::new(theirs));
            host.forget();
            let called = called(at, after);
            let deadly = (&*points[at], nth_of(&points, at));
            let ended = match host.dies(before, file, Some(deadly)) {
                Ended::At(point) => point,
                // It went another way, to the end.
                Ended::Itself { code, words, .. } => {
                    assert_eq!(code, Some(0), "{called}: {words}");
                    "none".to_owned()
                }
            };
            let made_good = catch_unwind(AssertUnwindSafe(|| {
                host.restarted(after, theirs);
                host.restarted(&NOTHING, theirs);
                until_it_is(theirs);
            }));
            if let Err(panic) = made_good {
                let why = panic.downcast_ref::<String>().map_or("", String::as_str);
                panic!("{called} ({ended}): {why}");
            }
            HOST.set(Some(host));
            let there = ended == points[at];
            elsewhere.fetch_add(usize::from(!there), Ordering::Relaxed);
            there
        });
        assert!(there, "out of reach: {}", points[at]);
    });
    println!(
        "crash matrix of the agent, {name}: {} kill points x {} restarts, {} kills (and {} elsewhere), {:.0} s",
        points.len(),
        after.len(),
        runs.len(),
        elsewhere.into_inner(),
        begun.elapsed().as_secs_f64()
    );
}

pub(crate) fn an_agent_killed_in_its_first_pass_is_made_good() {
    let counts = ["send", "creation", "write", "sync", "rename"];
    killed_at_every_call("the first pass", None, &FIRST, &counts);
}

pub(crate) fn an_agent_killed_at_a_changed_file_is_made_good() {
    let counts = ["send", "write", "sync"];
    killed_at_every_call("a changed file", Some(&FIRST), &SECOND, &counts);
}

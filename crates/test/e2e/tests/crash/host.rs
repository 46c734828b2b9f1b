//! A host with other writers' objects of every kind, and views of its state.

use std::fs;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::{self, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use serde_json::Value;
use trueup_testkit::{Snapshot, ip_batch, quiet_netns};

use crate::agent::{Agent, Proof};

/// The calling thread's namespace, with the agent's directory, deleted on drop.
pub(crate) struct Host {
    pub(crate) agent: Agent,
    directory: PathBuf,
}

impl Host {
    /// Makes a host in a fresh namespace.
    pub(crate) fn new(proof: Proof) -> Host {
        quiet_netns();
        ip_batch(include_str!("states/foreign.batch").lines());
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        // In memory, where syncs are cheap: only the process dies, so its writes survive.
        let directory = PathBuf::from(format!("/run/crash-{}-{next}", process::id()));
        fs::create_dir(&directory).unwrap();
        let agent = Agent::new(proof, directory.clone());
        Host { agent, directory }
    }

    /// Waits until the namespace holds exactly these rows, byte for byte.
    pub(crate) fn becomes(&self, expected: &Snapshot) {
        until_it_is(expected);
    }

    /// Waits until [`seen`] returns these lines.
    pub(crate) fn looks(&self, expected: &[String]) {
        until(seen, |seen| {
            let missing = expected.iter().filter(|row| !seen.contains(row));
            let wrong = seen.iter().filter(|row| !expected.contains(row));
            let lines: Vec<_> = missing
                .map(|row| format!("- {row}"))
                .chain(wrong.map(|row| format!("+ {row}")))
                .collect();
            lines.is_empty().then_some(()).ok_or(lines.join("\n"))
        });
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _left = fs::remove_dir_all(&self.directory);
    }
}

/// Waits until the calling thread's namespace holds exactly these rows, byte for byte.
#[track_caller]
pub(crate) fn until_it_is(expected: &Snapshot) {
    until(Snapshot::take, |seen| {
        let diff = expected.diff(seen);
        diff.is_empty().then_some(()).ok_or(diff)
    });
}

/// Repeats `see` until `judge` accepts it. The kernel finishes the effects of a write
/// asynchronously (carrier, and the IPv6 rows that wait for it), which is slow while all namespaces
/// are busy. Fails after a minute, with the judge's error.
#[track_caller]
fn until<T>(see: impl Fn() -> T, judge: impl Fn(&T) -> Result<(), String>) {
    let end = Instant::now() + Duration::from_secs(60);
    let mut pause = Duration::from_millis(5);
    while let Err(wrong) = judge(&see()) {
        assert!(Instant::now() < end, "not as expected:\n{wrong}");
        thread::sleep(pause);
        // Polling takes kernel time from the others.
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// Returns iproute2's view, one object a line, by name. It leaves out differences between two
/// namespaces with the same history, and the objects that the kernel derives from addresses and
/// links. A carrier present for a moment leaves a link-local address behind, for example.
pub(crate) fn seen() -> Vec<String> {
    let mut rows = Vec::new();
    for (option, lists) in LISTS {
        for (list, object) in shown(option, lists).into_iter().zip(lists) {
            let Value::Array(list) = list else {
                panic!("{object}: {list}");
            };
            let declared = list.into_iter().filter(|row| row["protocol"] != "kernel");
            rows.extend(declared.map(|row| format!("{option} {object}: {}", still(row))));
        }
    }
    rows.sort();
    rows
}

/// For routes and rules iproute2 shows one family at a time, by default IPv4.
const LISTS: [(&str, &[&str]); 2] = [
    (
        "-details",
        &[
            "address show",
            "neighbour show",
            "neighbour show proxy",
            "route show table all",
            "rule show",
        ],
    ),
    ("-6", &["route show table all", "rule show"]),
];

fn shown(option: &str, lists: &[&str]) -> Vec<Value> {
    let mut child = Command::new("ip")
        .args([option, "-json", "-details", "-batch", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let lines = lists.join("\n") + "\n";
    // Shorter than a pipe's capacity, so this does not block.
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let values: Result<Vec<Value>, _> =
        serde_json::Deserializer::from_slice(&output.stdout).into_iter().collect();
    let values = values.unwrap();
    assert_eq!(values.len(), lists.len(), "{values:?}");
    values
}

/// Removes values that depend on an index, a clock, a carrier or a counter, and sorts lists whose
/// order has no meaning.
fn still(mut value: Value) -> Value {
    match &mut value {
        Value::Object(fields) => {
            fields.retain(|key, _| !MOVING.contains(&key.as_str()) && !key.ends_with("_timer"));
            for (key, field) in fields.iter_mut() {
                let left = key.ends_with("_life_time") && field.as_u64() != Some(u32::MAX.into());
                *field = if left { "some".into() } else { still(field.take()) };
            }
        }
        Value::Array(list) => {
            let carrier = |flag: &Value| CARRIER.iter().any(|moving| flag == moving);
            let local = |row: &Value| row["family"] == "inet6" && row["scope"] == "link";
            list.retain(|element| !carrier(element) && !local(element));
            *list = list.drain(..).map(still).collect();
            list.sort_by_key(Value::to_string);
        }
        _ => {}
    }
    value
}

/// Flags of links and routes.
const CARRIER: [&str; 4] = ["LOWER_UP", "NO-CARRIER", "linkdown", "dead"];

/// Indexes and values derived from them, counters, clocks, and values that a bridge took over from
/// former ports.
const MOVING: [&str; 9] = [
    "ifindex",
    "operstate",
    "info_slave_data",
    "fdb_n_learned",
    "promiscuity",
    "tso_max_size",
    "allmulti",
    "expires",
    "used",
];

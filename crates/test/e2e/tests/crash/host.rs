//! A host on which others have been at work: a namespace with objects of theirs of every kind, and
//! what can be seen of it.

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

/// The calling thread's namespace, with the agent's directory, which goes with it.
pub(crate) struct Host {
    pub(crate) agent: Agent,
    directory: PathBuf,
}

impl Host {
    /// A fresh one.
    pub(crate) fn new(proof: Proof) -> Host {
        quiet_netns();
        ip_batch(include_str!("states/foreign.batch").lines());
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        // In memory, where a sync costs nothing: what is written survives the process, and that is
        // what dies here.
        let directory = PathBuf::from(format!("/run/crash-{}-{next}", process::id()));
        fs::create_dir(&directory).unwrap();
        let agent = Agent::new(proof, directory.clone());
        Host { agent, directory }
    }

    /// Waits until the namespace holds these rows and no others, bit for bit.
    pub(crate) fn becomes(&self, expected: &Snapshot) {
        until_it_is(expected);
    }

    /// Waits until it looks so.
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

/// Waits until the namespace of the calling thread holds these rows and no others, bit for bit.
#[track_caller]
pub(crate) fn until_it_is(expected: &Snapshot) {
    until(Snapshot::take, |seen| {
        let diff = expected.diff(seen);
        diff.is_empty().then_some(()).ok_or(diff)
    });
}

/// Asks until the answer is right: the kernel finishes in its own time what a write has started
/// (carrier, and the IPv6 rows that wait for it), which takes long where all namespaces are busy.
/// Fails after a minute with what is wrong.
#[track_caller]
fn until<T>(see: impl Fn() -> T, judge: impl Fn(&T) -> Result<(), String>) {
    let end = Instant::now() + Duration::from_secs(60);
    let mut pause = Duration::from_millis(5);
    while let Err(wrong) = judge(&see()) {
        assert!(Instant::now() < end, "not as expected:\n{wrong}");
        thread::sleep(pause);
        // To ask costs others the kernel's time.
        pause = (pause * 2).min(Duration::from_millis(100));
    }
}

/// What iproute2 shows, one object a line, by name: without what differs between two namespaces in
/// which the same was done, and without what the kernel makes of its own for addresses and links: a
/// link-local address comes with a carrier that was there for a moment, and stays.
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

/// Of routes and rules iproute2 shows one family at a time, and IPv4 unless told otherwise.
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
    // Shorter than a pipe holds.
    child.stdin.take().unwrap().write_all(lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let values: Result<Vec<Value>, _> =
        serde_json::Deserializer::from_slice(&output.stdout).into_iter().collect();
    let values = values.unwrap();
    assert_eq!(values.len(), lists.len(), "{values:?}");
    values
}

/// Without what an index, a clock, a carrier or a counter is in, and without an order where it says
/// nothing.
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

/// Flags of links and of routes.
const CARRIER: [&str; 4] = ["LOWER_UP", "NO-CARRIER", "linkdown", "dead"];

/// Indexes and what is made of them, counters, clocks, and what a bridge took over from ports that
/// it once had.
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

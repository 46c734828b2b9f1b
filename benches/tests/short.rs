//! Runs the benchmark itself, shortened: every work once, at sizes up to 1,000, by the floor and by
//! trueup; its page; a routing daemon's day; and the runs of containers. The tests check that all
//! works are done and reported, not their times.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use trueup_works::Work;

#[test]
fn every_work_is_done_by_the_floor_and_by_trueup() {
    let scratch = scratch("all");
    let record = scratch.join("record.json");
    let page = "\
Before.
<!-- begin: written by `cargo xtask bench --write` -->
<!-- end -->
After.
";
    fs::write(scratch.join("performance.md"), page).unwrap();
    let output = compare(&record)
        .args(["--sizes", "1,100,1000", "--largest", "20000", "--runs", "1"])
        .args(["--write", "--docs"])
        .arg(&scratch)
        .output()
        .unwrap();
    let (message, said) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{message}{said}");

    let record = read(&record);
    let entries = record["entries"].as_array().unwrap();
    for work in Work::all().filter(|work| !work.to_string().starts_with("both-")) {
        let entries: Vec<&Value> =
            entries.iter().filter(|it| it["work"] == work.to_string()).collect();
        let sizes: Vec<_> = entries.iter().filter_map(|entry| entry["size"].as_u64()).collect();
        assert!(sizes.starts_with(&[1, 100]), "{work}: {sizes:?}\n{message}{said}");
        for entry in entries {
            assert_eq!(entry["failed"], json!({}), "{said}");
            for program in ["floor", "trueup"] {
                let took = &entry["took"][program]["0"];
                for figure in ["wall_ns", "peak_rss_kb"] {
                    assert!(took[figure].as_u64().unwrap() > 0, "{entry}");
                }
            }
        }
    }
    let page = fs::read_to_string(scratch.join("performance.md")).unwrap();
    assert!(page.starts_with("Before.\n") && page.ends_with("After.\n"));
    assert!(page.contains("| IPv4 routes: create | 1,000 |"), "{page}");
    let picture = fs::read_to_string(scratch.join("performance.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.ends_with("</svg>\n"));
    fs::remove_dir_all(&scratch).unwrap();
}

#[test]
fn a_day_of_a_routing_daemon_is_measured() {
    let mut daemon = command("daemon");
    daemon.args(["--part", "forms", "--part", "day", "--sizes", "200"]);
    daemon.args(["--changes", "10", "--v4", "2000", "--v6", "400", "--seconds", "1"]);
    let rows = rows(&mut daemon);
    let work = |row: &Value| row["work"].as_str().unwrap().to_owned();
    let of = |part: &str| rows.iter().filter(|row| work(row).starts_with(part)).count();
    // trueup and the floor, five forms, each normal, with unreachable gateways and with conflicts.
    assert_eq!(of("daemon-form-"), 30);
    assert_eq!(of("daemon-day-"), 12);
    for row in &rows {
        let number = |name: &str| row[name].as_u64().unwrap();
        // A rest has no time, and a change behind others has no processor time of its own.
        assert!(number("p50_ns") > 0 || work(row) == "daemon-day-rest", "{row}");
        assert!(number("cpu_ns") > 0 || work(row) == "daemon-day-behind", "{row}");
        assert!(number("times") > 0 && number("size") > 0, "{row}");
    }
}

#[test]
fn containers_are_added_and_deleted_at_once_alone_and_after_a_kill() {
    let mut containers = command("containers");
    containers.args(["--containers", "8", "--agent"]);
    let rows = rows(containers.arg(env!("CARGO_BIN_EXE_container")));
    let ours: Vec<&Value> =
        rows.iter().filter(|row| row["program"].as_str().unwrap().starts_with("trueup")).collect();
    assert_eq!(ours.len(), 12);
    for row in ours {
        let number = |name: &str| row[name].as_u64().unwrap();
        assert!(number("p50_ns") > 0 && number("total_ns") >= number("max_ns"), "{row}");
    }
}

/// Returns the program's output, a row on each line; fails unless it succeeds.
fn rows(program: &mut Command) -> Vec<Value> {
    let output = program.output().unwrap();
    let (text, said) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{text}{said}");
    assert!(said.contains("| work | program |"), "{said}");
    let rows = text.lines().map(serde_json::from_str);
    rows.collect::<Result<_, _>>().unwrap()
}

/// Stands in for `perf`: acknowledges the start and stop of the clock, and reports one sample.
const PERF: &str = r#"#!/bin/sh
if [ "$1" = script ]; then
    printf '\tffffffff81000000 netlink_dump\n\n'
    exit
fi
while [ "$1" != -- ]; do
    if [ "$1" = --control ]; then control=${2#fifo:}; fi
    shift
done
shift
{
    while read -r said; do echo "$said" >> "$TOLD"; echo ack >&4; done
} < "${control%,*}" 4> "${control#*,}" &
exec "$@"
"#;

#[test]
fn a_profiler_is_reported_when_the_clock_starts_and_stops() {
    let scratch = scratch("profile");
    let (record, perf, message) =
        (scratch.join("record.json"), scratch.join("perf"), scratch.join("told"));
    fs::write(&perf, PERF).unwrap();
    fs::set_permissions(&perf, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", scratch.display(), std::env::var("PATH").unwrap());
    let output = compare(&record)
        .args(["--profile", "--work", "route-noop", "--sizes", "10"])
        .env("PATH", path)
        .env("TOLD", &message)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(fs::read_to_string(&message).unwrap(), "enable\ndisable\n");
    let profiles = read(&record)["profiles"].clone();
    let samples = json!({ "reading": 1, "writing": 0, "kernel": 0, "own": 0 });
    assert_eq!(profiles, json!([{ "work": "route-noop", "size": 10, "samples": samples }]));
    fs::remove_dir_all(&scratch).unwrap();
}

fn scratch(name: &str) -> PathBuf {
    let name = format!("trueup-bench-{name}-{}", std::process::id());
    let scratch = std::env::temp_dir().join(name);
    trueup_testkit::empty_directory(&scratch).unwrap();
    scratch
}

/// Returns a command of the benchmarks.
fn command(name: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_bench"));
    command.arg(name);
    command
}

/// Returns the comparison of only the floor and trueup.
fn compare(record: &Path) -> Command {
    let mut compare = command("compare");
    compare.arg("--alone").arg("--record").arg(record);
    compare
}

fn read(record: &Path) -> Value {
    serde_json::from_str(&fs::read_to_string(record).unwrap()).unwrap()
}

//! BIRD 2: routes of a static protocol, exported to the kernel by a kernel protocol.
//!
//! BIRD starts beforehand, as reading its configuration takes some seconds. The clock runs from the
//! command over its control socket that starts the work until BIRD reports the end. Its routes have
//! its own protocol, 12.

use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use trueup_works::bird::{BOUND, Bird};
use trueup_works::clock::{Took, timed_of};
use trueup_works::{Family, PROTOCOL, Work, routes};

use crate::ip;

/// Does a work, and returns its cost.
pub(crate) fn run(work: Work, size: usize) -> Result<Took> {
    let create = matches!(work, Work::RouteCreate(_));
    if !create {
        // It leaves other writers' routes alone. Routes left from its earlier run have its own
        // protocol, and it takes them over.
        let protocol = PROTOCOL.to_string();
        ip::call(&[ip::option(work), "route", "flush", "protocol", &protocol])?;
    }
    let mut bird = Bird::start(&config(work, size)?)?;
    let id = bird.id();
    if create {
        return timed_of(id, || {
            bird.ask("enable kernel1")?;
            wait_exported(&mut bird, size)
        });
    }
    bird.ask("enable kernel1")?;
    wait_exported(&mut bird, size)?;
    // A scan comes first, so that it knows its routes in the kernel.
    scan(&mut bird)?;
    timed_of(id, || {
        if work.is_noop() {
            return scan(&mut bird);
        }
        bird.ask("disable static1")?;
        wait_exported(&mut bird, 0)
    })
}

fn config(work: Work, size: usize) -> Result<String> {
    let kind = match work.family() {
        Family::Inet => "ipv4",
        Family::Inet6 => "ipv6",
    };
    // Metric 0, as in the other peers' routes; `learn` permits a requested scan.
    let mut text = format!(
        "router id 10.200.0.1;\nprotocol device {{ scan time 600; }}\nprotocol kernel {{ disabled; \
         persist; learn; scan time 600; metric 0; {kind} {{ export all; }}; }}\n\
         protocol static {{ {kind};\n"
    );
    for ((address, length), via) in routes(work, size)? {
        writeln!(text, "route {address}/{length} via {via};")?;
    }
    Ok(text + "}\n")
}

/// Waits until the kernel has this number of the static protocol's routes. The interval between two
/// questions is long enough to cost nothing.
fn wait_exported(bird: &mut Bird, wanted: usize) -> Result<()> {
    let start = Instant::now();
    while start.elapsed() < BOUND {
        let status = bird.ask("show protocols all kernel1")?;
        let exported = status.lines().find_map(|line| {
            let (_, routes) = line.split_once("Routes:")?;
            let exported = routes.split(',').find(|part| part.contains("exported"))?;
            exported.split_whitespace().next()?.parse::<usize>().ok()
        });
        if exported == Some(wanted) {
            return Ok(());
        }
        thread::sleep(Duration::from_millis(1));
    }
    bail!("bird is not done after {BOUND:?}")
}

/// Makes it scan the kernel's routes. It has one thread, so it answers the next command after the
/// scan.
fn scan(bird: &mut Bird) -> Result<()> {
    bird.ask("reload in kernel1")?;
    bird.ask("show status").map(drop)
}

//! BIRD 2: routes of a static protocol, brought into the kernel by a kernel protocol.
//!
//! It is started with its configuration beforehand, which it reads in some seconds; the clock runs
//! from the command over its control socket that sets it to work until it says that all is done.
//! Its routes bear its own protocol, 12.

use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use trueup_works::bird::{BOUND, Bird};
use trueup_works::clock::{Took, timed_of};
use trueup_works::{Family, PROTOCOL, Work, routes};

use crate::ip;

/// Does it.
pub(crate) fn run(work: Work, size: usize) -> Result<Took> {
    let create = matches!(work, Work::RouteCreate(_));
    if !create {
        // It leaves alone what others made. What an earlier run of it left bears its own protocol
        // and is taken over.
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
    // A scan has to have been, after which it knows all that there is for its own.
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
    // Metric 0 is that of the other peers' routes; `learn` lets a scan be asked for.
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

/// Waits until the kernel has as many of the static protocol's routes. It is asked so seldom that
/// asking costs nothing.
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

/// Has it scan the kernel's routes. It answers the next command once it has, being of one thread.
fn scan(bird: &mut Bird) -> Result<()> {
    bird.ask("reload in kernel1")?;
    bird.ask("show status").map(drop)
}

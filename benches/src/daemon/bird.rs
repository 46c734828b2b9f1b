//! BIRD 2 in the part of a day that its control socket can start: a gateway fails, and comes back.
//! Its prefixes have a second route, from a static protocol with a lower preference. The first
//! route's protocol is disabled, and enabled again.

use std::collections::HashSet;
use std::fmt::Write as _;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use trueup_net::{Family, IfName, NextHops, Prefix};
use trueup_works::bird::{BOUND, Bird};
use trueup_works::clock::processor_of;
use trueup_works::internet::Prefixes;

use super::day::GATEWAY_FAILS;
use super::enter_namespace;
use super::table::{Table, next};
use super::turns::Turns;
use crate::floor;
use crate::listener::Listener;
use crate::row::Row;

/// Measures it among a day's routes, with these numbers of IPv4 and IPv6.
pub(super) fn run((v4, v6): (usize, usize)) -> Result<Row> {
    enter_namespace(true)?;
    let table = Table::of_day(Prefixes::internet_of(v4, v6)?)?;
    let prefixes: HashSet<Prefix> = table.in_place(true).map(|at| table.prefix(at)).collect();
    let mut bird = Bird::start(&config(&table)?)?;
    let routes = table.len() - table.exceptions();
    let end = Instant::now() + BOUND;
    while floor::count()?.0 < routes {
        ensure!(Instant::now() < end, "bird has not made all routes");
        thread::sleep(Duration::from_secs(1));
    }
    thread::sleep(Duration::from_secs(2));

    let listener = Listener::start()?;
    let mut turns = Turns::default();
    let before = processor_of(bird.id())?;
    for command in ["disable leading", "enable leading"] {
        let start = Instant::now();
        bird.ask(command)?;
        let heard = listener.wait_all(prefixes.clone(), Duration::from_secs(60))?;
        turns.count_each(start, prefixes.len(), heard);
        thread::sleep(Duration::from_secs(1));
        drop(listener.take());
    }
    turns.processor = processor_of(bird.id())?.saturating_sub(before);
    Ok(turns.row("bird", "daemon-day-gateway", GATEWAY_FAILS, table.len(), prefixes.len()))
}

/// Returns a configuration with the routes as static protocols, and the kernel protocols that
/// export them.
fn config(table: &Table) -> Result<String> {
    let mut text = "router id 10.200.0.1;\nprotocol device { scan time 600; }\n".to_owned();
    for (name, channel) in [("kernel4", "ipv4"), ("kernel6", "ipv6")] {
        let channel = format!("{channel} {{ export all; }};");
        writeln!(text, "protocol kernel {name} {{ scan time 600; metric 0; {channel} }}")?;
    }
    let mut protocol = |name, channel, places: Vec<usize>, second: bool| -> Result<()> {
        writeln!(text, "protocol static {name} {{ {channel};")?;
        for at in places {
            let gateway = if second { next((at % 63) as u8) } else { table.gateway(at) };
            let hops: NextHops<IfName> = table.form(at).nexthops(gateway);
            write!(text, "route {}", table.prefix(at))?;
            for via in hops.as_slice().iter().filter_map(|hop| hop.via) {
                write!(text, " via {via}")?;
            }
            writeln!(text, ";")?;
        }
        Ok(writeln!(text, "}}")?)
    };
    let leading: Vec<usize> = table.in_place(true).collect();
    let (others4, others6) =
        table.in_place(false).partition(|at| table.prefix(*at).family() == Family::Inet);
    protocol("leading", "ipv4 { preference 200; }", leading.clone(), false)?;
    protocol("spare", "ipv4 { preference 100; }", leading, true)?;
    protocol("others", "ipv4", others4, false)?;
    protocol("others6", "ipv6", others6, false)?;
    Ok(text)
}

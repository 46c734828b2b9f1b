//! Measures one change among many exports: in the session that exports it, and in the collecting
//! host, from the collector's holdings to the accepted routes.
//!
//! `cargo run --release -p trueup-world --example change`

use std::error::Error;
use std::sync::mpsc;
use std::time::{Duration, Instant};

use trueup_file::exported_route;
use trueup_reconcile::Hints;
use trueup_world::{
    Acceptance, Collect, Collector, CollectorConfig, Embedded, Export, Filter, Seen, Session, World,
};

/// The number of measured changes.
const CHANGES: usize = 200;

fn main() -> Result<(), Box<dyn Error>> {
    for exports in [100, 1_000, 10_000, 100_000] {
        let [mut exporting, mut collecting] = measure(exports)?;
        exporting.sort();
        collecting.sort();
        println!(
            "{exports:>7} exports: exporting p50 {:?}, p90 {:?}; collecting p50 {:?}, p90 {:?}",
            exporting[CHANGES / 2],
            exporting[CHANGES * 9 / 10],
            collecting[CHANGES / 2],
            collecting[CHANGES * 9 / 10]
        );
    }
    Ok(())
}

/// Returns the time to export each change, and the time to collect it.
fn measure(exports: u32) -> Result<[Vec<Duration>; 2], Box<dyn Error>> {
    let store = Embedded::in_memory();
    let world = |host: &str| World::new(store.connect(), "/measured", host);
    let exporter = Session::begin(world("a")?, "a", Duration::from_secs(600))?;
    let all: Vec<Export> = (0..exports).map(|number| export(number, 1)).collect();
    exporter.declare(&all)?;
    let (hint, hints) = mpsc::channel();
    let config = CollectorConfig { damping_interval: Duration::ZERO, ..CollectorConfig::default() };
    let send = Hints::new(move || {
        // The measurement is over.
        let _ = hint.send(());
    });
    let collector = Collector::start(&world("b")?, &[Filter::kind("route")], config, send)?;
    let mut collect = Collect::routes(vec!["10.0.0.0/8".parse()?]);
    collect.limit = exports;
    let mut acceptance = Acceptance::new(&[collect], "b", exported_route);
    let mut seen = Seen::default();
    let mut take = || -> Result<usize, Box<dyn Error>> {
        let Ok(holdings) = collector.holdings(seen) else {
            return Ok(0);
        };
        acceptance.update(&holdings);
        seen = holdings.seen;
        Ok(acceptance.settle().len())
    };
    let mut there = 0;
    while there < all.len() {
        hints.recv_timeout(Duration::from_secs(60))?;
        there += take()?;
    }
    let (order, orders) = mpsc::channel::<Export>();
    let exporting = std::thread::spawn(move || {
        (orders.iter())
            .map(|export| {
                let begun = Instant::now();
                exporter.export(&[export]).map(|_| begun.elapsed())
            })
            .collect::<Result<Vec<Duration>, _>>()
    });
    let mut times = Vec::new();
    while times.len() < CHANGES {
        let number = times.len() as u32 % exports;
        order.send(export(number, 2 + times.len() as u8 % 200))?;
        loop {
            hints.recv_timeout(Duration::from_secs(60))?;
            let begun = Instant::now();
            if take()? == 1 {
                times.push(begun.elapsed());
                break;
            }
        }
    }
    drop(order);
    let exported = exporting.join().map_err(|_| "the exporter panicked")??;
    Ok([exported, times])
}

/// Makes the export of a route through a gateway.
fn export(number: u32, gateway: u8) -> Export {
    let [_, a, b, c] = (number << 4).to_be_bytes();
    let data = format!("{{ \"dst\": \"10.{a}.{b}.{c}/28\", \"via\": \"10.255.0.{gateway}\" }}");
    Export::new("route", number.to_string(), data)
}

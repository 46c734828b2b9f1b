//! A CNI plugin's work for one container, in two short runs: `ADD` and `DEL`. Runs for many
//! containers share a network namespace, and none of them knows the others' declarations.

use std::env;
use std::time::Duration;

use trueup::journal::Journal;
use trueup::net::Domain;
use trueup::rtnl::ledger_scope;
use trueup::{
    Address, Desired, Namespace, NextHop, NextHops, Options, PassInput, Report, Route, Rtnl, Source,
};

/// The protocol number of this agent, for all of its runs: no other agent uses it.
const PROTOCOL: u8 = 121;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let (file, container, desired) = match args[..] {
        [file, "ADD", container, dev, ip] => (file, container, declare(dev, ip)?),
        [file, "DEL", container] => (file, container, nothing()),
        _ => return Err("container JOURNAL ADD CONTAINER DEVICE IP, or … DEL CONTAINER".into()),
    };
    // One process at a time has a journal open. Others wait for it.
    let journal = Journal::open_within(file, Duration::from_secs(60))?;
    let here = Namespace::current();
    // The container's own record, which each of its runs reads and writes.
    let mut ledger = journal.ledger(container, &ledger_scope(&here)?)?;
    // Each run's objects bear the marker. Only the ledger distinguishes containers.
    let options = Options::default()
        .with_protocol(PROTOCOL)?
        .with_domain(Domain::default().with_ledger_only(true));
    let report = Rtnl::new().reconcile(PassInput::new(&here, &desired, &mut ledger, &options))?;
    for (done, failure) in report.failed() {
        eprintln!("{}: {failure}", done.op.command(done.devices));
    }
    println!("converged: {}", report.converged());
    Ok(())
}

/// A gateway address on the container's device, and a route to its own.
fn declare(dev: &str, ip: &str) -> Result<Desired, Box<dyn std::error::Error>> {
    let gateway = Address::new(dev.parse()?, "169.254.1.1/32".parse()?);
    let through = NextHops::One(NextHop::dev(dev.parse()?));
    // Only these two kinds are managed.
    Ok(Desired::default()
        .with_addresses([gateway])
        .with_routes([Route::new(format!("{ip}/32").parse()?, through)]))
}

/// The same kinds, and none of them.
fn nothing() -> Desired {
    Desired::default().with_addresses([]).with_routes([])
}

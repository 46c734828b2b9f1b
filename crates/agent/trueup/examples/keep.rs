//! Keeps one route in place. If another writer deletes the route, it comes back.

use std::error::Error;
use trueup::{
    Config, Desired, Loop, MemoryLedger, Namespace, NextHop, NextHops, Options, Route, Rtnl,
};

fn main() -> Result<(), Box<dyn Error>> {
    let gateway = NextHops::One(NextHop::via("10.1.0.9".parse()?));
    // Only routes are managed. Links, addresses and rules stay as they are.
    let desired = Desired::default().with_routes([Route::new("10.2.0.0/16".parse()?, gateway)]);
    // The kernel marks routes as ours, so the ledger need not outlive the process.
    let (here, ledger) = (Namespace::current(), MemoryLedger::default());
    let keep = Loop::new(Rtnl::new(), here, desired, ledger, Options::default(), Config::default())
        .on_report(|_, result| match result {
            Ok(report) => report.applied().for_each(|it| println!("{}", it.op.text(it.devices))),
            Err(error) => eprintln!("{error}"),
        });
    Ok(keep.run()?)
}

//! Declares one route, and manages nothing else.

use trueup::{
    Desired, MemoryLedger, Namespace, NextHop, NextHops, Options, PassInput, Report, Route, Rtnl,
    Source,
};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let gateway = NextHops::One(NextHop::via("10.1.0.9".parse()?));
    // Only routes are managed.
    let desired = Desired::default().with_routes([Route::new("10.2.0.0/16".parse()?, gateway)]);
    let here = Namespace::current();
    // Routes bear our marker: they need no record of ours.
    let mut ledger = MemoryLedger::default();
    let report =
        Rtnl::new().reconcile(PassInput::new(&here, &desired, &mut ledger, &Options::default()))?;
    for (done, failure) in report.failed() {
        eprintln!("{}: {failure}", done.op.command(done.devices));
    }
    println!("converged: {}", report.converged());
    Ok(())
}

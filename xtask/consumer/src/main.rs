//! An agent: `consumer JOURNAL` keeps one route through `up0` while its standard input is open, and
//! then deletes it. `consumer` without arguments shows a plan, without a kernel.

use std::error::Error;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

use trueup::net::{Kinds, Observed, Owned, plan};
use trueup::journal::Journal;
use trueup::rtnl::ledger_scope;
use trueup::{
    Config, Desired, IfName, Link, LinkKind, Loop, Namespace, NextHop, NextHops, Options, Report,
    Route, Rtnl,
};

const WAIT: Duration = Duration::from_secs(30);

fn main() -> Result<(), Box<dyn Error>> {
    match std::env::args().nth(1) {
        Some(journal) => keep(Path::new(&journal)),
        None => show(),
    }
}

fn declared() -> Result<Desired, Box<dyn Error>> {
    let through: IfName = "up0".parse()?;
    let route = Route::new("10.2.0.0/16".parse()?, NextHops::One(NextHop::dev(through)));
    Ok(Desired::default().with_routes([route]))
}

/// Shows a plan, made from data alone.
fn show() -> Result<(), Box<dyn Error>> {
    let mut up0 = Link::new("up0".parse()?, LinkKind::Dummy);
    up0.index = 2;
    let mut observed = Observed::default();
    observed.links.push(up0);
    observed.complete = Kinds::ALL;
    print!(
        "{}",
        plan(&declared()?, &observed, &Owned::default(), 116)?.text()
    );
    Ok(())
}

/// Runs the loop, with a ledger that outlives it.
fn keep(file: &Path) -> Result<(), Box<dyn Error>> {
    let here = Namespace::current();
    let journal = Journal::open(file)?;
    let ledger = journal.ledger("consumer", &ledger_scope(&here)?)?;
    let (options, config) = (Options::default(), Config::default());
    let running =
        Loop::new(Rtnl::new(), here, declared()?, ledger, options, config).spawn("keep")?;
    let handle = running.handle();
    println!("converged: {}", handle.force(WAIT)?.converged());
    std::io::stdin().read_to_end(&mut Vec::new())?;
    let nothing = handle.set_desired(Desired::default().with_routes([]))?;
    handle.wait_converged(nothing, WAIT)?;
    Ok(running.stop(WAIT)?)
}

//! The crate nlink in both its ways: batches of requests, and a declared configuration, which it
//! compares and applies.

use std::net::IpAddr;

use anyhow::{Result, bail, ensure};
use nlink::netlink::Connection;
use nlink::netlink::config::{ApplyOptions, NetworkConfig};
use nlink::netlink::route::{Ipv4Route, Ipv6Route};
use nlink::netlink::types::route::RouteProtocol;
use trueup_works::clock::{Took, timed};
use trueup_works::{Destination, PROTOCOL, Work, routes};

/// Requests in one batch. The kernel acknowledges each, and a default receive buffer holds no more:
/// larger batches fail with `ENOBUFS`.
const BATCH: usize = 250;

/// Sends requests in batches; replaces routes one at a time, as a batch cannot; reads with a dump.
pub(crate) fn run(work: Work, size: usize) -> Result<Took> {
    let mut routes = routes(work, size)?.peekable();
    on_runtime(async |netlink| {
        if work.is_noop() {
            let wanted = routes.count();
            let all = netlink.get_routes().await?;
            let ours = all.iter().filter(|route| {
                route.protocol() == RouteProtocol::from(PROTOCOL) && route.table_id() == 254
            });
            ensure!(ours.count() >= wanted, "fewer than {wanted} routes");
        } else if work == Work::RouteGateway {
            for route in routes {
                match made(route)? {
                    Made::V4(route) => netlink.replace_route(route).await?,
                    Made::V6(route) => netlink.replace_route(route).await?,
                }
            }
        } else {
            let create = matches!(work, Work::RouteCreate(_));
            while routes.peek().is_some() {
                let mut batch = netlink.batch();
                for route in routes.by_ref().take(BATCH) {
                    batch = match (made(route)?, create) {
                        (Made::V4(route), true) => batch.add_route(route),
                        (Made::V4(route), false) => batch.del_route(route),
                        (Made::V6(route), true) => batch.add_route(route),
                        (Made::V6(route), false) => batch.del_route(route),
                    };
                }
                batch.execute_all().await?;
            }
        }
        Ok(())
    })
}

/// Declares the whole state, which nlink compares with the kernel's and applies. The declaration is
/// made before the clock starts.
pub(crate) fn declared(work: Work, size: usize) -> Result<Took> {
    let mut config = NetworkConfig::new().route_protocol(RouteProtocol::from(PROTOCOL));
    let delete = matches!(work, Work::RouteDelete(_));
    for ((address, length), via) in routes(work, if delete { 0 } else { size })? {
        let gateway = via.to_string();
        config = config.route(&format!("{address}/{length}"), |route| route.via(&gateway))?;
    }
    let options = ApplyOptions::default().with_purge(delete);
    on_runtime(async |netlink| {
        let applied = config.apply_with_options(netlink, options).await?;
        let failed = applied.errors.first();
        ensure!(failed.is_none(), "{failed:?}");
        let (made, due) = (applied.changes_made, if work.is_noop() { 0 } else { size });
        ensure!(made == due, "{made} changes, {due} were due");
        Ok(())
    })
}

fn on_runtime(work: impl AsyncFnOnce(&Connection<nlink::Route>) -> Result<()>) -> Result<Took> {
    // It is fastest on one thread.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _entered = runtime.enter();
    let netlink = Connection::<nlink::Route>::new()?;
    Ok(timed(|| runtime.block_on(work(&netlink)))?.1)
}

enum Made {
    V4(Ipv4Route),
    V6(Ipv6Route),
}

fn made(((address, length), via): (Destination, IpAddr)) -> Result<Made> {
    let protocol = RouteProtocol::from(PROTOCOL);
    Ok(match (address, via) {
        (IpAddr::V4(address), IpAddr::V4(via)) => {
            Made::V4(Ipv4Route::new(address, length).gateway(via).protocol(protocol))
        }
        (IpAddr::V6(address), IpAddr::V6(via)) => {
            Made::V6(Ipv6Route::new(address, length).gateway(via).protocol(protocol))
        }
        _ => bail!("two families: {address} via {via}"),
    })
}

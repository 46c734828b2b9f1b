//! The crate nlink, in both of its ways: batches of requests, and a declared configuration that it
//! compares and applies.

use std::net::IpAddr;

use anyhow::{Result, bail, ensure};
use nlink::netlink::Connection;
use nlink::netlink::config::{ApplyOptions, NetworkConfig};
use nlink::netlink::route::{Ipv4Route, Ipv6Route};
use nlink::netlink::types::route::RouteProtocol;

use crate::shape::{self, PROTOCOL, Route, Work};
use crate::took::{self, Took};

const ROUTES: usize = 1_000_000;
/// Requests at once. The kernel acknowledges each, and a receive buffer of the default size holds
/// no more: with more than that batches fail with `ENOBUFS`.
const BATCH: usize = 250;

pub(crate) const WORKS: [(Work, usize); 8] = [
    (Work::RouteCreate, ROUTES),
    (Work::RouteNoop, ROUTES),
    (Work::RouteGateway, ROUTES),
    (Work::RouteDelete, ROUTES),
    (Work::Route6Create, ROUTES),
    (Work::Route6Noop, ROUTES),
    (Work::Route6Delete, ROUTES),
    (Work::FewNoop, ROUTES),
];

/// What it replaces or deletes it looks up in a list, for each, so that the time grows with the
/// square: a delete takes 21 µs of processor time among 1,000, 31 µs among 10,000.
const FEWER: usize = 10_000;

pub(crate) const DECLARED: [(Work, usize); 8] = [
    (Work::RouteCreate, ROUTES),
    (Work::RouteNoop, ROUTES),
    (Work::RouteGateway, FEWER),
    (Work::RouteDelete, FEWER),
    (Work::Route6Create, ROUTES),
    (Work::Route6Noop, ROUTES),
    (Work::Route6Delete, FEWER),
    (Work::FewNoop, ROUTES),
];

/// Requests in batches; a replacement one at a time, as a batch has none; a look is a dump.
pub(crate) fn run(work: Work, size: usize) -> Result<Took> {
    on_runtime(async |netlink| {
        let mut routes = shape::routes(work, size).peekable();
        match work {
            Work::RouteNoop | Work::Route6Noop | Work::FewNoop => {
                let wanted = routes.count();
                let all = netlink.get_routes().await?;
                let ours = all.iter().filter(|route| {
                    route.protocol() == RouteProtocol::from(PROTOCOL) && route.table_id() == 254
                });
                ensure!(ours.count() >= wanted, "fewer than {wanted} routes");
            }
            Work::RouteGateway => {
                for route in routes {
                    match route.address {
                        IpAddr::V4(_) => netlink.replace_route(v4(route)?).await?,
                        IpAddr::V6(_) => netlink.replace_route(v6(route)?).await?,
                    }
                }
            }
            Work::RouteCreate | Work::Route6Create | Work::RouteDelete | Work::Route6Delete => {
                let create = matches!(work, Work::RouteCreate | Work::Route6Create);
                while routes.peek().is_some() {
                    let mut batch = netlink.batch();
                    for route in routes.by_ref().take(BATCH) {
                        batch = match (route.address, create) {
                            (IpAddr::V4(_), true) => batch.add_route(v4(route)?),
                            (IpAddr::V4(_), false) => batch.del_route(v4(route)?),
                            (IpAddr::V6(_), true) => batch.add_route(v6(route)?),
                            (IpAddr::V6(_), false) => batch.del_route(v6(route)?),
                        };
                    }
                    batch.execute_all().await?;
                }
            }
            other => bail!("{} is not done by nlink", other.name()),
        }
        Ok(())
    })
}

/// The whole state declared, which nlink compares with the kernel's and applies. The declaration is
/// made beforehand.
pub(crate) fn declared(work: Work, size: usize) -> Result<Took> {
    let mut config = NetworkConfig::new().route_protocol(RouteProtocol::from(PROTOCOL));
    let delete = matches!(work, Work::RouteDelete | Work::Route6Delete);
    for route in shape::routes(work, if delete { 0 } else { size }) {
        let to = format!("{}/{}", route.address, route.length);
        let via = route.via.to_string();
        config = config.route(&to, |route| route.via(&via))?;
    }
    let options = ApplyOptions::default().with_purge(delete);
    on_runtime(async |netlink| {
        let applied = config.apply_with_options(netlink, options).await?;
        let failed = applied.errors.first();
        ensure!(failed.is_none(), "{failed:?}");
        let due = match work {
            Work::RouteNoop | Work::Route6Noop | Work::FewNoop => 0,
            _ => size,
        };
        let made = applied.changes_made;
        ensure!(made == due, "{made} changes, {due} were due");
        Ok(())
    })
}

fn on_runtime(work: impl AsyncFnOnce(&Connection<nlink::Route>) -> Result<()>) -> Result<Took> {
    // It is quickest on one thread.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let _entered = runtime.enter();
    let netlink = Connection::<nlink::Route>::new()?;
    took::here(|| runtime.block_on(work(&netlink)))
}

fn v4(route: Route) -> Result<Ipv4Route> {
    let (IpAddr::V4(address), IpAddr::V4(via)) = (route.address, route.via) else {
        bail!("no IPv4 route: {route:?}");
    };
    let made = Ipv4Route::new(address, route.length).gateway(via);
    Ok(made.protocol(RouteProtocol::from(PROTOCOL)))
}

fn v6(route: Route) -> Result<Ipv6Route> {
    let (IpAddr::V6(address), IpAddr::V6(via)) = (route.address, route.via) else {
        bail!("no IPv6 route: {route:?}");
    };
    let made = Ipv6Route::new(address, route.length).gateway(via);
    Ok(made.protocol(RouteProtocol::from(PROTOCOL)))
}

//! The crate rtnetlink: a request at a time, as it has no batches; a dump is looked at as it
//! streams in.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Result, bail, ensure};
use futures_util::stream::TryStreamExt as _;
use rtnetlink::packet_route::route::{
    RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use rtnetlink::{Handle, RouteMessageBuilder, new_connection_with_strict_check};

use crate::shape::{self, Family, PROTOCOL, Route, Work};
use crate::took::{self, Took};

const ROUTES: usize = 1_000_000;

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

/// Does it, on a runtime of one thread: on one of several it takes more than five times as long.
pub(crate) fn run(work: Work, size: usize) -> Result<Took> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let _entered = runtime.enter();
    let (connection, handle, _messages) = new_connection_with_strict_check()?;
    runtime.spawn(connection);
    took::here(|| runtime.block_on(carry_out(&handle, work, size)))
}

async fn carry_out(handle: &Handle, work: Work, size: usize) -> Result<()> {
    let routes = shape::routes(work, size);
    match work {
        Work::RouteCreate | Work::Route6Create => {
            for route in routes {
                handle.route().add(message(route)?).execute().await?;
            }
        }
        Work::RouteGateway => {
            for route in routes {
                let add = handle.route().add(message(route)?);
                add.replace().execute().await?;
            }
        }
        Work::RouteDelete | Work::Route6Delete => {
            for route in routes {
                let mut message = message(route)?;
                // Whatever its gateway is by now.
                let other = |it: &RouteAttribute| !matches!(it, RouteAttribute::Gateway(_));
                message.attributes.retain(other);
                handle.route().del(message).execute().await?;
            }
        }
        Work::RouteNoop | Work::Route6Noop | Work::FewNoop => {
            let wanted = routes.count();
            let mut dump = handle.route().get(filter(shape::family(work))).execute();
            let mut found = 0;
            while let Some(route) = dump.try_next().await? {
                found += usize::from(route.header.protocol == RouteProtocol::Other(PROTOCOL));
            }
            ensure!(found >= wanted, "{found} of {wanted} routes");
        }
        other => bail!("{} is not done by rtnetlink", other.name()),
    }
    Ok(())
}

fn message(route: Route) -> Result<RouteMessage> {
    let protocol = RouteProtocol::Other(PROTOCOL);
    Ok(match (route.address, route.via) {
        (IpAddr::V4(address), IpAddr::V4(via)) => RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(address, route.length)
            .gateway(via)
            .protocol(protocol)
            .build(),
        (IpAddr::V6(address), IpAddr::V6(via)) => RouteMessageBuilder::<Ipv6Addr>::new()
            .destination_prefix(address, route.length)
            .gateway(via)
            .protocol(protocol)
            .build(),
        _ => bail!("two families: {route:?}"),
    })
}

/// Has the kernel send the routes of table main and of our protocol alone.
fn filter(family: Family) -> RouteMessage {
    let protocol = RouteProtocol::Other(PROTOCOL);
    match family {
        Family::V4 => RouteMessageBuilder::<Ipv4Addr>::new()
            .table_id(254)
            .protocol(protocol)
            .scope(RouteScope::Universe)
            .kind(RouteType::Unspec)
            .build(),
        Family::V6 => RouteMessageBuilder::<Ipv6Addr>::new()
            .table_id(254)
            .protocol(protocol)
            .scope(RouteScope::Universe)
            .kind(RouteType::Unspec)
            .build(),
    }
}

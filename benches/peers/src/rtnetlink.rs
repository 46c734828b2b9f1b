//! The crate rtnetlink: one request at a time, as it has no batches; it handles a dump while it
//! arrives.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use anyhow::{Result, bail, ensure};
use futures_util::stream::TryStreamExt as _;
use rtnetlink::packet_route::route::{
    RouteAttribute, RouteMessage, RouteProtocol, RouteScope, RouteType,
};
use rtnetlink::{Handle, RouteMessageBuilder, new_connection_with_strict_check};
use trueup_works::clock::{Took, timed};
use trueup_works::{Destination, Family, PROTOCOL, Work, routes};

/// Does a work on a runtime with one thread: with several threads it takes more than five times as
/// long.
pub(crate) fn run(work: Work, size: usize) -> Result<Took> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let _entered = runtime.enter();
    let (connection, handle, _messages) = new_connection_with_strict_check()?;
    runtime.spawn(connection);
    Ok(timed(|| runtime.block_on(carry_out(&handle, work, size)))?.1)
}

async fn carry_out(handle: &Handle, work: Work, size: usize) -> Result<()> {
    let routes = routes(work, size)?;
    if work.is_noop() {
        let wanted = routes.count();
        let mut dump = handle.route().get(filter(work.family())).execute();
        let mut found = 0;
        while let Some(route) = dump.try_next().await? {
            found += usize::from(route.header.protocol == RouteProtocol::Other(PROTOCOL));
        }
        ensure!(found >= wanted, "{found} of {wanted} routes");
        return Ok(());
    }
    for route in routes {
        let mut message = message(route)?;
        match work {
            Work::RouteGateway => handle.route().add(message).replace().execute().await?,
            Work::RouteCreate(_) => handle.route().add(message).execute().await?,
            _ => {
                // The gateway may be either one.
                message.attributes.retain(|it| !matches!(it, RouteAttribute::Gateway(_)));
                handle.route().del(message).execute().await?;
            }
        }
    }
    Ok(())
}

fn message(((address, length), via): (Destination, IpAddr)) -> Result<RouteMessage> {
    let protocol = RouteProtocol::Other(PROTOCOL);
    Ok(match (address, via) {
        (IpAddr::V4(address), IpAddr::V4(via)) => RouteMessageBuilder::<Ipv4Addr>::new()
            .destination_prefix(address, length)
            .gateway(via)
            .protocol(protocol)
            .build(),
        (IpAddr::V6(address), IpAddr::V6(via)) => RouteMessageBuilder::<Ipv6Addr>::new()
            .destination_prefix(address, length)
            .gateway(via)
            .protocol(protocol)
            .build(),
        _ => bail!("two families: {address} via {via}"),
    })
}

/// Makes the kernel send only routes of table main with our protocol.
fn filter(family: Family) -> RouteMessage {
    let mut message = match family {
        Family::Inet => RouteMessageBuilder::<Ipv4Addr>::new().build(),
        Family::Inet6 => RouteMessageBuilder::<Ipv6Addr>::new().build(),
    };
    message.header.table = 254;
    message.header.protocol = RouteProtocol::Other(PROTOCOL);
    message.header.scope = RouteScope::Universe;
    message.header.kind = RouteType::Unspec;
    message
}

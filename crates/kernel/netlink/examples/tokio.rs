//! One pass with rtnetlink under tokio: rtnetlink dumps, trueup-net plans, rtnetlink applies.
//! trueup opens no socket.

use std::error::Error;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::pin::pin;

use futures_util::{Stream, StreamExt, TryStreamExt};
use rtnetlink::packet_core::{NetlinkMessage, NetlinkPayload};
use rtnetlink::packet_route::RouteNetlinkMessage;
use rtnetlink::{Handle, RouteMessageBuilder};
use trueup_net::{
    Address, BridgeAttrs, Desired, IfName, Kind, Link, LinkKind, NextHop, NextHops, Observed,
    Owned, Policy, Route, plan,
};
use trueup_netlink::packet::{ObjectMessage, Observation, requests};

type Result<T> = std::result::Result<T, Box<dyn Error>>;

pub(crate) fn main() -> Result<()> {
    tokio::runtime::Builder::new_current_thread().enable_io().build()?.block_on(run())
}

async fn run() -> Result<()> {
    let (connection, handle, _) = rtnetlink::new_connection()?;
    tokio::spawn(connection);
    let bridge: IfName = "br0".parse()?;
    let gateway = NextHops::One(NextHop::via("10.1.0.9".parse()?));
    let desired = Desired::default()
        .with_links([Link::new(bridge, LinkKind::Bridge(BridgeAttrs::default())).with_up(true)])
        .with_addresses([Address::new(bridge, "10.1.0.1/24".parse()?)])
        .with_routes([Route::new("10.2.0.0/16".parse()?, gateway)]);

    let observed = observe(&handle).await?;
    let plan = plan(&desired, &observed, &Owned::default(), Policy::default())?;
    // The kernel gives new links low indexes.
    let indexes = plan.devices.planned().map(|(dev, _)| dev).zip(1 << 24..).collect();
    for (at, op) in plan.ops.iter().enumerate() {
        println!("{}", op.command(&plan.devices));
        for request in requests(&plan, at, &indexes)? {
            send(&handle, request).await?;
        }
    }
    let left =
        trueup_net::plan(&desired, &observe(&handle).await?, &Owned::default(), Policy::default())?;
    println!("converged: {}", left.is_empty());
    Ok(())
}

/// Reads everything that the plan needs.
async fn observe(handle: &Handle) -> Result<Observed> {
    let ipv4 = RouteMessageBuilder::<Ipv4Addr>::new().build();
    let ipv6 = RouteMessageBuilder::<Ipv6Addr>::new().build();
    let mut observation = Observation::new();
    add(&mut observation, handle.link().get().execute()).await?;
    add(&mut observation, handle.address().get().execute()).await?;
    add(&mut observation, handle.route().get(ipv4).execute()).await?;
    add(&mut observation, handle.route().get(ipv6).execute()).await?;
    Ok(observation.finish([Kind::Link, Kind::Address, Kind::Route].into_iter().collect()))
}

async fn add<M: ObjectMessage>(
    observation: &mut Observation,
    rows: impl Stream<Item = std::result::Result<M, rtnetlink::Error>>,
) -> Result<()> {
    let mut rows = pin!(rows);
    while let Some(row) = rows.try_next().await? {
        observation.add(&row)?;
    }
    Ok(())
}

/// Sends a request, and waits for the kernel's answer.
async fn send(handle: &Handle, request: NetlinkMessage<RouteNetlinkMessage>) -> Result<()> {
    let mut answers = pin!(handle.clone().request(request)?);
    while let Some(answer) = answers.next().await {
        if let NetlinkPayload::Error(error) = answer.payload {
            return Err(rtnetlink::Error::NetlinkError(error).into());
        }
    }
    Ok(())
}

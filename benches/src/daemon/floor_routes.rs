//! The floor of single changes: routes of another writer that no agent knows of, each replaced by
//! one raw request.

use std::collections::HashSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use trueup_net::{Dev, Family, NextHop, NextHops, Nexthop, NexthopTarget, Object, Prefix, Route};
use trueup_testkit::index_of;

use super::table::{Form, GATEWAYS, address, next};
use crate::floor::{self, Raw};
use crate::listener::Listener;
use crate::processor;
use crate::works::FOREIGN;
use crate::writer::{self, Verb};

/// The numbers of its nexthop objects begin here, far from those that trueup gives.
const FIRST_OBJECT: u32 = 4_000_000_000;
/// The longest wait for an event, once the kernel has the change.
const BOUND: Duration = Duration::from_millis(500);

/// The routes, and the gateway that each has now.
pub(super) struct FloorRoutes {
    form: Form,
    prefixes: Vec<Prefix>,
    gateways: Vec<u8>,
    at: usize,
    socket: Raw,
}

/// What a change took.
pub(super) struct FloorChange {
    /// To the last event; `None` if one was not heard.
    pub(super) latency: Option<Duration>,
    /// How many events were not heard.
    pub(super) unheard: usize,
    /// Processor time.
    pub(super) processor: Duration,
}

impl FloorRoutes {
    /// Creates so many.
    pub(super) fn create(form: Form, count: usize) -> Result<FloorRoutes> {
        let prefix = |at: usize| {
            let [.., high, low] = at.to_be_bytes();
            let (address, length): (IpAddr, u8) = match form.family() {
                Family::Inet => (Ipv4Addr::new(10, high, low, 0).into(), 24),
                Family::Inet6 => {
                    let at = u16::from_be_bytes([high, low]);
                    (Ipv6Addr::new(0xfd01, at, 0, 0, 0, 0, 0, 0).into(), 32)
                }
            };
            Prefix::new(address, length).context("a prefix")
        };
        let routes = FloorRoutes {
            form,
            prefixes: (0..count).map(prefix).collect::<Result<_>>()?,
            gateways: vec![1; count],
            at: 0,
            socket: Raw::open()?,
        };
        writer::create(&routes.objects())?;
        writer::create(&routes.routes())?;
        Ok(routes)
    }

    /// Deletes them.
    pub(super) fn delete(self) -> Result<()> {
        writer::write(Verb::Delete, &self.routes())?;
        writer::write(Verb::Delete, &self.objects())
    }

    /// Leads so many of them another way at once, and waits for their events.
    pub(super) fn change(&mut self, count: usize, listener: &Listener) -> Result<FloorChange> {
        let places: Vec<usize> =
            (0..count).map(|at| (self.at + at) % self.prefixes.len()).collect();
        self.at += count;
        for at in &places {
            self.gateways[*at] = next(self.gateways[*at]);
        }
        let routes: Vec<Route> = places.iter().map(|at| self.route(*at)).collect();
        let requests = floor::replacements(&routes)?;
        let changed: HashSet<Prefix> = places.iter().map(|at| self.prefixes[*at]).collect();
        let due = changed.len();
        drop(listener.take());
        let (start, used) = (Instant::now(), processor::of_this_thread()?);
        self.socket.send(&requests)?;
        let processor = processor::of_this_thread()?.saturating_sub(used);
        let heard = listener.wait_all(changed, BOUND)?;
        let last = heard.iter().max().filter(|_| heard.len() == due);
        Ok(FloorChange {
            latency: last.map(|last| last.saturating_duration_since(start)),
            unheard: due - heard.len(),
            processor,
        })
    }

    fn route(&self, at: usize) -> Route {
        let gateway = self.gateways[at];
        let nexthops = match self.form {
            Form::Objects => NextHops::Object(FIRST_OBJECT + u32::from(gateway), Vec::new()),
            form => form.nexthops(gateway),
        };
        let route = Route::new(self.prefixes[at], nexthops);
        route.with_protocol(FOREIGN).canonical()
    }

    fn routes(&self) -> Vec<Object> {
        let all = 0..self.prefixes.len();
        all.map(|at| Object::Route(self.route(at))).collect()
    }

    /// The nexthop objects that routes of this form point at.
    fn objects(&self) -> Vec<Object> {
        if self.form != Form::Objects {
            return Vec::new();
        }
        let (family, dev) = (self.form.family(), Dev::index(index_of("up0")));
        let object = |gateway: u8| {
            let hop = NextHop::via(address(family, gateway)).with_dev(Some(dev));
            let target = NexthopTarget::One(family, hop);
            let object = Nexthop::new(FIRST_OBJECT + u32::from(gateway), target);
            Object::Nexthop(object.with_protocol(FOREIGN).canonical())
        };
        (0..GATEWAYS).map(object).collect()
    }
}

//! One namespace: all its objects, who listens, and where the objects' rooms meet.
//!
//! Each object has a file with its part of the state and its `impl State`. They call each other through the hooks below
//! and nothing else; a hook runs the steps in the kernel's order, which is that of its notifier chain.

use crate::message::RawMessage;

use super::address4::Addresses4;
use super::address6::Addresses6;
use super::client::Mailbox;
use super::fdb::Forwarding;
use super::link::Links;
use super::neighbour::Neighbours;
use super::nexthop::Nexthops;
use super::request::Request;
use super::route4::Routes4;
use super::route6::Routes6;
use super::rule::Rules;

/// A rule of the real kernel that the fake can be told to break, to show that tests notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Flaw {
    /// An IPv6 route without a metric keeps 0 instead of becoming 1024.
    Ipv6MetricStaysZero,
    /// IPv4 routes survive their link going down.
    Ipv4RoutesSurviveLinkDown,
    /// A route delete does not look at the protocol.
    DeleteIgnoresProtocol,
    /// An address replaced without a lifetime keeps the one it had.
    AddressKeepsLifetime,
    /// A rule that exists already may be added once more.
    RuleTwice,
    /// A neighbour replaced without `NDA_PROTOCOL` loses it.
    NeighbourLosesProtocol,
    /// A group keeps a nexthop object that is deleted.
    GroupsOutliveTheirNexthops,
    /// A destination appended to a forwarding entry takes the place of the others.
    AppendReplaces,
    /// A link's MTU may be anything.
    MtuUnchecked,
}

/// Everything in the namespace.
#[derive(Default)]
pub(crate) struct State {
    pub(crate) links: Links,
    pub(crate) addresses4: Addresses4,
    pub(crate) addresses6: Addresses6,
    pub(crate) forwarding: Forwarding,
    pub(crate) neighbours: Neighbours,
    pub(crate) nexthops: Nexthops,
    pub(crate) routes4: Routes4,
    pub(crate) routes6: Routes6,
    pub(crate) rules: Rules,
    pub(crate) flaw: Option<Flaw>,
    /// Where the sockets that are open have their mail.
    pub(crate) mailboxes: Vec<std::sync::Weak<Mailbox>>,
    pub(crate) next_port: u32,
}

/// The multicast groups (`RTNLGRP_*`).
pub(crate) mod group {
    pub(crate) const LINK: u32 = 1;
    pub(crate) const NEIGH: u32 = 3;
    pub(crate) const IPV4_IFADDR: u32 = 5;
    pub(crate) const IPV4_ROUTE: u32 = 7;
    pub(crate) const IPV4_RULE: u32 = 8;
    pub(crate) const IPV6_IFADDR: u32 = 9;
    pub(crate) const IPV6_ROUTE: u32 = 11;
    pub(crate) const IPV6_RULE: u32 = 19;
    pub(crate) const NEXTHOP: u32 = 32;
}

impl State {
    /// As [`quiet_netns`](crate::quiet_netns) leaves a namespace.
    pub(crate) fn new() -> Self {
        let mut state = Self::default();
        state.rules_at_birth();
        state.links_at_birth();
        state
    }

    pub(crate) fn is(&self, flaw: Flaw) -> bool {
        self.flaw == Some(flaw)
    }

    /// Announces a change to a group's listeners. With `by`, it bears the port id and the sequence number of the request
    /// that caused it, as for routes and rules; without, it bears neither.
    pub(crate) fn announce(&mut self, group: u32, message: &RawMessage, by: Option<&Request<'_>>) {
        self.announce_with(0, group, message, by);
    }

    /// As [`announce`](Self::announce), with flags: of routes they say what was done, `NLM_F_EXCL` that nothing was there.
    pub(crate) fn announce_with(
        &mut self,
        flags: u16,
        group: u32,
        message: &RawMessage,
        by: Option<&Request<'_>>,
    ) {
        let (sequence, port) = by.map_or((0, 0), |by| (by.sequence, by.port));
        self.announce_as(flags, group, message, sequence, port);
    }

    /// As these, with any sequence number and port id.
    pub(crate) fn announce_as(
        &mut self,
        flags: u16,
        group: u32,
        message: &RawMessage,
        sequence: u32,
        port: u32,
    ) {
        self.mailboxes.retain(|mailbox| mailbox.strong_count() > 0);
        for mailbox in self.mailboxes.iter().filter_map(std::sync::Weak::upgrade) {
            if mailbox.listens(group) {
                mailbox.deliver(message.encode(flags, sequence, port));
            }
        }
    }

    // What addresses do to routes; the bodies are in route4.rs and route6.rs.
    //
    // * `routes4_address_added(index, &Address4)`: `fib_inetaddr_event`, `NETDEV_UP`; the address is in the list already.
    // * `routes4_address_removed(index, &Address4)`: the same for `NETDEV_DOWN`; it has left the list.
    // * `routes4_secondary_removed(index, &Address4, primary: &Address4)`: `fib_del_ifaddr` as promotion calls it.
    // * `routes4_primary_added(index, &Address4)`: `fib_add_ifaddr` alone.
    // * `routes4_metric_changed(index, &Address4, metric)`: `fib_modify_prefix_metric`; the address still has the old one.
    // * `routes6_local_added(index, address)`, `routes6_local_removed(index, address)`: the address's own route in table local.
    // * `routes6_prefix_added(index, prefix, length, metric, lifetime)`: `addrconf_prefix_route`.
    // * `routes6_prefix_removed(index, prefix, length)`: `cleanup_prefix_route` with deletion.
    // * `routes6_prefix_modified(index, prefix, length, metric, lifetime) -> bool`: `modify_prefix_route`; whether there was one.
    // * `routes6_prefix_expires(index, prefix, length, lifetime)`: `cleanup_prefix_route` without deletion.
    // * `routes6_multicast_added(index)`: `addrconf_add_mroute`.
    // * `routes6_source_removed(index, address)`: `rt6_remove_prefsrc`.

    // What links do to the rest. `link.rs` calls these after it has changed the link itself; whoever needs the link
    // before the change is given it.

    /// A link has come to be (`NETDEV_REGISTER`), still down.
    pub(crate) fn link_registered(&mut self, index: u32) {
        self.routes4_registered(index);
        self.addresses4_registered(index);
        self.addresses6_registered(index);
        self.rules_device_registered(index);
    }

    /// A link was set up (`NETDEV_UP`).
    pub(crate) fn link_up(&mut self, index: u32) {
        self.addresses4_up(index);
        self.routes4_up(index);
        self.addresses6_up(index);
        self.routes6_up(index);
    }

    /// A link was set down (`NETDEV_DOWN`).
    pub(crate) fn link_down(&mut self, index: u32) {
        self.nexthops_down(index);
        self.routes4_down(index);
        self.neighbours_down(index);
        // addrconf_ifdown takes the routes first.
        self.routes6_down(index);
        self.addresses6_down(index);
        self.routes6_collect();
    }

    /// The carrier of a link that is up came or went (`NETDEV_CHANGE`).
    pub(crate) fn link_carrier(&mut self, index: u32, on: bool) {
        if !on {
            self.nexthops_down(index);
        }
        self.routes4_carrier(index, on);
        self.neighbours_carrier(index, on);
        self.addresses6_carrier(index, on);
        self.routes6_carrier(index, on);
    }

    /// A link is about to go (`NETDEV_UNREGISTER`); it was set down before, and is still in `links`.
    pub(crate) fn link_gone(&mut self, index: u32) {
        self.nexthops_gone(index);
        self.routes4_dying(index);
        self.addresses4_gone(index);
        self.routes4_gone(index);
        self.neighbours_gone(index);
        self.routes6_gone(index);
        self.addresses6_gone(index);
        self.rules_device_gone(index);
    }

    /// A link's MTU changed (`NETDEV_CHANGEMTU`).
    pub(crate) fn link_mtu(&mut self, index: u32, before: u32) {
        self.routes4_mtu(index, before);
        self.addresses4_mtu(index);
        self.addresses6_mtu(index);
        self.routes6_mtu(index, before);
    }

    /// A link's hardware address changed (`NETDEV_CHANGEADDR`).
    pub(crate) fn link_hardware_address(&mut self, index: u32) {
        self.neighbours_hardware_address(index);
        self.routes6_collect();
    }

    /// A link was renamed (`NETDEV_CHANGENAME`).
    pub(crate) fn link_renamed(&mut self, index: u32, before: &[u8]) {
        self.addresses4_renamed(index, before);
        self.rules_device_renamed(index, before);
    }

    /// Writes a setting below `net.`; each room takes its own.
    pub(crate) fn sysctl(&mut self, name: &str, value: &str) -> Result<(), String> {
        if let Some(result) = self.neighbour_setting(name, value) {
            return result;
        }
        self.conf_setting(name, value)
    }
}

//! The agents' routes, and the kernel's announcements of them.

use std::fmt;
use std::net::Ipv4Addr;

use trueup_testkit::fields::OURS;
use trueup_testkit::{Action, Kind, RawMessage};

/// A route through a gateway on a device.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Route {
    pub(crate) dst: String,
    pub(crate) via: String,
}

/// An IPv4 announcement: an agent's route was added or changed, or any route was deleted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Change {
    pub(crate) host: &'static str,
    pub(crate) action: Action,
    pub(crate) route: Route,
}

impl Change {
    /// Reads an announcement; `None` if it is about something else.
    pub(crate) fn read(host: &'static str, message: &RawMessage) -> Option<Change> {
        const RTA_DST: u16 = 1;
        const RTA_GATEWAY: u16 = 5;
        const AF_INET: u8 = 2;
        let is_route = message.kind == Kind::Route && message.family() == AF_INET;
        if !is_route || (message.action == Action::New && message.protocol() != Some(OURS)) {
            return None;
        }
        // The default route has no destination, and some routes have no gateway.
        let address = |number| {
            let bytes = message.attrs.get(&number).map(|it| it.as_slice().try_into());
            Ipv4Addr::from(bytes.and_then(Result::<[u8; 4], _>::ok).unwrap_or_default())
        };
        let route = Route {
            dst: format!("{}/{}", address(RTA_DST), message.header[1]),
            via: address(RTA_GATEWAY).to_string(),
        };
        Some(Change { host, action: message.action, route })
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let action = match self.action {
            Action::New => "added",
            Action::Del => "deleted",
        };
        let Route { dst, via } = &self.route;
        write!(f, "{}: {action} {dst} via {via}", self.host)
    }
}

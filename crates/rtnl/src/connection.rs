//! The sockets in a namespace, kept from pass to pass while subscribed.

use trueup_diff::{Kind, Kinds};
use trueup_netlink::{Markers, Namespace, markers};
use trueup_observe::Observer;

use crate::Error;

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) observer: Observer,
    /// What this kernel stores a protocol on, once it was asked.
    markers: Option<Markers>,
}

impl Connection {
    pub(crate) fn open(namespace: &Namespace) -> Result<Connection, trueup_netlink::Error> {
        Ok(Connection {
            observer: Observer::open(namespace)?,
            markers: None,
        })
    }

    /// Finds out what this kernel stores a protocol on. It is asked once, and only where that
    /// matters to one of the kinds.
    pub(crate) fn markers(&mut self, kinds: Kinds) -> Result<Option<Markers>, Error> {
        let matters = |kind: &Kind| {
            // With a link go addresses, of which not all are foreign.
            *kind != Kind::Route && *kind != Kind::Nexthop && kinds.contains(*kind)
        };
        if self.markers.is_none() && Kind::ALL.iter().any(matters) {
            self.markers = Some(markers(self.observer.socket())?);
        }
        Ok(self.markers)
    }
}

//! The sockets in a namespace, kept from pass to pass while subscribed.

use trueup_net::{Desired, Kind, Kinds, ObjectKind as _, Routes, each_kind};
use trueup_netlink::{Markers, Namespace, markers};
use trueup_observe::Observer;

use crate::Error;
use crate::ownership::record_key::SourceKind as _;

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) observer: Observer,
    /// What this kernel stores a protocol on, of the kinds that it was asked about.
    markers: Option<(Kinds, Markers)>,
}

/// A dump of more routes comes in several parts.
const MAX_IN_ONE_PART: usize = 256;

impl Connection {
    pub(crate) fn open(namespace: &Namespace) -> Result<Connection, trueup_netlink::Error> {
        Ok(Connection::over(Observer::open(namespace)?))
    }

    /// Opens the sockets of a pass without a subscription: where few routes are desired, no more of
    /// them than it turns out to need.
    pub(crate) fn open_once(
        namespace: &Namespace,
        desired: &Desired,
    ) -> Result<Connection, trueup_netlink::Error> {
        let routes = desired.routes.as_ref().map_or(0, Routes::len);
        if routes > MAX_IN_ONE_PART {
            Connection::open(namespace)
        } else {
            Ok(Connection::over(Observer::open_lazily(namespace)?))
        }
    }

    fn over(observer: Observer) -> Connection {
        Connection { observer, markers: None }
    }

    /// Finds out what this kernel stores a protocol on. It is asked once, and only about what
    /// matters to one of the kinds.
    pub(crate) fn markers(&mut self, kinds: Kinds) -> Result<Option<Markers>, Error> {
        let mut asked = Kinds::NONE;
        each_kind!(K => if K::MARKER_IS_ASKED && kinds.contains(K::KIND) {
            asked = asked.with(K::KIND);
        });
        // With a link go addresses, and with these neighbours: not all of them are foreign.
        if kinds.contains(Kind::Link) || kinds.contains(Kind::Address) {
            asked = asked.with(Kind::Address).with(Kind::Neighbour);
        }
        if asked == Kinds::NONE {
            return Ok(None);
        }
        match self.markers {
            Some((known, markers)) if known == asked => Ok(Some(markers)),
            _ => {
                let found = markers(self.observer.socket(), asked)?;
                self.markers = Some((asked, found));
                Ok(Some(found))
            }
        }
    }
}

//! The sockets in a namespace, kept between passes while subscribed.

use trueup_net::{Desired, Kind, Kinds, ObjectKind as _, Routes, each_kind};
use trueup_netlink::{Namespace, marker};
use trueup_observe::Observer;

use crate::Error;
use crate::ownership::record_key::SourceKind as _;

#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) observer: Observer,
    /// The kinds probed so far, and those among them on which the kernel stores no protocol.
    unstored: Option<(Kinds, Kinds)>,
}

/// A dump of more routes comes in several parts.
const MAX_IN_ONE_PART: usize = 256;

impl Connection {
    pub(crate) fn open(namespace: &Namespace) -> Result<Connection, trueup_netlink::Error> {
        Ok(Connection::over(Observer::open(namespace)?))
    }

    /// Opens the sockets of a pass without a subscription. If few routes are desired, opens them
    /// only as needed.
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
        Connection { observer, unstored: None }
    }

    /// Returns the kinds on which this kernel stores no protocol. Probes the kernel once, and only
    /// for the needs of `kinds`. Without any rule, the answer for rules is unknown.
    pub(crate) fn unstored(&mut self, kinds: Kinds) -> Result<Kinds, Error> {
        let mut asked = Kinds::NONE;
        each_kind!(K => if K::MARKER_IS_ASKED && kinds.contains(K::KIND) {
            asked = asked.with(K::KIND);
        });
        // Addresses go with a link, and neighbours with addresses: not all of them are foreign.
        if kinds.contains(Kind::Link) || kinds.contains(Kind::Address) {
            asked = asked.with(Kind::Address).with(Kind::Neighbour);
        }
        if let Some((known, unstored)) = self.unstored
            && known == asked
        {
            return Ok(unstored);
        }
        let mut unstored = Kinds::NONE;
        for kind in Kind::ALL {
            if asked.contains(kind) && marker(self.observer.socket(), kind)? == Some(false) {
                unstored = unstored.with(kind);
            }
        }
        self.unstored = Some((asked, unstored));
        Ok(unstored)
    }
}

//! The reader of snapshots.

use trueup_diff::Route;
use trueup_netlink::{Error, Namespace, Socket};

use crate::snapshot::{Doubt, Scope, Snapshot, routes_where, snapshot};

/// Reads snapshots of one namespace.
#[derive(Debug)]
pub struct Observer {
    socket: Socket,
}

impl Observer {
    /// Opens the sockets in a namespace.
    ///
    /// # Errors
    ///
    /// As [`Socket::open`].
    pub fn open(namespace: &Namespace) -> Result<Observer, Error> {
        Ok(Observer {
            socket: Socket::open(namespace)?,
        })
    }

    /// The socket for requests, to use as one likes between two reads.
    pub fn socket(&mut self) -> &mut Socket {
        &mut self.socket
    }

    /// Reads what is in a scope.
    ///
    /// # Errors
    ///
    /// When the kernel refuses or breaks off a dump, or does not answer. What could be read but is in
    /// doubt is no error: it is told in the snapshot.
    pub fn snapshot(&mut self, scope: &Scope) -> Result<Snapshot, Error> {
        snapshot(&mut self.socket, scope)
    }

    /// The routes within a scope that `keep` wants. Nothing is held of the others, so that a look at a
    /// few among many costs no memory.
    ///
    /// # Errors
    ///
    /// As [`snapshot`](Self::snapshot).
    pub fn routes_where(
        &mut self,
        scope: &Scope,
        keep: impl FnMut(&Route) -> bool,
    ) -> Result<(Vec<Route>, Option<Doubt>), Error> {
        routes_where(&mut self.socket, scope, keep)
    }
}

//! The reader of snapshots.

use trueup_diff::{DumpMatcher, ForwardingEntry, Mismatches, Route};
use trueup_netlink::{Error, Namespace, Socket};

use crate::changes::Change;
use crate::routes;
use crate::settle::Others;
use crate::snapshot::{self, Incomplete, ReadScope, Snapshot};
use crate::witness::{Witness, barrier};

/// Reads snapshots of one namespace.
///
/// Beside the socket that it asks through it has one that listens, so that it knows whether anybody wrote while it read. One's
/// own writes do not count, if they are over before a read begins.
#[derive(Debug)]
pub struct Observer {
    pub(crate) socket: Socket,
    pub(crate) witness: Witness,
    pub(crate) others: Others,
}

impl Observer {
    /// Opens the sockets in a namespace.
    ///
    /// # Errors
    ///
    /// As [`Socket::open`] and [`Multicast::open`](trueup_netlink::Multicast::open).
    pub fn open(namespace: &Namespace) -> Result<Observer, Error> {
        let observer = Observer::both(namespace)?;
        let cookies = (
            observer.socket.netns_cookie(),
            observer.witness.netns_cookie(),
        );
        match cookies {
            // The name went to another in between.
            (Ok(asked), Ok(heard)) if asked != heard => Observer::both(&namespace.open()?),
            _ => Ok(observer),
        }
    }

    fn both(namespace: &Namespace) -> Result<Observer, Error> {
        Ok(Observer {
            socket: Socket::open(namespace)?,
            witness: Witness::open(namespace)?,
            others: Others::new(namespace.clone()),
        })
    }

    /// The socket for requests, to use as one likes between two reads.
    pub fn socket(&mut self) -> &mut Socket {
        &mut self.socket
    }

    /// Keeps the changes that the kernel announces from now on, so many at the most, until they are asked for.
    pub fn record_changes(&mut self, most: usize) {
        self.witness.record_changes(most);
    }

    /// Says that one's own writes are over: what was announced by now is theirs, or of the same time.
    pub fn mark_writes_done(&mut self) {
        self.witness.written();
    }

    /// Ends what [`record_changes`](Self::record_changes) began. Gives all changes in their order; `None` where some may have been
    /// missed. The kernel announces no proxy entries.
    pub fn take_changes(&mut self) -> Option<Vec<Change>> {
        // Most changes are made and announced under one lock.
        barrier(&mut self.socket);
        self.witness.changes()
    }

    /// Reads what is in a scope.
    ///
    /// # Errors
    ///
    /// When the kernel refuses or breaks off a dump, or does not answer. What could be read but is in
    /// doubt is no error: it is told in the snapshot.
    pub fn snapshot(&mut self, scope: &ReadScope) -> Result<Snapshot, Error> {
        snapshot::take(self, scope)
    }

    /// All forwarding entries of bridges and VXLANs, learnt ones too, that `keep` wants.
    ///
    /// # Errors
    ///
    /// As [`snapshot`](Self::snapshot).
    pub fn forwarding_where(
        &mut self,
        keep: impl FnMut(&ForwardingEntry) -> bool,
    ) -> Result<(Vec<ForwardingEntry>, Option<Incomplete>), Error> {
        snapshot::forwarding(self, keep)
    }

    /// The routes within a scope that `keep` wants. Nothing is held of the others, so that a look at a
    /// few among many costs no memory.
    ///
    /// # Errors
    ///
    /// As [`snapshot`](Self::snapshot).
    pub fn routes_where(
        &mut self,
        scope: &ReadScope,
        keep: impl FnMut(&Route) -> bool,
    ) -> Result<(Vec<Route>, Option<Incomplete>), Error> {
        routes::kept(self, scope, keep)
    }

    /// The routes within a scope that do not fall through a matcher, and the mismatches in it. Nothing is held of those that do.
    ///
    /// # Errors
    ///
    /// As [`snapshot`](Self::snapshot).
    pub fn match_routes(
        &mut self,
        scope: &ReadScope,
        matcher: &mut DumpMatcher<'_>,
    ) -> Result<(Vec<Route>, Mismatches, Option<Incomplete>), Error> {
        routes::matched(self, scope, matcher)
    }
}

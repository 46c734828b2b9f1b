//! [`Snapshot`]: the objects of a namespace, and the kinds that are complete.

use trueup_net::{
    ForwardingEntry, IfName, Kind, Link, LinkStatus, Object, ObjectKind as _, Observed, OfKind,
    each_kind, with_object,
};
use trueup_netlink::Error;
use trueup_netlink::codec::{KindCodec as _, ReadScope, forwarding, link};

use crate::completeness::{Incomplete, ReadResult};
use crate::kind_reader::DumpRequest;
use crate::kind_reader::read_kind;
use crate::observer::Observer;

/// The answer to a request for a single object.
#[derive(Clone, Debug, PartialEq)]
pub enum SingleRead {
    /// The object as the kernel holds it.
    Found(Object),
    /// No object has the key.
    Absent,
    /// The kernel answers no request for a single object of this kind and family, or the answer
    /// cannot be read.
    Unsupported,
}

/// The objects that were read, and the reasons why kinds are incomplete.
///
/// ```
/// use trueup_netlink::Namespace;
/// use trueup_observe::{Observer, ReadScope};
///
/// let here = Namespace::current();
/// # let here = trueup_testkit::model::Kernel::new().namespace();
/// let snapshot = Observer::open(&here)?.snapshot(&ReadScope::whole())?;
/// if !snapshot.is_complete() {
///     println!("delete nothing: {:?}", snapshot.incomplete);
/// }
/// # Ok::<(), trueup_netlink::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The objects in canonical form and in key order, and the kinds that were read whole.
    pub observed: Observed,
    /// The reasons why some of the kinds read are not complete.
    pub incomplete: Vec<Incomplete>,
}

impl Snapshot {
    /// Returns true if every kind was read whole. If not, the state does not count as converged.
    pub fn is_complete(&self) -> bool {
        self.incomplete.is_empty()
    }

    /// Records that a kind was read, with the reasons if it is incomplete. The kind counts as
    /// complete if neither this read nor an earlier one was incomplete. Every read that adds to a
    /// snapshot calls this.
    pub fn mark_read(&mut self, kind: Kind, reasons: impl IntoIterator<Item = Incomplete>) {
        self.incomplete.extend(reasons);
        let is_incomplete = self.incomplete.iter().any(|reason| reason.kind() == kind);
        self.observed.complete = if is_incomplete {
            self.observed.complete.without(kind)
        } else {
            self.observed.complete.with(kind)
        };
    }
}

impl Observer {
    /// Reads the objects of a scope.
    ///
    /// # Errors
    ///
    /// If the kernel refuses or breaks off a dump, or does not answer. A kind that was read
    /// incompletely is no error: see [`Snapshot::incomplete`].
    pub fn snapshot(&mut self, scope: &ReadScope) -> Result<Snapshot, Error> {
        let (mut links, incomplete) = self.links()?;
        link::name_peers(&mut links);
        let link_status = links.iter().map(|(link, status)| (link.index, *status)).collect();
        let mut links: Vec<Link> = links.into_iter().map(|(link, _)| link).collect();
        links.sort_by_key(|link| link.name);
        let mut snapshot = self.snapshot_beside(scope, &links)?;
        snapshot.observed.link_status = link_status;
        snapshot.observed.links = links;
        snapshot.mark_read(Kind::Link, incomplete);
        snapshot.incomplete.sort_by_key(Incomplete::kind);
        Ok(snapshot)
    }

    /// Reads the objects of a scope without the links, which were read before. The snapshot has no
    /// links.
    ///
    /// # Errors
    ///
    /// The same as [`snapshot`](Self::snapshot).
    pub fn snapshot_beside(
        &mut self,
        scope: &ReadScope,
        links: &[Link],
    ) -> Result<Snapshot, Error> {
        let mut snapshot = Snapshot::default();
        each_kind!(K => if K::KIND != Kind::Link && scope.kinds.contains(K::KIND) {
            let (objects, incomplete) = read_kind::<K>(self, scope, links, |_| true)?;
            *OfKind::<K>::of_kind_mut(&mut snapshot.observed) = objects;
            snapshot.mark_read(K::KIND, incomplete);
        });
        Ok(snapshot)
    }

    /// Reads the single object with the key of `like`, by a request of its own. `links` are the
    /// namespace's, read before.
    ///
    /// # Errors
    ///
    /// The same as [`snapshot`](Self::snapshot).
    pub fn single(&mut self, like: &Object, links: &[Link]) -> Result<SingleRead, Error> {
        with_object!(like, like: K => {
            let mut request = Vec::new();
            if !like.encode_query(&mut request).unwrap_or(false) {
                return Ok(SingleRead::Unsupported);
            }
            match self.socket.query(&request, |message| K::decode(message.body)) {
                Ok(Ok(Some(object))) => {
                    let mut found = vec![object];
                    K::complete(&mut found, links);
                    let found = found.pop().map(Object::from);
                    Ok(found.map_or(SingleRead::Absent, SingleRead::Found))
                }
                Ok(_) => Ok(SingleRead::Unsupported),
                Err(error) if error.errno() == Some(K::ABSENT) => Ok(SingleRead::Absent),
                Err(error) => Err(error),
            }
        })
    }

    /// Reads the index of the link with a name; `None` if there is none.
    ///
    /// ```
    /// use trueup_netlink::Namespace;
    /// use trueup_observe::Observer;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let here = Namespace::current();
    /// # let here = trueup_testkit::model::Kernel::new().namespace();
    /// let mut observer = Observer::open_lazily(&here)?;
    /// match observer.link_index(&"eth0".parse()?)? {
    ///     Some(index) => println!("eth0 is {index}"),
    ///     None => println!("no eth0"),
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// The same as [`snapshot`](Self::snapshot).
    pub fn link_index(&mut self, name: &IfName) -> Result<Option<u32>, Error> {
        let mut request = Vec::new();
        let _fixed_size = link::request_by_name(&mut request, name);
        match self.socket.query(&request, |message| link::decode(message.body)) {
            Ok(Ok(Some((link, _)))) => Ok(Some(link.index)),
            Ok(_) => Ok(None),
            Err(error) if error.errno() == Some(libc::ENODEV) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads the links with their status and the indexes of veth peers.
    fn links(&mut self) -> ReadResult<(Link, LinkStatus)> {
        let request = link::dump_request();
        let dump = DumpRequest { kind: Kind::Link, request: &request, row_type: link::NEW };
        self.read_flagged(&dump, &mut link::decode)
    }

    /// Reads the forwarding entries of bridges and VXLANs, learned ones too, for which `keep`
    /// returns true.
    ///
    /// # Errors
    ///
    /// The same as [`snapshot`](Self::snapshot).
    pub fn forwarding_where(
        &mut self,
        mut keep: impl FnMut(&ForwardingEntry) -> bool,
    ) -> Result<(Vec<ForwardingEntry>, Option<Incomplete>), Error> {
        let request = forwarding::dump_request();
        let dump =
            DumpRequest { kind: Kind::Neighbour, request: &request, row_type: forwarding::NEW };
        let mut decode = |body: &[u8]| Ok(forwarding::decode(body)?.filter(&mut keep));
        let (mut entries, incomplete) = self.read_flagged(&dump, &mut decode)?;
        entries.sort_by_key(|entry| (entry.dev, entry.lladdr, entry.dst));
        Ok((entries, incomplete))
    }
}

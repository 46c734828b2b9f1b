//! Links that a pass has read, and that still hold once it has carried a plan out.
//!
//! A dump of the links costs more than all else where a namespace has hundreds of them. A pass that
//! changes no links needs them again for their names alone, and asks for the few that matter.

use std::collections::{BTreeMap, BTreeSet};

use trueup_net::{IfName, Kind, Link, LinkStatus, Observed};
use trueup_observe::{Observer, Snapshot};

use crate::Error;

/// One request for a link costs as much as so many rows of a dump.
const ROWS_OF_A_REQUEST: usize = 4;

/// The links of an observation.
pub(super) struct KnownLinks {
    links: Vec<Link>,
    status: BTreeMap<u32, LinkStatus>,
}

impl KnownLinks {
    /// Takes the links out of what was observed.
    pub(super) fn take(observed: &mut Observed) -> KnownLinks {
        KnownLinks {
            links: std::mem::take(&mut observed.links),
            status: std::mem::take(&mut observed.link_status),
        }
    }

    /// Returns true if all interfaces of these names are there, and are those that they were; false
    /// if they are too many to ask for.
    pub(super) fn hold(
        &self,
        observer: &mut Observer,
        names: &BTreeSet<IfName>,
    ) -> Result<bool, Error> {
        if names.len() * ROWS_OF_A_REQUEST > self.links.len() {
            return Ok(false);
        }
        for name in names {
            let known = self.links.iter().find(|link| link.name == *name);
            if known.is_none() || observer.link_index(name)? != known.map(|link| link.index) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Returns what was read beside the links, with them.
    pub(super) fn complete(&self, mut snapshot: Snapshot) -> Snapshot {
        snapshot.observed.links = self.links.clone();
        snapshot.observed.link_status = self.status.clone();
        snapshot.mark_read(Kind::Link, None);
        snapshot
    }

    pub(super) fn links(&self) -> &[Link] {
        &self.links
    }
}

//! Forwarding entries: the port or tunnel behind which a hardware address is reached.

use std::net::IpAddr;

use super::{Link, LinkKind, Loss, NeighbourState};
use crate::values::{Dev, LinkAddr};

/// An entry in the forwarding database of a bridge or a VXLAN. The kernel stores no marker on it,
/// so none is ever ours. trueup observes entries only to spare them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct ForwardingEntry {
    /// The device with the entry: a port of a bridge, or a VXLAN device.
    pub dev: Dev,
    /// The hardware address that is reached through the device (`NDA_LLADDR`).
    pub lladdr: LinkAddr,
    /// The bridge that has the entry. `None` if a device itself has it.
    pub master: Option<Dev>,
    /// The other end of the tunnel, for a VXLAN.
    pub dst: Option<IpAddr>,
    /// `Permanent` for an address of this host, `NoArp` for a static entry, `Dynamic` for a learned
    /// one.
    pub state: NeighbourState,
    /// True if another control plane learned it (`NTF_EXT_LEARNED`).
    pub ext_learn: bool,
}

setters! { impl ForwardingEntry {
    with_master(master: Dev);
    with_dst(dst: IpAddr);
    with_ext_learn(ext_learn: bool);
} }

impl ForwardingEntry {
    /// Makes an entry without a bridge.
    pub fn new(dev: Dev, lladdr: LinkAddr, state: NeighbourState) -> ForwardingEntry {
        ForwardingEntry { dev, lladdr, master: None, dst: None, state, ext_learn: false }
    }

    /// Returns the events that delete the entry. One that is neither permanent nor static goes as
    /// soon as a VXLAN is set down (`vxlan_stop`).
    pub(crate) fn losses(&self) -> &'static [Loss] {
        match (self.master, self.state) {
            (Some(_), _) => &[Loss::Delete, Loss::Port],
            (None, NeighbourState::Dynamic) => &[Loss::Delete, Loss::Down],
            (None, _) => &[Loss::Delete],
        }
    }

    /// Returns true if another writer made it. The kernel makes entries from its links' addresses,
    /// from a VXLAN's remote, and from received packets. Address lists that a device filters by
    /// itself look the same from every writer, and do not count.
    pub(crate) fn is_declared(&self, dev: &Link, master: Option<&Link>) -> bool {
        let fixed = self.state != NeighbourState::Dynamic || self.ext_learn;
        match (&dev.kind, self.master) {
            (_, Some(_)) => {
                let own = [Some(dev), master].into_iter().flatten();
                let is_own = own.into_iter().any(|link| link.address == Some(self.lladdr));
                fixed && !(self.state == NeighbourState::Permanent && is_own)
            }
            (Some(LinkKind::Vxlan(vxlan)), None) => {
                let others = self.lladdr.as_bytes().iter().all(|byte| *byte == 0);
                fixed && !(others && self.dst == vxlan.remote)
            }
            _ => false,
        }
    }
}

//! The change of an existing link.

use trueup_net::Link;

use super::{IFLA_IFNAME, IFLA_LINKINFO, NEW, clear_unless, header, link_kind, write_common};
use crate::codec::{EncodeError, Resolve};
use crate::wire::{MessageWriter, NLM_F_REQUEST};

/// Encodes the change of an existing link to the fields stated in `link`. Given the observed `was`,
/// writes only fields that differ. Fields that only recreation can change are left out, and so are
/// attributes refused by the kernel even unchanged, such as a VXLAN's port. If
/// [`needs_kind_change`] returns true, the kind's own attributes are left to [`change_kind`]; if
/// [`needs_master_first`] does, the master to [`change_master`].
///
/// The link is addressed by the index of `was` or `link`, or by name if both are 0.
///
/// # Errors
///
/// If a device is not resolved.
pub fn change(
    buffer: &mut Vec<u8>,
    link: &Link,
    was: Option<&Link>,
    resolve: Resolve<'_>,
) -> Result<(), EncodeError> {
    let mut wanted = different(link, was);
    clear_unless(!needs_master_first(link, was), &mut wanted.master);
    let mut message = begin_change(buffer, link, was, wanted.up);
    write_common(&mut message, &wanted, resolve)?;
    if let Some(kind) = link_kind::changed_first(&wanted) {
        link_kind::write_change(&mut message, IFLA_LINKINFO, &kind, resolve)?;
    }
    message.finish()
}

/// Returns true if a [`change_kind`] must follow a [`change`], because the kernel refuses both in
/// one message. A VXLAN refuses an MTU beside its own attributes ("Cannot change mtu"). A bridge
/// checks the forwarding delay before it switches the spanning tree protocol off (`br_changelink`
/// in net/bridge/br_netlink.c).
#[must_use]
pub fn needs_kind_change(link: &Link, was: Option<&Link>) -> bool {
    link_kind::changed_after(&different(link, was)).is_some()
}

/// Returns true if a [`change`] makes the link a port, or no longer a port.
#[must_use]
pub fn changes_master(link: &Link, was: Option<&Link>) -> bool {
    match different(link, was).master {
        Some(None) => was.is_some(), // A new link has no master.
        master => master.is_some(),
    }
}

/// Returns true if a [`change_master`] must come before a [`change`]. The kernel sets a link up
/// before it makes it a port (since 6.8; earlier, after that). But a bond refuses a port that is
/// up, and sets down one on release. If the master refuses the link, it still comes up.
#[must_use]
pub fn needs_master_first(link: &Link, was: Option<&Link>) -> bool {
    link.up == Some(true) && changes_master(link, was)
}

/// Encodes only the change of a link's master. Before a [`change`] of the same link, it prevents
/// the kernel from bringing the link up first.
///
/// # Errors
///
/// If a device is not resolved.
pub fn change_master(
    buffer: &mut Vec<u8>,
    link: &Link,
    was: Option<&Link>,
    resolve: Resolve<'_>,
) -> Result<(), EncodeError> {
    let mut message = begin_change(buffer, link, was, None);
    let mut master = Link::must_exist(link.name);
    master.master = link.master;
    write_common(&mut message, &master, resolve)?;
    message.finish()
}

/// Encodes the change of the kind's attributes that a [`change`] leaves out.
///
/// # Errors
///
/// If a device is not resolved.
pub fn change_kind(
    buffer: &mut Vec<u8>,
    link: &Link,
    was: Option<&Link>,
    resolve: Resolve<'_>,
) -> Result<(), EncodeError> {
    let mut message = begin_change(buffer, link, was, None);
    if let Some(kind) = link_kind::changed_after(&different(link, was)) {
        link_kind::write_change(&mut message, IFLA_LINKINFO, &kind, resolve)?;
    }
    message.finish()
}

fn begin_change<'a>(
    buffer: &'a mut Vec<u8>,
    link: &Link,
    was: Option<&Link>,
    up: Option<bool>,
) -> MessageWriter<'a> {
    let index = was.map_or(0, |was| was.index).max(link.index);
    let mut message = MessageWriter::begin(buffer, NEW, NLM_F_REQUEST);
    message.body(&header(index, up));
    if index == 0 {
        message.attr_string(IFLA_IFNAME, link.name.as_bytes());
    }
    message
}

/// Returns the link without the attributes that an update does not write.
fn different(link: &Link, was: Option<&Link>) -> Link {
    let mut wanted = link.clone();
    if let Some(was) = was {
        let written = link.written(was);
        clear_unless(written.contains("up"), &mut wanted.up);
        clear_unless(written.contains("mtu"), &mut wanted.mtu);
        clear_unless(written.contains("address"), &mut wanted.address);
        clear_unless(written.contains("master"), &mut wanted.master);
        clear_unless(written.contains("alias"), &mut wanted.alias);
        clear_unless(written.contains("group"), &mut wanted.group);
        if let Some(kind) = &mut wanted.kind {
            link_kind::clear_unwritten(kind, &written);
        }
    }
    wanted
}

//! Proves from the kernel's announcements that nothing was written. The kernel announces some
//! writes that change nothing: IPv6 routes and addresses replaced by equal ones. An IPv4 route
//! replaced by an equal one is not announced, so no listener can see it.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;

use rustix::net::RecvFlags;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};

use crate::message::{Kind, RawMessage};
use crate::snapshot::Snapshot;
use crate::stable::stable;
use crate::wire::{DATAGRAM, open, raw_dump, receive};

/// A listener on all rtnetlink groups of the calling thread's namespace, from its creation on.
pub struct Changes {
    socket: OwnedFd,
    /// The last announcement of each link, by index: the kernel also announces links if only the
    /// carrier changed.
    links: HashMap<u32, RawMessage>,
}

/// Groups 1 to 32: links, neighbours, addresses, routes and rules of both families, nexthops and
/// the rest.
const ALL_GROUPS: u32 = u32::MAX;
/// Links, neighbours, and of both families addresses, routes and rules; nexthop objects.
const OBJECTS: u32 = mask(&[1, 3, 5, 7, 8, 9, 11, 19, 32]);

const fn mask(groups: &[u32]) -> u32 {
    let (mut mask, mut at) = (0, 0);
    while at < groups.len() {
        mask |= 1 << (groups[at] - 1);
        at += 1;
    }
    mask
}

impl Changes {
    /// Waits for the namespace to settle, then listens.
    ///
    /// # Panics
    ///
    /// If the namespace does not settle, or no socket can be opened.
    pub fn watch() -> Self {
        Snapshot::settled();
        Self::of(ALL_GROUPS)
    }

    /// Listens at once, to announcements of objects only. It does not hear the second announcement
    /// of a link, which is for its IPv6 settings.
    ///
    /// # Panics
    ///
    /// If no socket can be opened.
    pub fn of_objects() -> Self {
        Self::of(OBJECTS)
    }

    fn of(groups: u32) -> Self {
        let socket = open(groups).expect("a socket for rtnetlink groups");
        const ENOUGH: usize = 64 << 20;
        // In a user namespace the kernel refuses. The largest size allowed then holds a few hundred
        // messages, and reports an overrun.
        if set_socket_recv_buffer_size_force(&socket, ENOUGH).is_err() {
            let _best_effort = set_socket_recv_buffer_size(&socket, ENOUGH);
        }
        let links = raw_dump(Kind::Link, 0)
            .iter()
            .filter_map(stable)
            .map(|link| (link.device(), link))
            .collect();
        Self { socket, links }
    }

    /// Returns the announcements since the last call, reduced by [`stable`](crate::stable()).
    /// Neighbour resolution and unchanged links are left out. The kernel announces a write before
    /// it acknowledges it, so no announcement is still under way, except from the kernel's own
    /// timers.
    ///
    /// # Panics
    ///
    /// If more was announced than the socket's buffer holds.
    pub fn take(&mut self) -> Vec<RawMessage> {
        self.announcements().into_iter().map(|(message, ..)| message).collect()
    }

    /// Returns the same as [`take`](Self::take), each with the request that caused it: the socket's
    /// port and the flags. The port is 0 where the kernel does not report it: for links, IPv6
    /// addresses, deleted neighbours, and everything the kernel derives. The kernel reports one of
    /// the flags, for routes: `NLM_F_REPLACE` if another route was replaced.
    ///
    /// # Panics
    ///
    /// Like [`take`](Self::take).
    pub fn announcements(&mut self) -> Vec<(RawMessage, u32, u16)> {
        let mut changes = Vec::new();
        let mut buffer = vec![0; DATAGRAM];
        loop {
            let messages = match receive(&self.socket, &mut buffer, RecvFlags::DONTWAIT) {
                Ok(messages) => messages,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return changes,
                Err(error) => panic!("announcements were lost: {error}"),
            };
            for message in messages {
                let received = message.expect("a whole message");
                let message = RawMessage::parse(received.message_type, received.body);
                let Some(message) = message.as_ref().and_then(stable) else {
                    continue;
                };
                if message.kind != Kind::Link || self.link_moved(&message) {
                    changes.push((message, received.port, received.flags));
                }
            }
        }
    }

    /// Returns true if a link differs from its last announcement. Rows of family 7 do not count:
    /// they announce bridge ports a second time, with some of their attributes. The first
    /// announcement has them all.
    fn link_moved(&mut self, link: &RawMessage) -> bool {
        const AF_BRIDGE: u8 = 7;
        link.family() != AF_BRIDGE
            && self.links.insert(link.device(), link.clone()).as_ref() != Some(link)
    }
}

/// Runs `work` and fails if the kernel announced any change meanwhile.
///
/// ```no_run
/// use trueup_testkit::{assert_no_changes, ip};
///
/// let links = assert_no_changes(|| ip(&["link", "show"])); // reading changes nothing
/// assert!(links.contains("lo"));
/// ```
///
/// # Panics
///
/// If there was a change: with the announcements, one a line.
#[track_caller]
pub fn assert_no_changes<T>(work: impl FnOnce() -> T) -> T {
    let mut changes = Changes::watch();
    let value = work();
    let lines: Vec<_> = changes.take().iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "changes were made:\n{}", lines.join("\n"));
    value
}

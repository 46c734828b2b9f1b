//! Announcements of the kernel: the proof that nothing was written. A write that changes nothing is
//! announced too where the kernel does so (IPv6 routes and addresses replaced by their equals); an
//! IPv4 route replaced by its equal is not, and no listener can see it.

use std::collections::HashMap;
use std::io;
use std::os::fd::OwnedFd;

use rustix::net::RecvFlags;
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};

use crate::message::{Kind, RawMessage};
use crate::snapshot::Snapshot;
use crate::stable::stable;
use crate::wire::{DATAGRAM, open, raw_dump, receive};

/// A listener on all rtnetlink groups of the calling thread's namespace, from its making on.
pub struct Changes {
    socket: OwnedFd,
    /// As last announced, by index: the kernel also announces links whose carrier alone changed.
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
    /// When it does not settle, or without a socket.
    pub fn watch() -> Self {
        Snapshot::settled();
        Self::of(ALL_GROUPS)
    }

    /// Listens at once, to what is announced of objects alone: a link is not announced once more
    /// for its IPv6 settings.
    ///
    /// # Panics
    ///
    /// Without a socket.
    pub fn of_objects() -> Self {
        Self::of(OBJECTS)
    }

    fn of(groups: u32) -> Self {
        let socket = open(groups).expect("a socket for rtnetlink groups");
        const ENOUGH: usize = 64 << 20;
        // Refused in a user namespace; the most that is allowed then holds a few hundred messages,
        // and an overrun is reported.
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

    /// Returns the announcements since the last call, reduced by [`stable`](crate::stable()):
    /// without neighbour resolution, and without links that are as they were. Announcements are
    /// made before the write that causes them is acknowledged, so none is still under way, except
    /// those of the kernel's own timers.
    ///
    /// # Panics
    ///
    /// When more was announced than the socket's buffer holds.
    pub fn take(&mut self) -> Vec<RawMessage> {
        self.announcements().into_iter().map(|(message, ..)| message).collect()
    }

    /// As [`take`](Self::take), each with the request that caused it: the port of the socket and
    /// the flags. The port is 0 where the kernel does not say: for links, IPv6 addresses,
    /// neighbours that are gone, and all that it derives. Of the flags the kernel reports for
    /// routes whether `NLM_F_REPLACE` replaced another one.
    ///
    /// # Panics
    ///
    /// As [`take`](Self::take).
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

    /// Bridge ports are announced a second time with family 7 and a part of their attributes; the
    /// first has all.
    fn link_moved(&mut self, link: &RawMessage) -> bool {
        const AF_BRIDGE: u8 = 7;
        link.family() != AF_BRIDGE
            && self.links.insert(link.device(), link.clone()).as_ref() != Some(link)
    }
}

/// Runs something and fails if the kernel announced any change meanwhile.
///
/// # Panics
///
/// With the announcements, one a line.
#[track_caller]
pub fn assert_no_changes<T>(work: impl FnOnce() -> T) -> T {
    let mut changes = Changes::watch();
    let value = work();
    let lines: Vec<_> = changes.take().iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "changes were made:\n{}", lines.join("\n"));
    value
}

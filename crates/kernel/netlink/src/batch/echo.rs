//! Echoes: with `NLM_F_ECHO` the kernel sends the writer the object as it stored it (`nlmsg_notify`
//! in net/netlink/af_netlink.c). An echo is the message that the kernel sends to the multicast
//! group, in the format of a dump, and comes before the acknowledgement: so a few changes are read
//! back without a dump.

use super::{Batch, Outcome};
use crate::codec::route;
use crate::error::Error;
use crate::socket::{ANSWER_CHARGE, Socket};
use crate::wire::{HEADER_LEN, Header, Message, NLMSG_MIN_TYPE};

/// The greatest charge of the receive queue for an echo beyond twice its request's length, in
/// bytes. One of a plain IPv4 route, of a rule or of an address costs 832 in all, of an IPv6 route
/// 1280; long ones take a data block that is a power of two.
const ECHO_CHARGE: usize = 1280;
/// The least length of one next hop in a request of IPv6: `rtnexthop` and its gateway.
const HOP_LEN: usize = 28;
/// `AF_INET6`.
const INET6: u8 = 10;

impl Socket {
    /// Sends a batch as [`send_batch`](Self::send_batch) does, and passes the kernel's echoes to
    /// `each`, with the position of the message in the batch. A message has one or several echoes,
    /// in the format of the kernel's dumps and events, such as `RTM_NEWROUTE`, to be read with the
    /// same [`codec`](crate::codec).
    ///
    /// An echo says what the kernel has stored, and comes while the kernel holds the lock of the
    /// change: it contains no other writer's change. A missing echo says nothing:
    ///
    /// - the kernel does not announce an IPv4 route replace that changes nothing;
    /// - IPv4 and IPv6 routes, rules, IPv4 addresses and, since Linux 6.2, links are echoed; IPv6
    ///   addresses and neighbours are not;
    /// - an echo may be lost, as any answer may. The outcomes of all messages without an answer of
    ///   their own are then [`Unknown`](Outcome::Unknown);
    /// - an echo that would not fit the receive queue alone is not requested.
    ///
    /// So a message that is [`Done`](Outcome::Done) without an echo must be read back in another
    /// way. A delete of an IPv6 route is echoed once for each next hop. An echo is not the outcome:
    /// a change that failed half way may have been echoed before it failed.
    ///
    /// # Errors
    ///
    /// As for [`send_batch`](Self::send_batch).
    pub fn send_batch_echoed(
        &mut self,
        batch: &mut Batch,
        mut each: impl FnMut(usize, Message<'_>),
    ) -> Result<Vec<Outcome>, Error> {
        self.deliver(batch, Some(&mut each))
    }
}

/// Returns the bytes that the answers to one part of a batch may be charged, if `window` bare
/// acknowledgements fit.
pub(super) fn budget(window: usize) -> usize {
    window * ANSWER_CHARGE
}

/// Returns the end of the part of a batch that begins at `from` and whose answers fit into `room`
/// together. A part has at least one message.
pub(super) fn part_end(batch: &Batch, from: usize, room: usize) -> usize {
    let mut left = room;
    let fitting = (from..batch.len()).take_while(|index| {
        let message = batch.message(*index);
        let charge = if is_requested(message, room) { charge(message) } else { ANSWER_CHARGE };
        let fits = charge <= left;
        left = left.saturating_sub(charge);
        fits
    });
    from + fitting.count().max(1)
}

/// Returns whether to request the echo of a message if the answers have `room`: not if the echo
/// cannot arrive.
pub(super) fn is_requested(message: &[u8], room: usize) -> bool {
    room != 0 && charge(message) <= room
}

/// Returns the bytes that the answers to a message may be charged together, if it is echoed.
fn charge(message: &[u8]) -> usize {
    let one = (2 * message.len() + ECHO_CHARGE).max(ANSWER_CHARGE);
    let deletes = Header::read(message).is_some_and(|header| header.kind == route::DELETE);
    if deletes && message.get(HEADER_LEN) == Some(&INET6) {
        // Each next hop has an echo of its own.
        return (message.len() / HOP_LEN) * ECHO_CHARGE + one;
    }
    one
}

/// Returns whether a message is about an object, and not the protocol's own.
pub(super) fn is_notification(message: &Message<'_>) -> bool {
    message.header.kind >= NLMSG_MIN_TYPE
}

//! Echoes: the kernel sends whoever changes something what it made of it, as it stored it
//! (`NLM_F_ECHO`; `nlmsg_notify` in net/netlink/af_netlink.c). It is what the kernel announces to
//! everyone, in the words of a dump, and comes before the acknowledgement: so a few changes are
//! read back without a dump.

use super::{Batch, Outcome};
use crate::codec::route;
use crate::error::Error;
use crate::socket::{ANSWER_CHARGE, Socket};
use crate::wire::{HEADER_LEN, Header, Message, NLMSG_MIN_TYPE};

/// What the receive queue is charged for an echo beyond twice its request's length, at the most,
/// in bytes. One of a plain IPv4 route, of a rule or of an address costs 832 in all, of an IPv6
/// route 1280; long ones take a data block that is a power of two.
const ECHO_CHARGE: usize = 1280;
/// The least that one next hop takes in a request of IPv6: `rtnexthop` and its gateway.
const HOP_LEN: usize = 28;
/// `AF_INET6`.
const INET6: u8 = 10;

impl Socket {
    /// As [`send_batch`](Self::send_batch), and passes what the kernel tells of each message to
    /// `each`, with the message's place in the batch: one or several messages of the kind that the
    /// kernel's dumps and events have, such as `RTM_NEWROUTE`, to be read with the same
    /// [`codec`](crate::codec).
    ///
    /// An echo says what the kernel has stored, and comes while it holds the lock that the change was
    /// made under: nobody else's change is in it. What is *not* echoed says nothing:
    ///
    /// - an IPv4 route replace that changes nothing is told to nobody;
    /// - IPv4 and IPv6 routes, rules, IPv4 addresses and, since Linux 6.2, links are echoed; IPv6
    ///   addresses and neighbours are not;
    /// - an echo may be lost, as any answer may. The outcomes of the messages after it that had no
    ///   answer of their own are then [`Unknown`](Outcome::Unknown), and so are those before it;
    /// - one that would not fit the receive queue alone is not asked for.
    ///
    /// So what is [`Done`](Outcome::Done) and was not told must be read back in another way. A delete
    /// of an IPv6 route is echoed once for each next hop. An echo does not stand for the outcome:
    /// what could not be carried out to its end may have been told before it failed.
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

/// The bytes that the answers to one part of a batch may be charged, if `window` bare ones fit.
pub(super) fn room(window: usize) -> usize {
    window * ANSWER_CHARGE
}

/// Where the part of a batch ends that begins at `from` and whose answers fit into `room` together.
/// It has one message at the least.
pub(super) fn fit(batch: &Batch, from: usize, room: usize) -> usize {
    let mut left = room;
    let fitting = (from..batch.len()).take_while(|index| {
        let message = batch.message(*index);
        let charge = match asked_of(message, room) {
            true => charge(message),
            false => ANSWER_CHARGE,
        };
        let fits = charge <= left;
        left = left.saturating_sub(charge);
        fits
    });
    from + fitting.count().max(1)
}

/// Whether a message is to be echoed where `room` is for the answers: not one whose echo cannot
/// arrive.
pub(super) fn asked_of(message: &[u8], room: usize) -> bool {
    room != 0 && charge(message) <= room
}

/// What the answers to a message may be charged together, if it is echoed.
fn charge(message: &[u8]) -> usize {
    let one = (2 * message.len() + ECHO_CHARGE).max(ANSWER_CHARGE);
    let deletes = Header::read(message).is_some_and(|header| header.kind == route::DELETE);
    if deletes && message.get(HEADER_LEN) == Some(&INET6) {
        // Each next hop is told by itself.
        return (message.len() / HOP_LEN) * ECHO_CHARGE + one;
    }
    one
}

/// Whether this is news of an object, not of the protocol.
pub(super) fn is_one(message: &Message<'_>) -> bool {
    message.header.kind >= NLMSG_MIN_TYPE
}

//! [`Batch`]: many changes in one send, with exactly one answer for each.
//!
//! The kernel carries a batch out message by message before `sendmsg` returns. It is not atomic: an
//! error in the middle does not stop the messages after it. Only the last message asks for an
//! acknowledgement, which saves a third of the time. Errors of the others still arrive, with their
//! sequence number, and a failing last message sends its error instead of the acknowledgement. With
//! the default receive buffer 256 answers fit. Messages beyond them are carried out, but their
//! answers are lost. So at most 250 are ever in flight.

use std::ops::Range;
use std::time::Instant;

use crate::channel::deadline;
use crate::codec::route;
use crate::error::Error;
use crate::extack;
use crate::kernel_error::{Answer, KernelError};
use crate::socket::{ANSWER_CHARGE, Socket, WINDOW_MAX};
use crate::wire::{
    HEADER_LEN, Header, Message, Messages, NLM_F_ACK, NLM_F_ECHO, NLM_F_REQUEST, NLMSG_ERROR,
    NLMSG_MIN_TYPE,
};

/// The greatest number of messages in a [`Batch`].
pub const BATCH_MESSAGES: usize = WINDOW_MAX;
/// A [`Batch`] takes no more messages once it reaches this length, in bytes.
pub const BATCH_BYTES: usize = 64 * 1024;

/// Messages to be sent together, in one reused buffer.
///
/// ```
/// use trueup_netlink::codec::link;
/// use trueup_netlink::Batch;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut batch = Batch::new();
/// batch.push(|buffer| link::delete(buffer, 7))?;
/// batch.push(|buffer| link::delete(buffer, 8))?;
/// assert_eq!(batch.len(), 2);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Default)]
pub struct Batch {
    buffer: Vec<u8>,
    /// The end of each message in the buffer.
    ends: Vec<usize>,
}

impl Batch {
    /// Returns a batch without messages. It allocates with the first [`push`](Self::push).
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns true if the batch takes no more: it has [`BATCH_MESSAGES`] messages or
    /// [`BATCH_BYTES`] bytes.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.ends.len() >= BATCH_MESSAGES || self.buffer.len() >= BATCH_BYTES
    }

    /// Returns true if the batch has no message.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the number of messages.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Removes all messages.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.ends.clear();
    }

    /// Adds the one message that `encode` appends to the buffer with a
    /// [`MessageWriter`](crate::wire::MessageWriter), and returns true if it did. A batch that [is
    /// full](Self::is_full) does not call `encode`: send it, and push the message again.
    ///
    /// # Errors
    ///
    /// The error of `encode`. The batch is then unchanged.
    pub fn push<E>(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<bool, E> {
        if self.is_full() {
            return Ok(false);
        }
        let start = self.buffer.len();
        if let Err(error) = encode(&mut self.buffer) {
            self.buffer.truncate(start);
            return Err(error);
        }
        let mut end = start;
        // One message, as documented. If there were more, each would have an answer.
        for message in Messages::new(self.buffer.get(start..).unwrap_or(&[])) {
            end += crate::wire::align(message.header.length as usize);
            self.ends.push(end);
        }
        self.buffer.resize(end, 0);
        Ok(true)
    }

    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    fn message(&self, index: usize) -> &[u8] {
        &self.buffer[self.start(index)..self.ends[index]]
    }

    /// Numbers the messages `from..to` from `sequence` on. The last one asks for an
    /// acknowledgement, and each for an echo if it fits into `room` bytes.
    fn stamp(&mut self, from: usize, to: usize, mut sequence: u32, room: usize) {
        for index in from..to {
            let start = self.start(index);
            let echo = if is_requested(self.message(index), room) { NLM_F_ECHO } else { 0 };
            let header = &mut self.buffer[start..];
            let flags = u16::from_ne_bytes([header[6], header[7]]);
            let ack = if index + 1 == to { NLM_F_ACK } else { 0 };
            let flags = flags & !(NLM_F_ACK | NLM_F_ECHO) | NLM_F_REQUEST | ack | echo;
            header[6..8].copy_from_slice(&flags.to_ne_bytes());
            header[8..12].copy_from_slice(&sequence.to_ne_bytes());
            header[12..16].fill(0);
            sequence = sequence.wrapping_add(1);
        }
    }
}

/// The receiver of echoes, given the position in the batch and the kernel's message.
type EchoHandler<'a> = &'a mut dyn FnMut(usize, Message<'_>);

impl Socket {
    /// Sends all messages of a batch and empties it. Returns one answer for each message, in their
    /// order.
    ///
    /// A batch that does not fit the socket's buffers is sent in parts. A single message larger
    /// than the send buffer fails with `EMSGSIZE`.
    ///
    /// # Errors
    ///
    /// [`Io`](crate::ErrorKind::Io) if nothing at all could be sent. The batch is then unchanged.
    /// Once something was sent, all errors are in the answers.
    pub fn send_batch(&mut self, batch: &mut Batch) -> Result<Vec<Answer>, Error> {
        self.deliver(batch, None)
    }

    /// Sends a batch in as many parts as it takes, and requests echoes if there is a handler.
    fn deliver(
        &mut self,
        batch: &mut Batch,
        mut each: Option<EchoHandler<'_>>,
    ) -> Result<Vec<Answer>, Error> {
        let mut answers = Vec::with_capacity(batch.len());
        let mut window = self.window()?;
        // The bytes that echoes may be charged, enough for as many acknowledgements.
        let room = if each.is_some() { window * ANSWER_CHARGE } else { 0 };
        while answers.len() < batch.len() {
            let from = answers.len();
            let end = if room == 0 { batch.len() } else { part_end(batch, from, room) };
            let to = end.min(from + window);
            let first = self.sequence.wrapping_add(1);
            batch.stamp(from, to, first, room);
            // At most WINDOW_MAX.
            self.sequence = self.sequence.wrapping_add((to - from) as u32);
            match self.channel.send(&batch.buffer[batch.start(from)..batch.ends[to - 1]]) {
                Ok(()) => self.collect(batch, from..to, first, &mut each, &mut answers),
                // None of it was sent.
                Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                    if to - from == 1 {
                        answers.push(Some(Err(KernelError::from_errno(libc::EMSGSIZE))));
                    } else {
                        window = (to - from) / 2;
                    }
                }
                Err(error) if from == 0 => {
                    return Err(Error::io("cannot send to the kernel", error));
                }
                Err(_) => answers.resize(batch.len(), None),
            }
        }
        batch.clear();
        Ok(answers)
    }

    /// Collects the answers to the sent messages, numbered from `first` on.
    fn collect(
        &mut self,
        batch: &Batch,
        sent: Range<usize>,
        first: u32,
        each: &mut Option<EchoHandler<'_>>,
        all: &mut Vec<Answer>,
    ) {
        // For each message, the answer that came, if any.
        let mut answers: Vec<Option<Answer>> = vec![None; sent.len()];
        // Once an answer was lost, a message without an answer may have failed.
        let mut lost = false;
        let mut until = deadline(self.timeout);
        while answers.last().is_some_and(Option::is_none) {
            let datagram = match self.channel.receive(until) {
                Ok(Some(datagram)) => datagram,
                Err(error) if error.is_loss() => {
                    // The kernel has already queued all answers: waiting brings no more.
                    lost = true;
                    until = Instant::now();
                    continue;
                }
                Ok(None) | Err(_) => break,
            };
            let mut messages = Messages::new(datagram);
            for message in messages.by_ref() {
                let at = message.header.sequence.wrapping_sub(first) as usize;
                let Some(answer) = answers.get_mut(at) else {
                    continue;
                };
                let index = sent.start + at;
                if message.header.kind != NLMSG_ERROR {
                    if let Some(each) = each.as_mut().filter(|_| is_notification(&message)) {
                        each(index, message);
                    }
                    continue;
                }
                let read = extack::answer(&message, batch.message(index));
                // A malformed answer counts as a loss.
                lost |= read.is_none();
                *answer = Some(read);
            }
            lost |= messages.malformed();
        }
        let answered = answers.last().is_some_and(Option::is_some);
        let silent = (answered && !lost).then_some(Ok(()));
        all.extend(answers.into_iter().map(|answer| answer.unwrap_or_else(|| silent.clone())));
    }
}

/// The greatest charge of the receive queue for an echo beyond twice its request's length, in
/// bytes. An echo of a plain IPv4 route, of a rule or of an address costs 832 in all, of an IPv6
/// route 1280. Long ones take a data block of a power of two.
const ECHO_CHARGE: usize = 1280;
/// The least length in bytes of one next hop in an IPv6 request: `rtnexthop` and its gateway.
const HOP_LEN: usize = 28;
/// `AF_INET6`.
const INET6: u8 = 10;

// With `NLM_F_ECHO` the kernel sends the writer the object as it stored it (`nlmsg_notify` in
// net/netlink/af_netlink.c). An echo is the message that the kernel sends to the multicast group,
// in the format of a dump. It arrives before the acknowledgement.
impl Socket {
    /// Sends a batch like [`send_batch`](Self::send_batch), and passes the kernel's echoes to
    /// `each`, with the message's position in the batch. A message has one or several echoes, in
    /// the format of the kernel's dumps and events, such as `RTM_NEWROUTE`. Read them with the same
    /// [`codec`](crate::codec).
    ///
    /// An echo shows the object as the kernel stored it. It is sent while the kernel holds the lock
    /// of the change, so it contains no other writer's change. A missing echo proves nothing:
    ///
    /// - The kernel does not announce an IPv4 route replace that changes nothing.
    /// - IPv4 and IPv6 routes, rules, IPv4 addresses and, since Linux 6.2, links are echoed. IPv6
    ///   addresses and neighbours are not.
    /// - An echo may be lost, like any answer. The answers to all messages without one of their own
    ///   are then unknown.
    /// - An echo that would not fit the receive queue alone is not requested.
    ///
    /// So read a change without an echo back in another way. A delete of an IPv6 route is echoed
    /// once for each next hop. An echo is not the answer: a change may be echoed and then fail half
    /// way.
    ///
    /// # Errors
    ///
    /// The same as [`send_batch`](Self::send_batch).
    pub fn send_batch_echoed(
        &mut self,
        batch: &mut Batch,
        mut each: impl FnMut(usize, Message<'_>),
    ) -> Result<Vec<Answer>, Error> {
        self.deliver(batch, Some(&mut each))
    }
}

/// Returns the end of the part of a batch that begins at `from` and whose answers fit together into
/// `room` bytes. A part has at least one message.
fn part_end(batch: &Batch, from: usize, room: usize) -> usize {
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

/// Returns true if the echo of a message should be requested, with `room` bytes for its answers:
/// false if it cannot arrive.
fn is_requested(message: &[u8], room: usize) -> bool {
    room != 0 && charge(message) <= room
}

/// Returns the bytes that all answers to a message may be charged if it is echoed.
fn charge(message: &[u8]) -> usize {
    let one = (2 * message.len() + ECHO_CHARGE).max(ANSWER_CHARGE);
    let deletes = Header::read(message).is_some_and(|header| header.kind == route::DELETE);
    if deletes && message.get(HEADER_LEN) == Some(&INET6) {
        // Each next hop has its own echo.
        return (message.len() / HOP_LEN) * ECHO_CHARGE + one;
    }
    one
}

/// Returns true if a message is about an object, and not the protocol's own.
fn is_notification(message: &Message<'_>) -> bool {
    message.header.kind >= NLMSG_MIN_TYPE
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::codec::EncodeError;
    use crate::netns::Namespace;
    use crate::wire::{Header, MessageWriter, NLM_F_DUMP, NLMSG_NOOP};

    fn encode(buffer: &mut Vec<u8>, payload: usize) -> Result<(), EncodeError> {
        let mut message = MessageWriter::begin(buffer, 24, NLM_F_ACK);
        message.attr(1, &vec![0; payload]);
        message.finish()
    }

    #[test]
    fn a_batch_is_full_by_count_or_by_bytes() {
        let mut batch = Batch::new();
        for _ in 0..BATCH_MESSAGES {
            assert_eq!(batch.push(|buffer| encode(buffer, 1)), Ok(true));
        }
        assert_eq!(batch.push(|_| -> Result<(), EncodeError> { unreachable!() }), Ok(false));
        assert_eq!(batch.len(), BATCH_MESSAGES);
        batch.clear();
        assert_eq!(batch.push(|buffer| encode(buffer, 65_000)), Ok(true));
        assert_eq!(batch.push(|buffer| encode(buffer, 600)), Ok(true));
        assert!(batch.is_full());
    }

    #[test]
    fn a_message_that_cannot_be_encoded_leaves_the_batch_as_it_was() {
        let mut batch = Batch::new();
        assert_eq!(batch.push(|buffer| encode(buffer, 8)), Ok(true));
        let before = batch.buffer.clone();
        assert_eq!(batch.push(|buffer| encode(buffer, 70_000)), Err(EncodeError::TooLarge));
        let result = batch.push(|buffer| {
            buffer.extend_from_slice(b"half a header");
            Err("refused")
        });
        assert_eq!(result, Err("refused"));
        assert_eq!((batch.len(), &batch.buffer), (1, &before));
    }

    #[test]
    fn only_the_last_message_asks_for_an_acknowledgement() {
        let mut batch = Batch::new();
        for payload in 1..4 {
            assert_eq!(batch.push(|buffer| encode(buffer, payload)), Ok(true));
        }
        batch.stamp(0, 3, u32::MAX, 0);
        let headers: Vec<_> =
            (0..3).map(|index| Header::read(batch.message(index)).unwrap()).collect();
        let flags: Vec<_> = headers.iter().map(|header| header.flags).collect();
        assert_eq!(flags, [NLM_F_REQUEST, NLM_F_REQUEST, NLM_F_REQUEST | NLM_F_ACK]);
        let sequences: Vec<_> = headers.iter().map(|header| header.sequence).collect();
        assert_eq!(sequences, [u32::MAX, 0, 1]);
    }

    /// Pushes a message that every kernel takes from any sender.
    fn push(batch: &mut Batch, kind: u16, flags: u16, body: &[u8]) {
        let pushed = batch.push(|buffer| {
            let mut message = MessageWriter::begin(buffer, kind, flags);
            message.body(body);
            message.finish()
        });
        assert_eq!(pushed, Ok(true));
    }

    const RTM_GETLINK: u16 = 18;

    #[test]
    fn an_answer_lost_in_the_middle_leaves_no_false_success() {
        let mut socket = Socket::open(&Namespace::current()).unwrap();
        let mut batch = Batch::new();
        // Refused with a message, which makes the answer longer than an acknowledgement of 36
        // bytes.
        push(&mut batch, RTM_GETLINK, 0, &[0xff; 16]);
        push(&mut batch, NLMSG_NOOP, 0, &[]);
        push(&mut batch, NLMSG_NOOP, 0, &[]);
        let again = Batch { buffer: batch.buffer.clone(), ends: batch.ends.clone() };
        socket.channel.shrink(40);
        let outcomes = socket.send_batch(&mut batch).unwrap();
        assert_eq!(outcomes, [None, None, Some(Ok(()))]);

        batch = again;
        let outcomes = socket.send_batch(&mut batch).unwrap();
        assert!(matches!(&outcomes[0], Some(Err(error)) if error.message().is_some()));
        assert_eq!(outcomes[1..], [Some(Ok(())), Some(Ok(()))]);
    }

    #[test]
    fn without_the_last_answer_silence_is_not_success() {
        let mut socket = Socket::open(&Namespace::current()).unwrap();
        socket.set_timeout(Duration::from_millis(20));
        let mut batch = Batch::new();
        push(&mut batch, NLMSG_NOOP, 0, &[]);
        // A dump ends in NLMSG_DONE, without an acknowledgement.
        push(&mut batch, RTM_GETLINK, NLM_F_DUMP, &[0; 16]);
        let outcomes = socket.send_batch(&mut batch).unwrap();
        assert_eq!(outcomes, [None, None]);
    }
}

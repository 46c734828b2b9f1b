//! [`Batch`]: many changes in one send, with exactly one outcome for each.
//!
//! The kernel carries a batch out message by message before `sendmsg` returns. It is not atomic:
//! an error in the middle does not stop what follows. Only the last message asks for an
//! acknowledgement, which saves a third of the time; errors of the others come all the same, with
//! their sequence number, and a failing last message sends its error in the acknowledgement's
//! place. At the default receive buffer 256 answers fit, and what comes after is carried out but
//! its answer lost: so no more than 250 are ever in flight.

mod echo;

use std::ops::Range;
use std::time::Instant;

use crate::channel::deadline;
use crate::error::Error;
use crate::extack;
use crate::kernel_error::KernelError;
use crate::socket::{Socket, WINDOW_MAX};
use crate::wire::{Message, Messages, NLM_F_ACK, NLM_F_ECHO, NLM_F_REQUEST, NLMSG_ERROR};

/// The greatest number of messages in a [`Batch`].
pub const BATCH_MESSAGES: usize = WINDOW_MAX;
/// A [`Batch`] takes no more messages once it is this long, in bytes.
pub const BATCH_BYTES: usize = 64 * 1024;

/// Messages to be sent together, in one buffer that is used again.
#[derive(Debug, Default)]
pub struct Batch {
    buffer: Vec<u8>,
    /// The end of each message in the buffer.
    ends: Vec<usize>,
}

impl Batch {
    /// Returns an empty batch.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether the batch takes no more: [`BATCH_MESSAGES`] messages, or [`BATCH_BYTES`]
    /// reached.
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.ends.len() >= BATCH_MESSAGES || self.buffer.len() >= BATCH_BYTES
    }

    /// Returns whether the batch has no message.
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
    /// [`MessageWriter`](crate::wire::MessageWriter). A batch that [is full](Self::is_full) does
    /// not call `encode`, and answers [`Push::Full`].
    ///
    /// # Errors
    ///
    /// The error of `encode`; the batch is then as before.
    pub fn push<E>(
        &mut self,
        encode: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<Push, E> {
        if self.is_full() {
            return Ok(Push::Full);
        }
        let start = self.buffer.len();
        if let Err(error) = encode(&mut self.buffer) {
            self.buffer.truncate(start);
            return Err(error);
        }
        let mut end = start;
        // One message, as documented. If there were more, each would have an outcome.
        for message in Messages::new(self.buffer.get(start..).unwrap_or(&[])) {
            end += crate::wire::align(message.header.length as usize);
            self.ends.push(end);
        }
        self.buffer.resize(end, 0);
        Ok(Push::Added)
    }

    fn start(&self, index: usize) -> usize {
        index.checked_sub(1).map_or(0, |before| self.ends[before])
    }

    fn message(&self, index: usize) -> &[u8] {
        &self.buffer[self.start(index)..self.ends[index]]
    }

    /// Numbers the messages `from..to` from `sequence` on; the last one asks for an
    /// acknowledgement, and each for an echo that fits into `room` bytes.
    fn stamp(&mut self, from: usize, to: usize, mut sequence: u32, room: usize) {
        for index in from..to {
            let start = self.start(index);
            let echo = if echo::is_requested(self.message(index), room) { NLM_F_ECHO } else { 0 };
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

/// The result of [`Batch::push`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a message that was not added must be offered again"]
pub enum Push {
    /// The message is in the batch.
    Added,
    /// The batch is full: send it, then push the message again.
    Full,
}

/// The outcome of one message of a batch: the kernel's answer. That of an op, which can take
/// several messages, is `trueup_apply::Outcome`. The list is exhaustive: an answer came or did not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The kernel carried it out.
    Done,
    /// The kernel refused it.
    Failed(KernelError),
    /// The answer was lost: it may or may not have been carried out. Observe again.
    Unknown,
}

/// The receiver of echoes: the position in the batch, and the kernel's message.
type EchoHandler<'a> = &'a mut dyn FnMut(usize, Message<'_>);

impl Socket {
    /// Sends all messages of a batch and empties it. Returns one outcome for each message, in their
    /// order.
    ///
    /// A batch that does not fit the socket's buffers is sent in parts. A message that alone is
    /// larger than the send buffer fails with `EMSGSIZE`.
    ///
    /// # Errors
    ///
    /// [`Io`](crate::ErrorKind::Io) when nothing at all could be sent; the batch is then left as
    /// it was. Once something was sent, whatever goes wrong is in the outcomes.
    pub fn send_batch(&mut self, batch: &mut Batch) -> Result<Vec<Outcome>, Error> {
        self.deliver(batch, None)
    }

    /// Sends a batch in as many parts as it takes, and requests echoes if there is a handler.
    fn deliver(
        &mut self,
        batch: &mut Batch,
        mut each: Option<EchoHandler<'_>>,
    ) -> Result<Vec<Outcome>, Error> {
        let mut outcomes = Vec::with_capacity(batch.len());
        let answers = self.window()?;
        let mut window = answers;
        while outcomes.len() < batch.len() {
            let from = outcomes.len();
            let (room, to) = match each {
                None => (0, batch.len()),
                Some(_) => {
                    let room = echo::budget(answers);
                    (room, echo::part_end(batch, from, room))
                }
            };
            let to = to.min(from + window);
            let first = self.sequence.wrapping_add(1);
            batch.stamp(from, to, first, room);
            // At most WINDOW_MAX.
            self.sequence = self.sequence.wrapping_add((to - from) as u32);
            match self.channel.send(&batch.buffer[batch.start(from)..batch.ends[to - 1]]) {
                Ok(()) => self.outcomes(batch, from..to, first, &mut each, &mut outcomes),
                // Nothing of it was sent.
                Err(error) if error.raw_os_error() == Some(libc::EMSGSIZE) => {
                    if to - from == 1 {
                        outcomes.push(Outcome::Failed(KernelError::from_errno(libc::EMSGSIZE)));
                    } else {
                        window = (to - from) / 2;
                    }
                }
                Err(error) if from == 0 => {
                    return Err(Error::io("cannot send to the kernel", error));
                }
                Err(_) => outcomes.resize(batch.len(), Outcome::Unknown),
            }
        }
        batch.clear();
        Ok(outcomes)
    }

    /// Collects the answers to the messages that were sent, numbered from `first` on.
    fn outcomes(
        &mut self,
        batch: &Batch,
        sent: Range<usize>,
        first: u32,
        each: &mut Option<EchoHandler<'_>>,
        outcomes: &mut Vec<Outcome>,
    ) {
        let mut answers: Vec<Option<Outcome>> = vec![None; sent.len()];
        // Once an answer was lost, a message without an answer may have failed.
        let mut lost = false;
        let mut until = deadline(self.timeout);
        while answers.last().is_some_and(Option::is_none) {
            let datagram = match self.channel.receive(until) {
                Ok(Some(datagram)) => datagram,
                Err(error) if error.is_loss() => {
                    // The kernel has queued all answers already: waiting brings no more.
                    lost = true;
                    until = Instant::now();
                    continue;
                }
                Ok(None) | Err(_) => break,
            };
            let mut messages = Messages::new(datagram);
            for message in messages.by_ref() {
                let index = message.header.sequence.wrapping_sub(first) as usize;
                let Some(answer) = answers.get_mut(index) else {
                    continue;
                };
                let index = sent.start + index;
                if message.header.kind != NLMSG_ERROR {
                    if let Some(each) = each.as_mut().filter(|_| echo::is_notification(&message)) {
                        each(index, message);
                    }
                    continue;
                }
                *answer = match extack::answer(&message, batch.message(index)) {
                    Some(Ok(())) => Some(Outcome::Done),
                    Some(Err(error)) => Some(Outcome::Failed(error)),
                    None => {
                        // A malformed answer counts as a loss.
                        lost = true;
                        Some(Outcome::Unknown)
                    }
                };
            }
            lost |= messages.malformed();
        }
        let answered = answers.last().is_some_and(Option::is_some);
        let silent = if answered && !lost { Outcome::Done } else { Outcome::Unknown };
        outcomes.extend(answers.into_iter().map(|answer| answer.unwrap_or_else(|| silent.clone())));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::netns::Namespace;
    use crate::wire::{Header, MessageWriter, NLM_F_DUMP, NLMSG_NOOP, TooLarge};

    fn encode(buffer: &mut Vec<u8>, payload: usize) -> Result<(), TooLarge> {
        let mut message = MessageWriter::begin(buffer, 24, NLM_F_ACK);
        message.attr(1, &vec![0; payload]);
        message.finish()
    }

    #[test]
    fn a_batch_is_full_by_count_or_by_bytes() {
        let mut batch = Batch::new();
        for _ in 0..BATCH_MESSAGES {
            assert_eq!(batch.push(|buffer| encode(buffer, 1)), Ok(Push::Added));
        }
        assert_eq!(batch.push(|_| -> Result<(), TooLarge> { unreachable!() }), Ok(Push::Full));
        assert_eq!(batch.len(), BATCH_MESSAGES);
        batch.clear();
        assert_eq!(batch.push(|buffer| encode(buffer, 65_000)), Ok(Push::Added));
        assert_eq!(batch.push(|buffer| encode(buffer, 600)), Ok(Push::Added));
        assert!(batch.is_full());
    }

    #[test]
    fn a_message_that_cannot_be_encoded_leaves_the_batch_as_it_was() {
        let mut batch = Batch::new();
        assert_eq!(batch.push(|buffer| encode(buffer, 8)), Ok(Push::Added));
        let before = batch.buffer.clone();
        assert_eq!(batch.push(|buffer| encode(buffer, 70_000)), Err(TooLarge));
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
            assert_eq!(batch.push(|buffer| encode(buffer, payload)), Ok(Push::Added));
        }
        batch.stamp(0, 3, u32::MAX, 0);
        let headers: Vec<_> =
            (0..3).map(|index| Header::read(batch.message(index)).unwrap()).collect();
        let flags: Vec<_> = headers.iter().map(|header| header.flags).collect();
        assert_eq!(flags, [NLM_F_REQUEST, NLM_F_REQUEST, NLM_F_REQUEST | NLM_F_ACK]);
        let sequences: Vec<_> = headers.iter().map(|header| header.sequence).collect();
        assert_eq!(sequences, [u32::MAX, 0, 1]);
    }

    /// Pushes a message that every kernel takes from anybody.
    fn push(batch: &mut Batch, kind: u16, flags: u16, body: &[u8]) {
        let pushed = batch.push(|buffer| {
            let mut message = MessageWriter::begin(buffer, kind, flags);
            message.body(body);
            message.finish()
        });
        assert_eq!(pushed, Ok(Push::Added));
    }

    const RTM_GETLINK: u16 = 18;

    #[test]
    fn an_answer_lost_in_the_middle_leaves_no_false_success() {
        let mut socket = Socket::open(&Namespace::current()).unwrap();
        let mut batch = Batch::new();
        // Refused with words, which make its answer longer than an acknowledgement of 36 bytes.
        push(&mut batch, RTM_GETLINK, 0, &[0xff; 16]);
        push(&mut batch, NLMSG_NOOP, 0, &[]);
        push(&mut batch, NLMSG_NOOP, 0, &[]);
        let again = Batch { buffer: batch.buffer.clone(), ends: batch.ends.clone() };
        socket.channel.shrink(40);
        let outcomes = socket.send_batch(&mut batch).unwrap();
        assert_eq!(outcomes, [Outcome::Unknown, Outcome::Unknown, Outcome::Done]);

        batch = again;
        let outcomes = socket.send_batch(&mut batch).unwrap();
        assert!(matches!(&outcomes[0], Outcome::Failed(error) if error.message().is_some()));
        assert_eq!(outcomes[1..], [Outcome::Done, Outcome::Done]);
    }

    #[test]
    fn without_the_last_answer_silence_is_not_success() {
        let mut socket = Socket::open(&Namespace::current()).unwrap();
        socket.set_timeout(Duration::from_millis(20));
        let mut batch = Batch::new();
        push(&mut batch, NLMSG_NOOP, 0, &[]);
        // A dump ends in NLMSG_DONE: it is not acknowledged.
        push(&mut batch, RTM_GETLINK, NLM_F_DUMP, &[0; 16]);
        let outcomes = socket.send_batch(&mut batch).unwrap();
        assert_eq!(outcomes, [Outcome::Unknown, Outcome::Unknown]);
    }
}

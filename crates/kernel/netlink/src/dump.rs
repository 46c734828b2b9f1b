//! Dumps: one request, many messages, and a check of their consistency.
//!
//! The kernel flags some interrupted dumps (links, addresses, nexthops), and those are repeated
//! here. It **never** flags others: while any writer is active, dumps of IPv6 routes, of rules, and
//! of IPv4 routes of one prefix lose rows and repeat others. Guarding against that takes knowledge
//! of objects, and is left to the caller: it can watch events meanwhile, or look for repeated keys.

use std::ops::ControlFlow;
use std::time::Instant;

use crate::channel::deadline;
use crate::error::Error;
use crate::socket::{Reply, Socket, acknowledged};
use crate::wire::{
    Message, NLM_F_DUMP, NLM_F_DUMP_FILTERED, NLM_F_DUMP_INTR, NLMSG_DONE, NLMSG_ERROR, NLMSG_NOOP,
};

/// The number of attempts before a dump is returned as incomplete.
pub const DUMP_ATTEMPTS: u32 = 5;

/// A step of a dump, passed to the caller.
#[derive(Clone, Copy, Debug)]
pub enum DumpStep<'a> {
    /// An attempt begins, before the request is sent: forget all messages seen so far.
    Begin,
    /// One message of the current attempt.
    Message(Message<'a>),
    /// A datagram of this many bytes ended. The kernel makes each datagram in one moment. Its
    /// objects may change before the next, which it makes when this one is received. The last
    /// datagram of a dump has no such step.
    Part(usize),
}

/// The result of a dump: if it is whole, and the number of attempts that it took.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "an incomplete dump must not be taken for the whole"]
#[non_exhaustive]
pub struct Dump {
    /// True if the last attempt ran to its end without a sign of inconsistency. The objects in an
    /// incomplete dump exist, but others may be missing from it.
    pub complete: bool,
    /// True if the kernel reports that it filtered (`NLM_F_DUMP_FILTERED`), which it does only for
    /// a socket with [`Socket::strict`]. If it is false although a filter was requested, all rows
    /// came. If true, it proves little: IPv4 route dumps have it unasked (cached exceptions are
    /// left out). So filter again.
    pub filtered: bool,
    /// Attempts made, from 1 to [`DUMP_ATTEMPTS`].
    pub attempts: u32,
}

impl Dump {
    /// Turns an incomplete dump into an error.
    ///
    /// # Errors
    ///
    /// [`Interrupted`](crate::ErrorKind::Interrupted).
    pub fn whole(self) -> Result<Self, Error> {
        if self.complete { Ok(self) } else { Err(Error::interrupted(self.attempts)) }
    }
}

impl Socket {
    /// Sends a GET request as a dump (`NLM_F_DUMP` is set here) and passes every message to `each`.
    /// Each new attempt begins with a call of its own.
    ///
    /// ```no_run
    /// use trueup_netlink::wire::MessageWriter;
    /// use trueup_netlink::{DumpStep, Namespace, Socket};
    ///
    /// const RTM_GETLINK: u16 = 18;
    /// let mut request = Vec::new();
    /// let mut message = MessageWriter::begin(&mut request, RTM_GETLINK, 0);
    /// message.body(&[0; 16]);
    /// message.finish()?;
    ///
    /// let mut links = 0;
    /// let dump = Socket::open(&Namespace::current())?.dump(&request, |step| match step {
    ///     DumpStep::Begin => links = 0,
    ///     DumpStep::Message(_) => links += 1,
    ///     DumpStep::Part(_) => {}
    /// })?;
    /// println!("{links} links, complete: {}", dump.complete);
    /// # Ok::<(), trueup_netlink::Error>(())
    /// ```
    ///
    /// # Errors
    /// [`Kernel`](crate::ErrorKind::Kernel) if the kernel refuses or breaks off: `ENOENT` for a
    /// table that does not exist, which means it is empty; `EINVAL` if strict checking cannot
    /// filter by the request. [`Timeout`](crate::ErrorKind::Timeout),
    /// [`Malformed`](crate::ErrorKind::Malformed), [`TooLarge`](crate::ErrorKind::TooLarge) and
    /// [`Io`](crate::ErrorKind::Io) as for [`request`](Self::request). After an error the messages
    /// seen are incomplete.
    pub fn dump(
        &mut self,
        request: &[u8],
        mut each: impl FnMut(DumpStep<'_>),
    ) -> Result<Dump, Error> {
        let dump = self.dump_while(request, |step| {
            each(step);
            ControlFlow::Continue(())
        });
        dump?.ok_or_else(|| Error::malformed("a dump has no end"))
    }

    /// Makes a dump like [`dump`](Self::dump), until `each` breaks it off: then the result is
    /// `None`. The kernel continues that dump as long as the socket is read, and refuses another.
    /// Continue with another socket.
    ///
    /// # Errors
    ///
    /// The same as [`dump`](Self::dump).
    pub fn dump_while(
        &mut self,
        request: &[u8],
        mut each: impl FnMut(DumpStep<'_>) -> ControlFlow<()>,
    ) -> Result<Option<Dump>, Error> {
        self.prime_dump_buffer(request)?;
        let mut attempts = 0;
        loop {
            attempts += 1;
            let last = attempts == DUMP_ATTEMPTS;
            match self.attempt(request, last, &mut each) {
                Ok(None) => return Ok(None),
                Ok(Some((complete, filtered))) if complete || last => {
                    return Ok(Some(Dump { complete, filtered, attempts }));
                }
                Ok(Some(_)) => {}
                // A dump that was broken off, for instance by a timeout, is still running.
                Err(error) if error.errno() == Some(libc::EBUSY) && !last => self.drain()?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes one attempt. Returns consistent and filtered, or `None` if it was broken off.
    fn attempt(
        &mut self,
        request: &[u8],
        last: bool,
        each: &mut impl FnMut(DumpStep<'_>) -> ControlFlow<()>,
    ) -> Result<Option<(bool, bool)>, Error> {
        const BROKEN_OFF: ControlFlow<bool> = ControlFlow::Break(false);
        if each(DumpStep::Begin).is_break() {
            return Ok(None);
        }
        let sequence = self.send(request, NLM_F_DUMP)?;
        let mut consistent = true;
        let mut filtered = false;
        let ended = self.replies(sequence, |reply, request| {
            let message = match reply {
                Reply::Message(message) => message,
                Reply::Lost(_) => {
                    // Part of it is lost. The rest must still be read, or the kernel stays busy.
                    consistent = false;
                    return Ok(ControlFlow::Continue(()));
                }
                Reply::End(length) => {
                    return Ok(match each(DumpStep::Part(length)) {
                        ControlFlow::Continue(()) => ControlFlow::Continue(()),
                        ControlFlow::Break(()) => BROKEN_OFF,
                    });
                }
            };
            consistent &= message.header.flags & NLM_F_DUMP_INTR == 0;
            filtered |= message.header.flags & NLM_F_DUMP_FILTERED != 0;
            match message.header.kind {
                NLMSG_DONE | NLMSG_ERROR => {
                    return acknowledged(&message, request).map(|()| ControlFlow::Break(true));
                }
                NLMSG_NOOP => {}
                // The attempt will be repeated, so its messages are not needed.
                _ if !consistent && !last => {}
                _ if each(DumpStep::Message(message)).is_break() => return Ok(BROKEN_OFF),
                _ => {}
            }
            Ok(ControlFlow::Continue(()))
        })?;
        Ok(ended.then_some((consistent, filtered)))
    }

    /// Reads the remaining messages of an earlier exchange.
    fn drain(&mut self) -> Result<(), Error> {
        let until = deadline(self.timeout);
        let now = Instant::now();
        while Instant::now() < until {
            match self.channel.receive(now) {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(()),
                Err(error) if error.is_loss() => {}
                Err(error) => return Err(error),
            }
        }
        Err(Error::timeout(self.timeout))
    }
}

//! [`Socket`]: requests and their answers. Dumps and batches have their own files.
//!
//! The socket joins no multicast group, so only answers arrive on it. For events there is
//! [`Multicast`](crate::Multicast).

use std::fmt;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use crate::channel::{Channel, deadline};
use crate::codec;
use crate::error::{Error, ErrorKind};
use crate::extack;
use crate::netns::Namespace;
use crate::wire::{
    HEADER_LEN, Header, Message, MessageWriter, Messages, NLM_F_ACK, NLM_F_REQUEST, NLMSG_ERROR,
    NLMSG_NOOP,
};

/// The default of [`Socket::timeout`], 10 s.
pub const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);

/// The receive queue's charge for one answer, in bytes. A bare acknowledgement costs 832, so 256
/// fit Linux's default of 212,992. An error with a long message takes a data block of twice the
/// size.
pub(crate) const ANSWER_CHARGE: usize = 1664;
/// The size for 256 such answers: an unprivileged socket's limit with the default
/// `net.core.rmem_max`.
const RECEIVE_BUFFER_WANTED: usize = 256 * ANSWER_CHARGE;
/// The greatest number of messages in flight, less than those 256 for safety.
pub(crate) const WINDOW_MAX: usize = 250;

/// `sizeof(struct ifinfomsg)`, the fixed part of a link message.
const IFINFOMSG_LEN: usize = 16;

/// A blocking rtnetlink socket in one namespace.
///
/// It is close-on-exec and bound, with extended and capped acknowledgements, and strict checking if
/// the kernel has it. It takes part in one exchange at a time. Answers left over from an earlier
/// one, for instance after a timeout, are recognised by their sequence number and skipped.
///
/// ```no_run
/// use trueup_netlink::codec::link;
/// use trueup_netlink::{Namespace, Socket};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut socket = Socket::open(&Namespace::named("blue")?)?;
/// let mut message = Vec::new();
/// link::delete(&mut message, 7)?;
/// match socket.request(&message) {
///     Ok(()) => println!("deleted"),
///     Err(error) => println!("{error}: errno {:?}", error.errno()),
/// }
/// # Ok(())
/// # }
/// ```
pub struct Socket {
    pub(crate) channel: Channel,
    pub(crate) sequence: u32,
    /// The current request, stamped. Errors resolve their offsets in it.
    pub(crate) request: Vec<u8>,
    pub(crate) timeout: Duration,
    /// The number of messages that may be in flight, once the receive queue has been sized.
    window: Option<usize>,
    /// True if the kernel makes parts of dumps as large as
    /// [`prime_dump_buffer`](Socket::prime_dump_buffer) describes.
    is_primed: bool,
    strict: bool,
}

impl Socket {
    /// Opens a socket in a namespace, where it stays.
    ///
    /// # Errors
    ///
    /// [`Namespace`](ErrorKind::Namespace) as from [`Namespace::enter`]; [`Io`](ErrorKind::Io) if
    /// the socket cannot be made or set up (Linux 4.12 is needed).
    pub fn open(namespace: &Namespace) -> Result<Self, Error> {
        Self::over(Channel::open(namespace)?)
    }

    /// Opens a socket like [`open`](Self::open), with dumps in parts of at most this many bytes
    /// instead of 32 KiB, so that parts end at other rows. A row that does not fit into a part ends
    /// a dump without an error. So such a dump does not prove an object's absence.
    ///
    /// # Errors
    ///
    /// The same as [`open`](Self::open).
    pub fn open_with_parts(namespace: &Namespace, bytes: usize) -> Result<Self, Error> {
        Self::over(Channel::open_with(namespace, bytes)?)
    }

    fn over(mut channel: Channel) -> Result<Self, Error> {
        // Without strict checking, dumps are filtered only in user space.
        let strict = channel
            .transport()
            .prepare_requests()
            .map_err(|source| Error::io("cannot turn extended acknowledgements on", source))?;
        Ok(Self {
            channel,
            sequence: 0,
            request: Vec::new(),
            timeout: DEFAULT_TIMEOUT,
            window: None,
            is_primed: false,
            strict,
        })
    }

    /// Returns true if the kernel checks requests strictly (`NETLINK_GET_STRICT_CHK`, Linux 4.20).
    /// Only then does it filter dumps.
    #[must_use]
    pub fn strict(&self) -> bool {
        self.strict
    }

    /// Returns the port id that the kernel gave the socket. Events about the socket's writes
    /// contain it.
    #[must_use]
    pub fn port_id(&self) -> u32 {
        self.channel.port()
    }

    /// Returns the cookie of the socket's namespace (`SO_NETNS_COOKIE`), unique for the boot. Inode
    /// numbers, names and process ids are reused.
    ///
    /// # Errors
    ///
    /// [`Io`](ErrorKind::Io): `ENOPROTOOPT` before Linux 5.14.
    pub fn netns_cookie(&self) -> Result<u64, Error> {
        self.channel.netns_cookie()
    }

    /// Returns the longest time that the kernel may be silent on a request. A long dump is not
    /// silence.
    #[must_use]
    pub fn timeout(&self) -> Duration {
        self.timeout
    }

    /// Sets the [`timeout`](Self::timeout): the longest silence of the kernel, not a limit on a
    /// whole dump.
    pub fn set_timeout(&mut self, timeout: Duration) {
        self.timeout = timeout;
    }

    /// Returns the receive queue's size in bytes, as the kernel accounts for it (`SO_RCVBUF`: twice
    /// the requested size; an acknowledgement is charged 832).
    ///
    /// # Errors
    ///
    /// [`Io`](ErrorKind::Io) if it cannot be read.
    pub fn receive_buffer(&self) -> Result<usize, Error> {
        self.channel.receive_buffer()
    }

    /// Requests a receive queue of `bytes`, and returns the size that it got. Without CAP_NET_ADMIN
    /// in the first user namespace, the kernel limits it to `net.core.rmem_max` without an error.
    ///
    /// # Errors
    ///
    /// [`Io`](ErrorKind::Io) if it can be neither set nor read.
    pub fn set_receive_buffer(&mut self, bytes: usize) -> Result<usize, Error> {
        let obtained = self.channel.set_receive_buffer(bytes)?;
        self.window = Some(window(obtained));
        Ok(obtained)
    }

    /// Returns the number of messages that may be in flight. Enlarges the receive queue for the
    /// first batch: a socket that only reads needs no more than the default.
    pub(crate) fn window(&mut self) -> Result<usize, Error> {
        if let Some(window) = self.window {
            return Ok(window);
        }
        let mut obtained = self.receive_buffer()?;
        if obtained < RECEIVE_BUFFER_WANTED {
            obtained = self.set_receive_buffer(RECEIVE_BUFFER_WANTED)?;
        }
        Ok(*self.window.insert(window(obtained)))
    }

    /// Primes the kernel's `max_recvmsg_len` (net/netlink/af_netlink.c), so that large dump rows
    /// fit. The kernel makes the parts of a dump as large as the largest buffer with which the
    /// socket has received, up to 32 KiB. On a fresh socket the first part has less than 4 KiB; if
    /// the first row does not fit, the dump is empty and not flagged. Any answer primes. A dump of
    /// links needs none before it, since the kernel makes room for the largest (`rtnl_calcit` in
    /// net/core/rtnetlink.c).
    pub(crate) fn prime_dump_buffer(&mut self, dump: &[u8]) -> Result<(), Error> {
        let is_of_links = Header::read(dump).is_some_and(|it| it.kind == codec::link::GET);
        if self.is_primed || is_of_links {
            return Ok(());
        }
        let mut nothing = Vec::new();
        MessageWriter::begin(&mut nothing, NLMSG_NOOP, 0).finish()?;
        self.request(&nothing)
    }

    /// Passes the replies to `sequence` to `each`, like [`replies`].
    pub(crate) fn replies<T>(
        &mut self,
        sequence: u32,
        mut each: impl FnMut(Reply<'_>, &[u8]) -> Result<ControlFlow<T>, Error>,
    ) -> Result<T, Error> {
        let request = &self.request;
        let answer =
            replies(&mut self.channel, self.timeout, sequence, |reply| each(reply, request));
        // A timeout says nothing about earlier messages.
        self.is_primed |= answer.is_ok();
        answer
    }

    /// Sends one message (made by a [`MessageWriter`](crate::wire::MessageWriter)) and waits for
    /// its acknowledgement. `NLM_F_REQUEST`, `NLM_F_ACK`, sequence number and port id are set here.
    ///
    /// # Errors
    ///
    /// [`Kernel`](ErrorKind::Kernel) if the kernel refuses it. After
    /// [`Timeout`](ErrorKind::Timeout), [`Overrun`](ErrorKind::Overrun) and
    /// [`Truncated`](ErrorKind::Truncated) it may have been carried out. After
    /// [`TooLarge`](ErrorKind::TooLarge), [`Malformed`](ErrorKind::Malformed) (`message` is not
    /// exactly one message) and [`Io`](ErrorKind::Io) on sending it was not.
    pub fn request(&mut self, message: &[u8]) -> Result<(), Error> {
        self.exchange(message, |_| {})
    }

    /// Checks if the kernel would accept changes from the caller in the socket's namespace, without
    /// changing anything.
    ///
    /// Changes need `CAP_NET_ADMIN` in the user namespace that owns the network namespace, which
    /// only the kernel knows. So this requests the deletion of a link without naming one: the
    /// kernel checks the privilege first (`rtnetlink_rcv_msg` in net/core/rtnetlink.c), and then
    /// misses the name (`rtnl_dellink`, `EINVAL`). Both the process that opened the socket and the
    /// calling process need the privilege (`netlink_net_capable` in net/netlink/af_netlink.c).
    ///
    /// # Errors
    ///
    /// [`Kernel`](ErrorKind::Kernel) with [`Error::is_permission`] if the privilege is missing.
    /// Else the same as [`request`](Self::request) if the kernel could not be asked.
    pub fn check_privilege(&mut self) -> Result<(), Error> {
        let mut nameless = Vec::new();
        let mut message = MessageWriter::begin(&mut nameless, codec::link::DELETE, 0);
        message.body(&[0; IFINFOMSG_LEN]);
        message.finish()?;
        match self.request(&nameless) {
            Err(error) if error.is_permission() || error.kernel().is_none() => Err(error),
            _ => Ok(()),
        }
    }

    /// Sends one GET request without `NLM_F_DUMP` and passes the reply to `read`. If the reply did
    /// not fit, asks again with more space; `read` gets only one reply.
    ///
    /// # Errors
    ///
    /// The same as [`request`](Self::request); also [`Malformed`](ErrorKind::Malformed) if the
    /// kernel acknowledges without a reply.
    pub fn query<T>(
        &mut self,
        message: &[u8],
        read: impl FnOnce(Message<'_>) -> T,
    ) -> Result<T, Error> {
        let mut read = Some(read);
        let mut reply = None;
        for last in [false, true] {
            let asked = self.exchange(message, |message| {
                if let Some(read) = read.take() {
                    reply = Some(read(message));
                }
            });
            match asked {
                Err(error) if error.kind() == ErrorKind::Truncated && !last => {}
                Err(error) => return Err(error),
                Ok(()) => break,
            }
        }
        reply.ok_or_else(|| Error::malformed("the kernel acknowledged a query without a reply"))
    }

    /// Sends a request and waits for its acknowledgement, passing replies before it to `each`.
    fn exchange(&mut self, message: &[u8], mut each: impl FnMut(Message<'_>)) -> Result<(), Error> {
        let sequence = self.send(message, NLM_F_ACK)?;
        self.replies(sequence, |reply, request| {
            let message = match reply {
                Reply::Message(message) => message,
                Reply::Lost(error) => return Err(error),
                Reply::End(_) => return Ok(ControlFlow::Continue(())),
            };
            match message.header.kind {
                NLMSG_ERROR => acknowledged(&message, request).map(ControlFlow::Break),
                NLMSG_NOOP => Ok(ControlFlow::Continue(())),
                _ => {
                    each(message);
                    Ok(ControlFlow::Continue(()))
                }
            }
        })
    }

    /// Stamps one message with `flags` and a fresh sequence number, sends it, and returns the
    /// number.
    pub(crate) fn send(&mut self, message: &[u8], flags: u16) -> Result<u32, Error> {
        let header = Header::read(message)
            .filter(|header| usize::try_from(header.length) == Ok(message.len()))
            .filter(|_| message.len() >= HEADER_LEN)
            .ok_or_else(|| Error::malformed("a request must be exactly one message"))?;
        self.sequence = self.sequence.wrapping_add(1);
        let header = Header {
            flags: header.flags | NLM_F_REQUEST | flags,
            sequence: self.sequence,
            port: 0,
            ..header
        };
        self.request.clear();
        self.request.extend_from_slice(&header.to_bytes());
        self.request.extend_from_slice(&message[HEADER_LEN..]);
        self.channel.send(&self.request).map_err(|source| match source.raw_os_error() {
            Some(libc::EMSGSIZE) => Error::too_large("it does not fit the socket's send buffer"),
            _ => Error::io("cannot send to the kernel", source),
        })?;
        Ok(self.sequence)
    }
}

impl Namespace {
    /// Returns the namespace's cookie, unique until the next boot: see [`Socket::netns_cookie`].
    ///
    /// # Errors
    ///
    /// The same as [`Socket::open`](crate::Socket::open) and [`Socket::netns_cookie`].
    ///
    /// [`Socket::netns_cookie`]: crate::Socket::netns_cookie
    pub fn cookie(&self) -> Result<u64, Error> {
        let transport = self.connect()?;
        transport.netns_cookie().map_err(|source| Error::io("cannot read SO_NETNS_COOKIE", source))
    }
}

/// Returns the number of messages that may be in flight with a receive queue of this many bytes.
/// The kernel carries all out before `sendmsg` returns, so all their answers must fit.
fn window(receive_buffer: usize) -> usize {
    (receive_buffer / ANSWER_CHARGE).saturating_sub(6).clamp(1, WINDOW_MAX)
}

/// A part of the answer to a request.
pub(crate) enum Reply<'a> {
    Message(Message<'a>),
    /// Messages were lost ([`Error::is_loss`]).
    Lost(Error),
    /// The end of a datagram of this many bytes with messages.
    End(usize),
}

/// Passes the replies to `sequence` to `each` until it breaks. Silence longer than `timeout` ends
/// it.
pub(crate) fn replies<T>(
    channel: &mut Channel,
    timeout: Duration,
    sequence: u32,
    mut each: impl FnMut(Reply<'_>) -> Result<ControlFlow<T>, Error>,
) -> Result<T, Error> {
    let mut until = deadline(timeout);
    loop {
        let datagram = match channel.receive(until) {
            Ok(Some(datagram)) => datagram,
            Ok(None) => return Err(Error::timeout(timeout)),
            Err(error) if error.is_loss() => {
                if let ControlFlow::Break(value) = each(Reply::Lost(error))? {
                    return Ok(value);
                }
                continue;
            }
            Err(error) => return Err(error),
        };
        let length = datagram.len();
        let mut messages = Messages::new(datagram);
        let mut any = false;
        for message in messages.by_ref().filter(|message| message.header.sequence == sequence) {
            any = true;
            if let ControlFlow::Break(value) = each(Reply::Message(message))? {
                return Ok(value);
            }
        }
        if messages.malformed() {
            return Err(Error::malformed("a reply of the kernel ends in the middle of a header"));
        }
        if any {
            if let ControlFlow::Break(value) = each(Reply::End(length))? {
                return Ok(value);
            }
            // Once for all messages of a datagram, since reading the clock costs more than walking
            // one.
            until = deadline(timeout);
        }
    }
}

/// Reads an acknowledgement, an error or a dump's end, with the request that it answers.
pub(crate) fn acknowledged(message: &Message<'_>, request: &[u8]) -> Result<(), Error> {
    extack::answer(message, request)
        .ok_or_else(|| Error::malformed("an acknowledgement without an errno"))?
        .map_err(Error::from)
}

impl AsFd for Socket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.channel.as_fd()
    }
}

impl fmt::Debug for Socket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Socket")
            .field("port_id", &self.port_id())
            .field("strict", &self.strict)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTM_GETLINK: u16 = 18;

    /// Requests the loopback link, which every namespace has. The kernel refuses `index` 0.
    fn loopback(index: i32) -> Vec<u8> {
        let mut buffer = Vec::new();
        let mut message = MessageWriter::begin(&mut buffer, RTM_GETLINK, 0);
        let mut info = [0; 16];
        info[4..8].copy_from_slice(&index.to_ne_bytes());
        message.body(&info);
        message.finish().unwrap();
        buffer
    }

    #[test]
    fn windows_fit_the_queue() {
        assert_eq!(window(RECEIVE_BUFFER_WANTED), WINDOW_MAX);
        assert_eq!(window(212_992), 122);
        assert_eq!(window(usize::MAX), 250);
        assert_eq!(window(100 * ANSWER_CHARGE), 94);
        assert_eq!(window(0), 1);
    }

    #[test]
    fn a_truncated_reply_is_told_and_asked_for_again() {
        let mut socket = Socket::open(&Namespace::current()).unwrap();
        socket.channel.shrink(128);
        let error = socket.request(&loopback(1)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Truncated);
        assert!(error.is_loss() && error.is_retryable());

        socket.channel.shrink(128);
        let length = socket.query(&loopback(1), |message| message.body.len()).unwrap();
        assert!(length > 128, "{length}");
    }

    #[test]
    fn silence_ends_in_a_timeout() {
        let mut socket = Socket::open(&Namespace::current()).unwrap();
        let bound = Duration::from_millis(20);
        let begin = std::time::Instant::now();
        let error =
            replies(&mut socket.channel, bound, 77, |_| Ok(ControlFlow::<()>::Continue(())))
                .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Timeout);
        assert!(begin.elapsed() >= bound);
    }

    #[test]
    fn answers_to_an_earlier_request_are_passed_over() {
        let mut socket = Socket::open(&Namespace::current()).unwrap();
        socket.send(&loopback(i32::MAX), NLM_F_ACK).unwrap();
        socket.request(&loopback(1)).unwrap();
    }

    #[test]
    fn a_forged_acknowledgement_is_not_heeded() {
        let mut socket = Socket::open(&Namespace::current()).unwrap();
        let forger = netlink_sys::Socket::new(netlink_sys::protocols::NETLINK_ROUTE).unwrap();
        let mut forged = Header {
            length: 36,
            kind: NLMSG_ERROR,
            flags: 0,
            sequence: socket.sequence.wrapping_add(1),
            port: 0,
        }
        .to_bytes()
        .to_vec();
        forged.resize(36, 0);
        let victim = netlink_sys::SocketAddr::new(socket.port_id(), 0);
        match forger.send_to(&forged, &victim, 0) {
            Ok(_) => {}
            // Without CAP_NET_ADMIN a process cannot write to another's socket.
            Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::PermissionDenied),
        }
        let error = socket.request(&loopback(i32::MAX)).unwrap_err();
        assert_eq!(error.errno(), Some(libc::ENODEV));
    }

    #[test]
    fn what_is_not_one_message_is_not_sent() {
        let mut socket = Socket::open(&Namespace::current()).unwrap();
        let before = socket.sequence;
        let two = [loopback(1), loopback(1)].concat();
        for bytes in [&[][..], &[0; 15], &[0; 16], &two, &two[..20]] {
            assert_eq!(socket.request(bytes).unwrap_err().kind(), ErrorKind::Malformed);
        }
        assert_eq!(socket.sequence, before);
    }
}

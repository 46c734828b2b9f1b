//! [`ChangeListener`]: the socket that receives other writers' changes while a dump is read, and
//! [`ChangeLog`]: those during the caller's writes. A dump can show neither an object's earlier
//! states nor the writer of its present one.

use std::fmt;
use std::time::Duration;

use trueup_net::{Family, Object, each_kind};
use trueup_netlink::codec::{self, KindCodec as _, link, nexthop, route};
use trueup_netlink::filter::Instruction;
use trueup_netlink::wire::{Message, read_u32};
use trueup_netlink::{Error, ErrorKind, Multicast, Namespace, Socket};

/// The limit of reads of one [`ChangeListener::drain`], each of up to 1,024 events.
const READS: usize = 64;

/// Listens to all kinds, unfiltered.
pub(crate) struct ChangeListener {
    namespace: Namespace,
    /// The socket, once it is open.
    events: Option<Multicast>,
    /// True if an announced change may not have been made yet. The kernel announces the delete of
    /// an IPv4 route before it deletes it (`fib_table_delete` in net/ipv4/fib_trie.c), and a link's
    /// going down before it removes the link's routes. Both happen under one lock (RTNL), so only
    /// the last announcement is uncertain: a [`barrier`] waits for it.
    pub(crate) has_pending: bool,
    /// The record of changes, while recording.
    log: Option<ChangeLog>,
    /// True while a filter drops all events.
    is_resting: bool,
}

impl ChangeListener {
    /// Returns a listener without a socket.
    pub(crate) fn new(namespace: Namespace) -> ChangeListener {
        ChangeListener { namespace, events: None, has_pending: true, log: None, is_resting: false }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.events.is_some()
    }

    /// Starts to listen, unless it already does.
    pub(crate) fn open(&mut self) -> Result<&mut Multicast, Error> {
        let events = match self.events.take() {
            Some(events) => events,
            None => listen(&self.namespace)?,
        };
        Ok(self.events.insert(events))
    }

    /// Makes the kernel drop all events until the next call of another method.
    pub(crate) fn rest(&mut self) {
        self.log = None;
        // If the kernel refuses the filter, the queue fills, which is a loss like any other.
        let events = self.events.as_mut();
        let rests = events.map(|events| events.set_filter(&[Instruction::drop()]).is_ok());
        self.is_resting = rests.unwrap_or(false);
    }

    fn wake(&mut self) -> Result<(), Error> {
        if self.is_resting {
            self.open()?.set_filter(&[])?;
            self.is_resting = false;
            self.has_pending = true;
        }
        Ok(())
    }

    /// Records the changes that are announced from now on.
    pub(crate) fn record_changes(&mut self, limit: usize) {
        self.log = None;
        let drained = self.drain(|_| {});
        self.log = Some(ChangeLog::new(limit));
        self.invalidate_log_on_loss(drained);
    }

    /// Marks the changes announced from now on as after the caller's writes.
    pub(crate) fn mark_writes_done(&mut self) {
        if self.log.is_some() {
            let drained = self.drain(|_| {});
            self.invalidate_log_on_loss(drained);
        }
        if let Some(log) = &mut self.log {
            log.mark_writes_done();
        }
    }

    /// Returns the recorded changes, or `None` if some were lost.
    pub(crate) fn take_changes(&mut self) -> Option<Vec<ObservedChange>> {
        self.log.as_ref()?;
        let drained = self.drain(|_| {});
        self.invalidate_log_on_loss(drained);
        self.log.take()?.into_changes()
    }

    fn invalidate_log_on_loss(&mut self, drained: Result<bool, Error>) {
        if let (Some(log), Ok(false) | Err(_)) = (&mut self.log, drained) {
            log.invalidate();
        }
    }

    /// Passes on all events since the last call, and returns true if none was lost.
    pub(crate) fn drain(&mut self, mut each: impl FnMut(Event)) -> Result<bool, Error> {
        const FULL: usize = 1024;
        self.wake()?;
        self.open()?;
        let Some(events) = &mut self.events else {
            return Ok(false);
        };
        let mut is_whole = true;
        let mut has_pending = self.has_pending;
        let mut each = |event| {
            has_pending = true;
            each(event);
        };
        let mut drained = Ok(false);
        let log = &mut self.log;
        for _ in 0..READS {
            let read = events.receive(Duration::ZERO, |message| {
                if let Some(log) = log {
                    log.add(&message);
                }
                each(Event::read(&message));
            });
            drained = match read {
                // There may be more. Until the queue is empty, the kernel loses events without
                // another error.
                Ok(FULL..) => Ok(false),
                Ok(0) => Ok(true),
                Ok(_) => Ok(is_whole),
                Err(error) if error.is_loss() || error.kind() == ErrorKind::Malformed => {
                    if let Some(log) = log {
                        log.invalidate();
                    }
                    is_whole = false;
                    Ok(false)
                }
                Err(error) => Err(error),
            };
            if !matches!(drained, Ok(false)) {
                break;
            }
        }
        self.has_pending = has_pending || !is_whole;
        drained.map(|is_empty| is_empty && is_whole)
    }
}

impl fmt::Debug for ChangeListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeListener").finish_non_exhaustive()
    }
}

/// Opens a socket for the events of all kinds.
pub(crate) fn listen(namespace: &Namespace) -> Result<Multicast, Error> {
    let mut events = Multicast::open(namespace, &[])?;
    each_kind!(K => for group in K::GROUPS {
        match events.join(*group) {
            Err(error) if K::IS_OPTIONAL && error.errno() == Some(libc::EINVAL) => {}
            joined => joined?,
        }
    });
    Ok(events)
}

/// Waits until every change begun by another writer is announced. It sends a request that takes the
/// lock under which nearly all changes are made (`rtnl_getlink` in net/core/rtnetlink.c).
pub(crate) fn barrier(socket: &mut Socket) {
    let mut request = Vec::new();
    let asked = "lo".parse().map(|lo| link::request_by_name(&mut request, &lo));
    // With any answer, the kernel took the lock.
    if let Ok(Ok(())) = asked {
        let _answer = socket.query(&request, |_| ());
    }
}

const AF_UNSPEC: u8 = 0;
const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;

const RTA_DST: u16 = 1;
const RTA_TABLE: u16 = 15;
const IFLA_MTU: u16 = 4;
const IFF_UP: u32 = 1;

/// A change, as far as it concerns dumps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// An IPv4 route in a table.
    Route4 { table: u32, dst: u32 },
    /// An IPv6 route in a table.
    Route6 { table: u32 },
    /// Another object of a family.
    Object { message_type: u16, family: Family },
    /// A link that went down or away, or a deleted nexthop object: the kernel may silently remove
    /// routes with it.
    RemovesRoutes,
    /// Nothing that moves a cursor.
    Other,
    /// An event that cannot be read.
    Unknown,
}

impl Event {
    fn read(message: &Message<'_>) -> Event {
        Event::parse(message).unwrap_or(Event::Unknown)
    }

    fn parse(message: &Message<'_>) -> Option<Event> {
        let message_type = message.header.kind;
        match message_type {
            route::NEW | route::DELETE => read_route(message),
            link::NEW => read_link(message),
            link::DELETE | nexthop::DELETE => Some(Event::RemovesRoutes),
            nexthop::NEW => Some(Event::Other),
            _ => Some(match *message.body.first()? {
                AF_INET => Event::Object { message_type, family: Family::Inet },
                AF_INET6 => Event::Object { message_type, family: Family::Inet6 },
                _ => Event::Other,
            }),
        }
    }
}

fn read_route(message: &Message<'_>) -> Option<Event> {
    let (head, attrs) = message.split(12)?;
    let (mut table, mut dst) = (u32::from(*head.get(4)?), 0);
    let family = *head.first()?;
    for (number, payload) in attrs {
        match number {
            RTA_TABLE => table = read_u32(payload)?,
            RTA_DST if family == AF_INET => {
                dst = u32::from_be_bytes(payload.try_into().ok()?);
            }
            _ => {}
        }
    }
    Some(match family {
        AF_INET => Event::Route4 { table, dst },
        AF_INET6 => Event::Route6 { table },
        _ => Event::Other,
    })
}

fn read_link(message: &Message<'_>) -> Option<Event> {
    let (head, attrs) = message.split(16)?;
    let flags = read_u32(head.get(8..12)?)?;
    let mtu = attrs.find(IFLA_MTU).and_then(read_u32);
    // With a smaller MTU a device loses its IPv6 routes as if it went down.
    let usable = flags & IFF_UP != 0 && mtu.is_none_or(|mtu| mtu >= Family::Inet6.min_mtu());
    let is_link = *head.first()? == AF_UNSPEC;
    Some(if is_link && !usable { Event::RemovesRoutes } else { Event::Other })
}

/// An object as the kernel announced it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObservedChange {
    /// The object. A veth lacks its peer's name.
    pub object: Object,
    /// True for `RTM_DEL*`: the object is gone. False if it is new or changed.
    pub is_deleted: bool,
    /// True if the change was announced after
    /// [`Observer::mark_writes_done`](crate::Observer::mark_writes_done).
    pub is_after_writes: bool,
}

/// A record of changes, up to a limit.
#[derive(Debug)]
struct ChangeLog {
    changes: Vec<ObservedChange>,
    limit: usize,
    is_after_writes: bool,
    is_complete: bool,
}

impl ChangeLog {
    fn new(limit: usize) -> ChangeLog {
        ChangeLog { changes: Vec::new(), limit, is_after_writes: false, is_complete: true }
    }

    fn add(&mut self, message: &Message<'_>) {
        if !self.is_complete {
            return;
        }
        match codec::decode(message) {
            Ok(None) => {}
            Ok(Some((object, is_deleted))) if self.changes.len() < self.limit => {
                self.changes.push(ObservedChange {
                    object,
                    is_deleted,
                    is_after_writes: self.is_after_writes,
                });
            }
            _ => self.invalidate(),
        }
    }

    /// Drops the record, since it lacks a change.
    fn invalidate(&mut self) {
        self.is_complete = false;
        self.changes = Vec::new();
    }

    fn mark_writes_done(&mut self) {
        self.is_after_writes = true;
    }

    /// Returns all changes, or `None` if some are missing.
    fn into_changes(self) -> Option<Vec<ObservedChange>> {
        self.is_complete.then_some(self.changes)
    }
}

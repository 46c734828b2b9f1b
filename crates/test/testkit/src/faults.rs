//! Faults on demand: a namespace that passes messages to another one, a model or the real kernel,
//! and sometimes loses or garbles them.
//!
//! ```
//! use trueup_netlink::Socket;
//! use trueup_testkit::model::Kernel;
//! use trueup_testkit::faults::{At, Fault, Faults};
//!
//! let kernel = Kernel::new();
//! let faults = Faults::over(kernel.namespace());
//! faults.add(At::Change(1), Fault::Refuse(1)); // EPERM
//! let mut socket = Socket::open(&faults.namespace())?;
//! // Asking to delete a link without saying which counts as a change.
//! assert!(socket.check_privilege().unwrap_err().is_permission());
//! socket.check_privilege()?;
//! # Ok::<(), trueup_netlink::Error>(())
//! ```

mod rows;
mod transport;

use std::fmt;
use std::io;
use std::panic::resume_unwind;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trueup_netlink::{Connect, Namespace, Transport};

use crate::layer;
use crate::message::{Kind, u16_at};
use transport::Faulty;

const HEADER: usize = 16;
const NLMSG_ERROR: u16 = 2;
const NLM_F_DUMP: u16 = 0x300;
const EAGAIN: i32 = 11;
const ENOBUFS: i32 = 105;

/// The moment of a fault. All counts start at 1 with [`Faults::add`], and cover all sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// At the n-th message that asks for a change.
    Change(u32),
    /// At every message that asks for a change.
    EveryChange,
    /// At the n-th dump of a kind.
    Dump(Kind, u32),
    /// At every dump of a kind, repeated attempts included.
    EveryDump(Kind),
    /// Each time a listening socket reads announcements; it reads all waiting ones at once.
    Announcements,
}

/// A fault. A fault applies only where it makes sense: faults of rows affect neither changes nor
/// announcements, and so on.
#[derive(Clone)]
#[non_exhaustive]
pub enum Fault {
    /// The change or dump is not executed, and answered with this errno (positive).
    Refuse(i32),
    /// The change is executed and its answer is lost, which the socket reports once (`ENOBUFS`).
    LoseAnswer,
    /// The process dies before the message is sent: see [`died`].
    DieBefore,
    /// The process dies when the message has been executed, before any of the answer is read.
    DieAfter,
    /// Another writer acts just before.
    Writer(Arc<dyn Fn() + Send + Sync>),
    /// All rows have the flag `NLM_F_DUMP_INTR`.
    Interrupt,
    /// The n-th row, from 1, is missing, without an error.
    LoseRow(usize),
    /// The n-th row, from 1, comes twice.
    RepeatRow(usize),
    /// The first attribute of the n-th row, from 1, lacks its last byte.
    SpoilRow(usize),
    /// Every row has an additional attribute with an unknown number.
    UnknownAttribute,
    /// The rows come as one datagram larger than any buffer.
    Truncate,
    /// The rows come as one datagram. Its first message claims a length beyond its end.
    Corrupt,
    /// The first row, or every announcement, is lost, and the socket reports a loss (`ENOBUFS`).
    Overrun,
    /// The dump ends with this errno (positive) in its `NLMSG_DONE`.
    BreakOff(i32),
    /// All announcements are lost, without an error.
    Lose,
    /// Each announcement comes twice.
    Repeat,
    /// The last announcement comes first.
    Reverse,
    /// After the announcements comes this one, a whole message about an event that did not happen.
    Invent(Vec<u8>),
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refuse(errno) => write!(f, "Refuse({errno})"),
            Self::LoseAnswer => f.write_str("LoseAnswer"),
            Self::DieBefore => f.write_str("DieBefore"),
            Self::DieAfter => f.write_str("DieAfter"),
            Self::Writer(_) => f.write_str("Writer"),
            Self::Interrupt => f.write_str("Interrupt"),
            Self::LoseRow(row) => write!(f, "LoseRow({row})"),
            Self::RepeatRow(row) => write!(f, "RepeatRow({row})"),
            Self::SpoilRow(row) => write!(f, "SpoilRow({row})"),
            Self::UnknownAttribute => f.write_str("UnknownAttribute"),
            Self::Truncate => f.write_str("Truncate"),
            Self::Corrupt => f.write_str("Corrupt"),
            Self::Overrun => f.write_str("Overrun"),
            Self::BreakOff(errno) => write!(f, "BreakOff({errno})"),
            Self::Lose => f.write_str("Lose"),
            Self::Repeat => f.write_str("Repeat"),
            Self::Reverse => f.write_str("Reverse"),
            Self::Invent(message) => write!(f, "Invent({message:?})"),
        }
    }
}

/// A list of faults between sockets and a namespace. Clones share it.
///
/// ```
/// use trueup_netlink::codec::link;
/// use trueup_netlink::Socket;
/// use trueup_testkit::faults::{At, Fault, Faults};
/// use trueup_testkit::model::Kernel;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let faults = Faults::over(Kernel::new().namespace());
/// faults.add(At::Change(1), Fault::Refuse(16)); // EBUSY
/// let mut message = Vec::new();
/// link::delete(&mut message, 7)?;
/// let refused = Socket::open(&faults.namespace())?.request(&message).unwrap_err();
/// assert_eq!(refused.errno(), Some(16));
/// assert_eq!(faults.changes(), 1);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Faults {
    inner: Namespace,
    script: Arc<Mutex<Script>>,
}

/// A function to call with each fault at a request, and the request.
#[derive(Clone)]
struct Watcher(Arc<WatchFault>);

type WatchFault = dyn Fn(&Fault, &[u8]) -> bool + Send + Sync;

impl fmt::Debug for Watcher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watcher")
    }
}

#[derive(Debug, Default)]
struct Script {
    faults: Vec<Armed>,
    watcher: Option<Watcher>,
    /// The number of messages sent so far that ask for a change.
    changes: u32,
    /// True if the process is dead: it neither sends nor receives.
    dead: bool,
}

#[derive(Debug)]
struct Armed {
    at: At,
    /// The number of times that `at` has occurred.
    seen: u32,
    fault: Fault,
}

impl Faults {
    /// Puts an empty list of faults over a namespace.
    pub fn over(inner: Namespace) -> Self {
        Self { inner, script: Arc::default() }
    }

    /// Returns the namespace with the faults in front of it.
    pub fn namespace(&self) -> Namespace {
        Namespace::through(Arc::new(self.clone()))
    }

    /// Adds a fault to the list. Its count starts now.
    pub fn add(&self, at: At, fault: Fault) {
        let armed = Armed { at, seen: 0, fault };
        self.lock().faults.push(armed);
    }

    /// Calls `watch` with each fault just before it happens, and the request concerned (empty for
    /// faults of announcements). If `watch` returns false, the fault does not happen.
    pub fn watch(&self, watch: impl Fn(&Fault, &[u8]) -> bool + Send + Sync + 'static) {
        self.lock().watcher = Some(Watcher(Arc::new(watch)));
    }

    /// Removes all faults, and revives a process that died.
    pub fn clear(&self) {
        let mut script = self.lock();
        script.faults.clear();
        script.dead = false;
    }

    /// Returns the number of messages sent so far that ask for a change.
    pub fn changes(&self) -> u32 {
        self.lock().changes
    }

    /// Asks the watcher whether a due fault happens; true if there is no watcher.
    fn happens(&self, fault: &Fault, request: &[u8]) -> bool {
        // Do not hold the lock: the watcher may use the same faults.
        let watcher = self.lock().watcher.clone();
        watcher.is_none_or(|Watcher(watch)| watch(fault, request))
    }

    fn lock(&self) -> MutexGuard<'_, Script> {
        self.script.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Connect for Faults {
    fn connect(&self) -> io::Result<Box<dyn Transport>> {
        layer::connect(&self.inner, Faulty::new(self.clone()))
    }

    fn below(&self) -> Option<&Namespace> {
        Some(&self.inner)
    }
}

/// The panic payload of a process that died: after it, only destructors run.
struct Died;

/// Ends the process that [`died`] runs, by a panic.
pub fn die() -> ! {
    resume_unwind(Box::new(Died))
}

/// Runs `work`, which may die by [`Fault::DieBefore`], [`Fault::DieAfter`] or [`die`]. Returns
/// `None` if it died. Other panics pass through.
pub fn died<T>(work: impl FnOnce() -> T) -> Option<T> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(value) => Some(value),
        Err(payload) if payload.is::<Died>() => None,
        Err(payload) => resume_unwind(payload),
    }
}

impl Script {
    /// Counts this request and returns the faults due at it.
    fn due(&mut self, request: &[u8]) -> Vec<Fault> {
        let kind = u16_at(request, 4);
        let dump = kind & 3 == 2 && u16_at(request, 6) & NLM_F_DUMP != 0;
        let change = kind >= HEADER as u16 && kind & 3 != 2;
        self.changes += u32::from(change);
        let mut due = Vec::new();
        for armed in &mut self.faults {
            let is_now = match armed.at {
                At::Change(_) | At::EveryChange => change,
                At::Dump(of, _) | At::EveryDump(of) => dump && of.new_type() == kind & !3,
                At::Announcements => false,
            };
            armed.seen += u32::from(is_now);
            let is_due = match armed.at {
                At::Change(n) | At::Dump(_, n) => armed.seen == n,
                At::EveryChange | At::EveryDump(_) | At::Announcements => true,
            };
            if is_now && is_due {
                due.push(armed.fault.clone());
            }
        }
        due
    }

    /// Returns the faults due when announcements are read.
    fn at_announcements(&self) -> Vec<Fault> {
        let armed = self.faults.iter();
        let of_announcements = armed.filter(|armed| armed.at == At::Announcements);
        of_announcements.map(|armed| armed.fault.clone()).collect()
    }

    fn die(&mut self) -> ! {
        self.dead = true;
        die()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::framed;
    use crate::model::Kernel;
    use trueup_netlink::{DumpStep, ErrorKind, Socket};

    fn links(socket: &mut Socket) -> Result<(usize, bool), trueup_netlink::Error> {
        let request = framed(Kind::Link.new_type() + 2, 0, 0, 0, &[0; 16]);
        let mut links = 0;
        let dump = socket.dump(&request, |step| match step {
            DumpStep::Begin => links = 0,
            DumpStep::Message(_) => links += 1,
            DumpStep::Part(_) => {}
        })?;
        Ok((links, dump.complete))
    }

    #[test]
    fn dumps_go_wrong_as_asked() {
        let kernel = Kernel::new();
        let faults = Faults::over(kernel.namespace());
        let mut socket = Socket::open(&faults.namespace()).unwrap();
        let (all, complete) = links(&mut socket).unwrap();
        assert!(complete && all > 0);
        let every = At::EveryDump(Kind::Link);
        for (fault, expected) in [
            (Fault::UnknownAttribute, (all, true)),
            (Fault::LoseRow(1), (all - 1, true)),
            (Fault::RepeatRow(1), (all + 1, true)),
            (Fault::Interrupt, (all, false)),
            (Fault::Overrun, (all - 1, false)),
        ] {
            faults.clear();
            faults.add(every, fault.clone());
            assert_eq!(links(&mut socket).unwrap(), expected, "{fault:?}");
        }
        // Another fault beside it does not change it.
        faults.add(every, Fault::RepeatRow(1));
        assert!(!links(&mut socket).unwrap().1);
        for (fault, kind) in [
            (Fault::BreakOff(12), ErrorKind::Kernel),
            (Fault::Refuse(12), ErrorKind::Kernel),
            (Fault::Corrupt, ErrorKind::Malformed),
        ] {
            faults.clear();
            faults.add(every, fault.clone());
            assert_eq!(links(&mut socket).unwrap_err().kind(), kind, "{fault:?}");
        }
        faults.clear();
        faults.add(At::Dump(Kind::Link, 1), Fault::Interrupt);
        assert_eq!(links(&mut socket).unwrap(), (all, true));
    }

    #[test]
    fn whoever_dies_does_nothing_any_more() {
        let faults = Faults::over(Kernel::new().namespace());
        faults.add(At::Change(2), Fault::DieAfter);
        let died = died(|| {
            let mut socket = Socket::open(&faults.namespace()).unwrap();
            let _first = socket.check_privilege();
            let _second = socket.check_privilege();
            unreachable!("it died");
        });
        assert!(died.is_none());
        assert_eq!(faults.changes(), 2);
        faults.clear();
        let mut socket = Socket::open(&faults.namespace()).unwrap();
        socket.check_privilege().unwrap();
    }

    #[test]
    fn a_writer_acts_just_before() {
        let acted = Arc::new(Mutex::new(0));
        let faults = Faults::over(Kernel::new().namespace());
        let act = {
            let acted = acted.clone();
            move || *acted.lock().unwrap() += 1
        };
        faults.add(At::EveryChange, Fault::Writer(Arc::new(act)));
        let mut socket = Socket::open(&faults.namespace()).unwrap();
        socket.check_privilege().unwrap();
        socket.check_privilege().unwrap();
        assert_eq!(*acted.lock().unwrap(), 2);
    }

    #[test]
    fn announcements_go_astray_as_asked() {
        use std::time::Duration;
        use trueup_netlink::{Group, Multicast};

        let kernel = Kernel::new();
        let faults = Faults::over(kernel.namespace());
        let mut ears = Multicast::open(&faults.namespace(), &[Group::IPV4_RULE]).unwrap();
        let mut writer = Socket::open(&kernel.namespace()).unwrap();
        // Rules with rising priorities.
        let mut announce = || {
            for priority in [1_u32, 2] {
                let mut body = vec![0; Kind::Rule.header_len()];
                (body[0], body[7]) = (2, 1);
                crate::message::push_attribute(&mut body, 6, &priority.to_ne_bytes());
                let flags = 0x400;
                let message = framed(Kind::Rule.new_type(), flags, 0, 0, &body);
                let mut batch = trueup_netlink::Batch::new();
                let pushed = batch.push(|buffer| {
                    buffer.extend(&message);
                    Ok::<_, io::Error>(())
                });
                assert!(pushed.is_ok());
                writer.send_batch(&mut batch).unwrap();
            }
        };
        let mut hear = || {
            let mut announced = Vec::new();
            let read = ears.receive(Duration::ZERO, |event| {
                let priority = crate::message::attributes(&event.body[12..])
                    .find(|(number, _)| *number == 6)
                    .map(|(_, payload)| payload[0]);
                announced.push(priority.unwrap_or(0));
            });
            read.map(|_| announced)
        };
        announce();
        assert_eq!(hear().unwrap(), [1, 2]);
        let unheard_of = framed(Kind::Rule.new_type(), 0, 0, 0, &[0; 12]);
        for (fault, expected) in [
            (Fault::Lose, &[][..]),
            (Fault::Repeat, &[1, 1, 2, 2]),
            (Fault::Reverse, &[2, 1]),
            (Fault::Invent(unheard_of), &[1, 2, 0]),
        ] {
            faults.clear();
            faults.add(At::Announcements, fault.clone());
            announce();
            assert_eq!(hear().unwrap(), expected, "{fault:?}");
        }
        faults.clear();
        faults.add(At::Announcements, Fault::Overrun);
        announce();
        assert_eq!(hear().unwrap_err().kind(), ErrorKind::Overrun);
        assert!(hear().unwrap().is_empty());
    }
}

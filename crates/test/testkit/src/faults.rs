//! Faults on demand: a namespace through which messages go to another one, a model or real, and
//! sometimes astray.
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

/// The moment of a fault. Everything is counted from 1, over all sockets, from [`Faults::add`] on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum At {
    /// At the n-th message that asks for a change.
    Change(u32),
    /// At each of them.
    EveryChange,
    /// At the n-th dump of a kind.
    Dump(Kind, u32),
    /// At each of them.
    EveryDump(Kind),
    /// Each time a listening socket reads announcements: all that wait are read at once.
    Announcements,
}

/// A fault. Faults of rows do nothing to a change, nor to announcements, and so on.
#[derive(Clone)]
#[non_exhaustive]
pub enum Fault {
    /// The change, or the dump, is answered with this errno (positive), and not carried out.
    Refuse(i32),
    /// The change is carried out, its answer is lost, and the socket says so once (`ENOBUFS`).
    LoseAnswer,
    /// The process dies before the message is sent: see [`died`].
    DieBefore,
    /// The process dies when the message has been carried out and nothing was read of its answer.
    DieAfter,
    /// Another writer acts just before.
    Writer(Arc<dyn Fn() + Send + Sync>),
    /// All rows bear `NLM_F_DUMP_INTR`.
    Interrupt,
    /// The n-th row, from 1, is missing without a word.
    LoseRow(usize),
    /// The n-th row, from 1, comes twice.
    RepeatRow(usize),
    /// The first attribute of the n-th row, from 1, has lost its last byte.
    SpoilRow(usize),
    /// Every row has one more attribute, of an unknown number.
    UnknownAttribute,
    /// The rows come as a datagram larger than any buffer.
    Truncate,
    /// The rows come as a datagram whose first message says that it is longer than it is.
    Corrupt,
    /// The first row is lost, or all announcements are, and the socket says that something was
    /// (`ENOBUFS`).
    Overrun,
    /// The dump breaks off at its end with this errno (positive), inside of `NLMSG_DONE`.
    BreakOff(i32),
    /// All announcements are lost without a word.
    Lose,
    /// Each announcement comes twice.
    Repeat,
    /// The last announcement comes first.
    Reverse,
    /// After the announcements there is this one more, of something that has not happened: a whole
    /// message.
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

/// Faults between sockets and a namespace. Clones share them.
#[derive(Clone, Debug)]
pub struct Faults {
    inner: Namespace,
    script: Arc<Mutex<Script>>,
}

/// A function that is called with each fault at a request, and the request.
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
    /// Messages sent that ask for a change.
    changes: u32,
    /// The process is dead: nothing is sent or received.
    dead: bool,
}

#[derive(Debug)]
struct Armed {
    at: At,
    /// The count of `at` so far.
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

    /// Adds a fault.
    pub fn add(&self, at: At, fault: Fault) {
        let armed = Armed { at, seen: 0, fault };
        self.lock().faults.push(armed);
    }

    /// Calls `watch` with each fault just before it happens, and the request at which it does; with
    /// an empty request for faults of announcements. It happens if `watch` returns true.
    pub fn watch(&self, watch: impl Fn(&Fault, &[u8]) -> bool + Send + Sync + 'static) {
        self.lock().watcher = Some(Watcher(Arc::new(watch)));
    }

    /// Removes all faults, and revives a process that died.
    pub fn clear(&self) {
        let mut script = self.lock();
        script.faults.clear();
        script.dead = false;
    }

    /// How many messages that ask for a change were sent so far.
    pub fn changes(&self) -> u32 {
        self.lock().changes
    }

    /// Returns true if a fault that is due is to happen.
    fn happens(&self, fault: &Fault, request: &[u8]) -> bool {
        // Not under the lock: it may well speak through the same faults.
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

/// The panic payload of a process that died: only the destructors of its values run on.
struct Died;

/// Ends the process that [`died`] runs.
pub fn die() -> ! {
    resume_unwind(Box::new(Died))
}

/// Runs something that may die by [`Fault::DieBefore`], [`Fault::DieAfter`] or [`die`]; `None` when
/// it did.
/// Other panics go through.
pub fn died<T>(work: impl FnOnce() -> T) -> Option<T> {
    match std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)) {
        Ok(value) => Some(value),
        Err(payload) if payload.is::<Died>() => None,
        Err(payload) => resume_unwind(payload),
    }
}

impl Script {
    /// The faults whose time has come with this request.
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

    /// Returns the faults of announcements.
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
        // Beside another one it is still what it was.
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
        // Rules at priorities that go up.
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

//! Dumps that lose rows on purpose, beside a scripted writer, on the model kernel.

use std::collections::VecDeque;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex};

use trueup_net::{Dev, Family, Kind, Kinds, Neighbour, Route};
use trueup_netlink::codec::{self, existing};
use trueup_netlink::wire::{HEADER_LEN, Header, Messages, NLMSG_DONE, align};
use trueup_netlink::{Connect, Group, Namespace, Transport};
use trueup_observe::{Incomplete, Observer, ReadScope};
use trueup_testkit::faults::{At, Fault, Faults};
use trueup_testkit::model::Kernel;

use crate::hand::{Hand, ONE, OURS, THEIRS, blackhole};

const ROUTES: usize = 1_000;
/// The number of rows in a part.
const PART: usize = 300;

/// A layer between a reader and the model kernel.
#[derive(Clone)]
struct Lossy {
    kernel: Kernel,
    script: Arc<Mutex<Script>>,
}

#[derive(Default)]
struct Script {
    /// For each dump of routes in order, the event after its first part, and the rows it loses.
    dumps: VecDeque<(Option<OtherWriter>, Vec<usize>)>,
    read: usize,
}

type OtherWriter = Box<dyn FnOnce() + Send>;

impl std::fmt::Debug for Lossy {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a lossy kernel")
    }
}

impl Connect for Lossy {
    fn connect(&self) -> io::Result<Box<dyn Transport>> {
        Ok(Box::new(Wire {
            inner: self.kernel.namespace().connect().unwrap(),
            script: Arc::clone(&self.script),
            parts: VecDeque::new(),
            other_writer: None,
        }))
    }
}

struct Wire {
    inner: Box<dyn Transport>,
    script: Arc<Mutex<Script>>,
    parts: VecDeque<Vec<u8>>,
    other_writer: Option<OtherWriter>,
}

impl Transport for Wire {
    fn port(&self) -> u32 {
        self.inner.port()
    }

    fn prepare_requests(&mut self) -> io::Result<bool> {
        self.inner.prepare_requests()
    }

    fn join(&mut self, group: Group) -> io::Result<()> {
        self.inner.join(group)
    }

    fn receive_buffer(&self) -> io::Result<usize> {
        self.inner.receive_buffer()
    }

    fn set_receive_buffer(&mut self, bytes: usize) -> io::Result<()> {
        self.inner.set_receive_buffer(bytes)
    }

    fn netns_cookie(&self) -> io::Result<u64> {
        self.inner.netns_cookie()
    }

    fn send(&mut self, datagram: &[u8]) -> io::Result<()> {
        self.inner.send(datagram)?;
        if Header::read(datagram).unwrap().kind != codec::route::GET {
            return Ok(());
        }
        let mut rows = Vec::new();
        let mut done = Vec::new();
        let mut buffer = Vec::with_capacity(65_536);
        while self.inner.receive(&mut buffer).is_ok() {
            for message in Messages::new(&buffer) {
                let mut bytes = message.header.to_bytes().to_vec();
                bytes.extend_from_slice(message.body);
                bytes.resize(align(HEADER_LEN + message.body.len()), 0);
                match message.header.kind {
                    NLMSG_DONE => done = bytes,
                    _ => rows.push(bytes),
                }
            }
        }
        let mut script = self.script.lock().unwrap();
        script.read += 1;
        let (other_writer, mut lost) = script.dumps.pop_front().unwrap_or_default();
        lost.sort_unstable();
        for row in lost.into_iter().rev() {
            rows.remove(row);
        }
        self.parts.extend(rows.chunks(PART).map(<[_]>::concat));
        self.parts.push_back(done);
        self.other_writer = other_writer;
        Ok(())
    }

    fn receive(&mut self, buffer: &mut Vec<u8>) -> io::Result<usize> {
        let Some(part) = self.parts.pop_front() else {
            return self.inner.receive(buffer);
        };
        if let Some(other_writer) = self.other_writer.take() {
            other_writer();
        }
        buffer.clear();
        buffer.extend_from_slice(&part);
        Ok(part.len())
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.inner.as_fd()
    }
}

fn stable() -> Vec<Route> {
    (0..ROUTES).map(|n| blackhole(OURS, &format!("fd00:0:{n:x}::/64"))).collect()
}

fn with_routes() -> (Kernel, Vec<Route>) {
    let kernel = Kernel::new();
    let mut hand = Hand::open(&kernel.namespace());
    let routes = stable();
    routes.iter().for_each(|route| hand.add(route));
    (kernel, routes)
}

fn scope() -> ReadScope {
    ReadScope::default()
        .with_kinds(Kinds::NONE.with(Kind::Route))
        .with_protocol(OURS)
        .with_family(Family::Inet6)
}

/// Adds a foreign route.
fn adds(kernel: &Kernel, n: usize) -> Option<OtherWriter> {
    let namespace = kernel.namespace();
    Some(Box::new(move || {
        let theirs = blackhole(THEIRS, &format!("fd01:0:{n:x}::/64"));
        Hand::open(&namespace).add(&theirs);
    }))
}

fn read(
    kernel: &Kernel,
    dumps: Vec<(Option<OtherWriter>, Vec<usize>)>,
) -> (Vec<Route>, Vec<Incomplete>, usize) {
    let script = Arc::new(Mutex::new(Script { dumps: dumps.into(), read: 0 }));
    let lossy = Lossy { kernel: kernel.clone(), script: Arc::clone(&script) };
    let mut observer = Observer::open(&Namespace::through(Arc::new(lossy))).unwrap();
    let snapshot = observer.snapshot(&scope()).unwrap();
    let complete = snapshot.observed.complete.contains(Kind::Route);
    assert_eq!(complete, snapshot.incomplete.is_empty());
    let read = script.lock().unwrap().read;
    (snapshot.observed.routes, snapshot.incomplete, read)
}

pub(crate) fn a_dump_that_loses_rows_is_never_complete() {
    let (kernel, routes) = with_routes();
    let losing = |n: usize| (adds(&kernel, n), vec![PART + n, 2 * PART + n]);
    let (seen, incomplete, read) = self::read(&kernel, (0..5).map(losing).collect());
    assert_eq!(incomplete, [Incomplete::Changing(Kind::Route)]);
    assert_eq!(
        incomplete[0].to_string(),
        "another writer changed routes during every attempt to read them"
    );
    assert_eq!(seen, routes, "a row that was seen any time is there");
    assert_eq!(read, 5);
    // A repeated row makes the kind incomplete, with any events.
    let (seen, incomplete, _) = self::read(&kernel, Vec::new());
    assert_eq!((seen, incomplete), (routes, vec![]));
}

pub(crate) fn a_dump_that_recovers_is_complete_and_has_no_deleted_row() {
    let (kernel, mut routes) = with_routes();
    let went = routes.remove(ROUTES - 1);
    let namespace = kernel.namespace();
    let other_writer: OtherWriter = Box::new(move || Hand::open(&namespace).delete(&went));
    let (seen, incomplete, read) = read(&kernel, vec![(Some(other_writer), vec![PART])]);
    assert_eq!((seen, incomplete), (routes, vec![]));
    // Interrupted; then quiet, but in parts in which a large row may not have fitted; then quiet.
    assert_eq!(read, 3);
}

pub(crate) fn proxies_without_events_are_compared() {
    let kernel = Kernel::new();
    let mut hand = Hand::open(&kernel.namespace());
    hand.devices();
    for n in 0..1_000_u16 {
        let [high, low] = n.to_be_bytes();
        let proxy = Neighbour::proxy(Dev::index(ONE), [10, 9, high, low].into());
        hand.send(|buffer| codec::create(buffer, &proxy, &existing));
    }
    let scope = ReadScope::default().with_kinds(Kinds::NONE.with(Kind::Neighbour));
    let proxies = |lost: u32| {
        let faults = Faults::over(kernel.namespace());
        // The first dump is the neighbours'.
        for n in 0..lost {
            let row = 5 + n as usize;
            faults.add(At::Dump(trueup_testkit::Kind::Neighbour, 2 + n), Fault::LoseRow(row));
        }
        let mut observer = Observer::open(&faults.namespace()).unwrap();
        let snapshot = observer.snapshot(&scope).unwrap();
        let proxies = snapshot.observed.neighbours.iter().filter(|it| it.proxy);
        (proxies.count(), snapshot.incomplete)
    };
    assert_eq!(proxies(0), (1_000, vec![]));
    assert_eq!(proxies(1), (1_000, vec![]));
    assert_eq!(proxies(5), (1_000, vec![Incomplete::Changing(Kind::Neighbour)]));
}

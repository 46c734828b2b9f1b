//! Tests of the transport on the running kernel, each in its own namespace.

use std::ops::Range;
use std::os::fd::OwnedFd;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rustix::thread::{CapabilitySet, CapabilitySets};
use trueup_netlink::codec::EncodeError;
use trueup_netlink::wire::{MessageWriter, NLM_F_CREATE, NLM_F_EXCL, read_string, read_u32};
use trueup_netlink::{
    Answer, BATCH_MESSAGES, Batch, DUMP_ATTEMPTS, DumpStep, ErrorKind, Group, Multicast, Namespace,
    Socket,
};
use trueup_testkit::{
    Snapshot, assert_no_changes, fresh_netns, index_of, ip_fails, named_netns, uplinks, veth_pair,
    without_net_admin,
};

const RTM_NEWLINK: u16 = 16;
const RTM_GETLINK: u16 = 18;
const RTM_NEWADDR: u16 = 20;
const RTM_GETADDR: u16 = 22;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;
const RTA_DST: u16 = 1;
const RTA_OIF: u16 = 4;
const RTA_GATEWAY: u16 = 5;
const RTA_METRICS: u16 = 8;
const RTA_MULTIPATH: u16 = 9;
const RTA_TABLE: u16 = 15;
const UNICAST: u8 = 1;
const BLACKHOLE: u8 = 6;

fn socket() -> Socket {
    Socket::open(&Namespace::current()).unwrap()
}

type Encoded = Result<(), EncodeError>;

/// Returns an exclusive create's flags, and none for a delete, where NLM_F_EXCL's bit is
/// NLM_F_BULK.
fn create(kind: u16) -> u16 {
    if kind.is_multiple_of(4) { NLM_F_CREATE | NLM_F_EXCL } else { 0 }
}

/// Writes an IPv4 route message.
fn route(
    buffer: &mut Vec<u8>,
    kind: u16,
    to: (u32, u8),
    route_type: u8,
    attrs: impl FnOnce(&mut MessageWriter<'_>),
) -> Encoded {
    let mut message = MessageWriter::begin(buffer, kind, create(kind));
    message.body(&[2, to.1, 0, 0, 254, 116, 0, route_type, 0, 0, 0, 0]);
    message.attr(RTA_DST, &to.0.to_be_bytes());
    attrs(&mut message);
    message.finish()
}

/// Writes the blackhole 10.0.0.0/32 plus `n`, or one that fails, with host bits set in a /8.
fn blackhole(buffer: &mut Vec<u8>, n: u32, fails: bool) -> Encoded {
    let length = if fails { 8 } else { 32 };
    route(buffer, RTM_NEWROUTE, (0x0a00_0001 + n, length), BLACKHOLE, |_| {})
}

fn one(encode: impl FnOnce(&mut Vec<u8>) -> Encoded) -> Vec<u8> {
    let mut buffer = Vec::new();
    encode(&mut buffer).unwrap();
    buffer
}

fn fixed(kind: u16, body: &[u8]) -> Vec<u8> {
    one(|buffer| {
        let mut message = MessageWriter::begin(buffer, kind, 0);
        message.body(body);
        message.finish()
    })
}

/// Sends the blackholes `range` in as many batches as needed; `fails` picks those that fail.
fn send(socket: &mut Socket, range: Range<u32>, fails: impl Fn(u32) -> bool) -> Vec<Answer> {
    let mut batch = Batch::new();
    let mut outcomes = Vec::new();
    let mut n = range.start;
    while n < range.end {
        if batch.push(|buffer| blackhole(buffer, n, fails(n))).unwrap() {
            n += 1;
        } else {
            outcomes.extend(socket.send_batch(&mut batch).unwrap());
        }
    }
    outcomes.extend(socket.send_batch(&mut batch).unwrap());
    assert!(batch.is_empty());
    outcomes
}

fn dump(socket: &mut Socket, request: &[u8]) -> (usize, trueup_netlink::Dump) {
    let mut count = 0;
    let dump = socket
        .dump(request, |step| match step {
            DumpStep::Begin => count = 0,
            DumpStep::Message(_) => count += 1,
            DumpStep::Part(_) => {}
        })
        .unwrap();
    (count, dump)
}

/// Returns all our blackholes in the kernel.
fn blackholes(socket: &mut Socket) -> Vec<u32> {
    let mut found = Vec::new();
    let request = fixed(RTM_GETROUTE, &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let dump = socket
        .dump(&request, |step| match step {
            DumpStep::Begin => found.clear(),
            DumpStep::Message(message) => {
                let (fixed, attrs) = message.split(12).unwrap();
                if fixed[5] == 116 {
                    let dst: [u8; 4] = attrs.find(RTA_DST).unwrap().try_into().unwrap();
                    found.push(u32::from_be_bytes(dst) - 0x0a00_0001);
                }
            }
            DumpStep::Part(_) => {}
        })
        .unwrap();
    assert!(dump.complete);
    found.sort_unstable();
    found
}

pub(crate) fn an_error_carries_errno_message_and_attribute() {
    fresh_netns();
    let mut socket = socket();

    let host_bits = one(|buffer| blackhole(buffer, 0, true));
    let error = socket.request(&host_bits).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::Kernel, Some(libc::EINVAL)));
    assert_eq!(error.kernel_message(), Some("Invalid prefix for given prefix length"));

    let gateway = one(|buffer| {
        route(buffer, RTM_NEWROUTE, (0x0a00_0000, 8), UNICAST, |message| {
            message.attr(RTA_GATEWAY, &[192, 0, 2, 1]);
        })
    });
    let error = socket.request(&gateway).unwrap_err();
    let words = "Network is unreachable: Nexthop has invalid gateway (ENETUNREACH 101)";
    assert_eq!(error.to_string(), words);

    // A device index of two bytes: the kernel reports the attribute.
    let short = one(|buffer| {
        route(buffer, RTM_NEWROUTE, (0x0a00_0000, 8), UNICAST, |message| {
            message.attr_u16(RTA_OIF, 1);
        })
    });
    let error = socket.request(&short).unwrap_err();
    let attribute = error.kernel().unwrap().attribute();
    assert_eq!(attribute, Some((36, &[RTA_OIF][..])), "{error}");

    // An invalid metric, inside a nest.
    let metric = one(|buffer| {
        route(buffer, RTM_NEWROUTE, (0x0a00_0000, 8), BLACKHOLE, |message| {
            let nest = message.nest(RTA_METRICS);
            message.attr_u32(2, 1400);
            message.attr_u32(99, 1);
            message.end_nest(nest);
        })
    });
    let error = socket.request(&metric).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EINVAL), "{error}");
    assert!(error.kernel_message().is_some(), "{error}");

    let good = one(|buffer| blackhole(buffer, 0, false));
    socket.request(&good).unwrap();
    let error = socket.request(&good).unwrap_err();
    assert!(error.kernel().unwrap().is_exists());
}

pub(crate) fn a_query_gives_the_one_reply() {
    fresh_netns();
    let mut socket = socket();
    let by_name = |name: &[u8]| {
        one(|buffer| {
            let mut message = MessageWriter::begin(buffer, RTM_GETLINK, 0);
            message.body(&[0; 16]);
            message.attr_string(3, name);
            message.finish()
        })
    };
    let found = socket.query(&by_name(b"lo"), |message| {
        let (_, attrs) = message.split(16).unwrap();
        (message.header.kind, attrs.find(3).map(|name| read_string(name).to_vec()))
    });
    assert_eq!(found.unwrap(), (RTM_NEWLINK, Some(b"lo".to_vec())));
    let error = socket.query(&by_name(b"nosuch"), |_| ()).unwrap_err();
    assert!(error.kernel().unwrap().is_not_found(), "{error}");
}

pub(crate) fn every_message_of_a_thousand_has_its_own_outcome() {
    for fails in [
        &(|n: u32| n.is_multiple_of(7)) as &dyn Fn(u32) -> bool,
        &|_| true,
        &|_| false,
        &|n| n == 999,
        &|n| n % 250 == 249,
        &|n| n % 250 == 0,
    ] {
        fresh_netns();
        let mut socket = socket();
        let outcomes = send(&mut socket, 0..1000, fails);
        assert_eq!(outcomes.len(), 1000);
        for (n, outcome) in (0..).zip(&outcomes) {
            match outcome {
                Some(Ok(())) => assert!(!fails(n), "{n}"),
                Some(Err(error)) => {
                    assert!(fails(n), "{n}: {error}");
                    let message = Some("Invalid prefix for given prefix length");
                    assert_eq!((error.errno(), error.message()), (libc::EINVAL, message));
                }
                None => panic!("{n} is unknown"),
            }
        }
        let wanted: Vec<u32> = (0..1000).filter(|n| !fails(*n)).collect();
        assert_eq!(blackholes(&mut socket), wanted);
    }
}

pub(crate) fn more_failures_than_acknowledgements_fit_are_all_reported() {
    fresh_netns();
    let mut socket = socket();
    let outcomes = send(&mut socket, 0..257, |_| true);
    assert_eq!(outcomes.len(), 257);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Some(Err(_)))));
    assert_eq!(BATCH_MESSAGES, 250);
}

pub(crate) fn a_small_receive_queue_shrinks_the_window() {
    fresh_netns();
    let mut socket = socket();
    let obtained = socket.set_receive_buffer(20_000).unwrap();
    assert_eq!(obtained, 20_000);
    let outcomes = send(&mut socket, 0..300, |_| true);
    assert!(outcomes.iter().all(|outcome| matches!(outcome, Some(Err(_)))));
    assert_eq!(outcomes.len(), 300);
    // The kernel's minimum, which is reported as it is.
    let least = socket.set_receive_buffer(1).unwrap();
    assert!(least > 1, "{least}");
    let outcomes = send(&mut socket, 0..20, |n| n % 2 == 0);
    assert!(outcomes.iter().all(|outcome| outcome.is_some()));
}

pub(crate) fn a_lost_answer_is_unknown_and_never_success() {
    fresh_netns();
    let mut socket = socket();
    // Without the socket's knowledge: it still assumes that 250 answers fit.
    assert_eq!(send(&mut socket, 300..301, |_| false), [Some(Ok(()))]);
    rustix::net::sockopt::set_socket_recv_buffer_size(&socket, 10_000).unwrap();
    let fails = |n: u32| n < 240;
    let begin = Instant::now();
    let outcomes = send(&mut socket, 0..250, fails);
    assert!(begin.elapsed() < socket.timeout(), "there is nothing to wait for");
    let failed = outcomes.iter().filter(|outcome| matches!(outcome, Some(Err(_)))).count();
    assert!((1..240).contains(&failed), "{failed}");
    assert!(outcomes.iter().all(|outcome| *outcome != Some(Ok(()))));
    // They were still carried out.
    let there = blackholes(&mut socket);
    assert_eq!(there, (240..250).chain([300]).collect::<Vec<_>>());
    // The socket still works.
    socket.request(&one(|buffer| blackhole(buffer, 301, false))).unwrap();
}

pub(crate) fn a_batch_larger_than_the_send_buffer_goes_in_parts() {
    fresh_netns();
    let mut socket = socket();
    rustix::net::sockopt::set_socket_send_buffer_size(&socket, 2048).unwrap();
    let outcomes = send(&mut socket, 0..600, |n| n % 3 == 0);
    assert_eq!(outcomes.len(), 600);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == Some(Ok(()))).count(), 400);
    let large = one(|buffer| {
        route(buffer, RTM_NEWROUTE, (0x0b00_0000, 8), BLACKHOLE, |message| {
            message.attr(1000, &[0; 60_000]);
        })
    });
    assert_eq!(socket.request(&large).unwrap_err().kind(), ErrorKind::TooLarge);
}

pub(crate) fn a_dump_of_many_datagrams_is_complete() {
    fresh_netns();
    let mut socket = socket();
    assert!(send(&mut socket, 0..5000, |_| false).iter().all(|outcome| *outcome == Some(Ok(()))));
    assert_eq!(blackholes(&mut socket), (0..5000).collect::<Vec<_>>());
}

/// Adds a route over this many next hops: a row of about 16 bytes for each.
fn legs(socket: &mut Socket, count: u32) -> Result<(), trueup_netlink::Error> {
    let up = i32::try_from(index_of("up0")).unwrap();
    let message = one(|buffer| {
        route(buffer, RTM_NEWROUTE, (0x0a02_0000, 16), UNICAST, |message| {
            let nest = message.nest_unflagged(RTA_MULTIPATH);
            for _ in 0..count {
                let at = message.position();
                message.raw(&[0; 4]);
                message.raw(&up.to_ne_bytes());
                message.attr(RTA_GATEWAY, &[10, 200, 0, 9]);
                message.patch_u16(at);
            }
            message.end_nest(nest);
        })
    });
    socket.request(&message)
}

pub(crate) fn the_parts_of_a_dump_are_reported_and_as_large_as_asked_for() {
    fresh_netns();
    send(&mut socket(), 0..5000, |_| false);
    let request = fixed(RTM_GETROUTE, &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    for size in [12 * 1024, 20 * 1024, 64 * 1024] {
        let mut socket = Socket::open_with_parts(&Namespace::current(), size).unwrap();
        let (mut rows, mut parts) = (0, Vec::new());
        let dump = socket.dump(&request, |step| match step {
            DumpStep::Begin => assert_eq!(rows, 0),
            DumpStep::Message(_) => rows += 1,
            DumpStep::Part(length) => parts.push(length),
        });
        assert!(dump.unwrap().complete);
        assert_eq!(rows, 5000);
        let most = size.min(32 * 1024);
        // The last part has the rest.
        let (_, full) = parts.split_last().unwrap();
        assert!(full.len() > 5, "{parts:?}");
        let fits = |length: &usize| (most - 512..=most).contains(length);
        assert!(full.iter().all(fits), "{size}: {parts:?}");
    }
}

pub(crate) fn a_filter_keeps_the_queue_empty_and_can_be_taken_away() {
    use trueup_netlink::filter::{Instruction, swapped_half};
    fresh_netns();
    let mut events = Multicast::open(&Namespace::current(), &[Group::IPV4_ROUTE]).unwrap();
    events.set_receive_buffer(1).unwrap();
    // Passes only deletes.
    let program = [
        Instruction::half(4),
        Instruction::equal(swapped_half(RTM_DELROUTE), 1, 0),
        Instruction::drop(),
        Instruction::pass(),
    ];
    events.set_filter(&program).unwrap();
    let mut socket = socket();
    send(&mut socket, 0..1000, |_| false);
    assert_eq!(events.receive(Duration::ZERO, |_| {}).unwrap(), 0);
    let remove = one(|buffer| route(buffer, RTM_DELROUTE, (0x0a00_0006, 32), BLACKHOLE, |_| {}));
    socket.request(&remove).unwrap();
    let mut kinds = Vec::new();
    let note = |message: trueup_netlink::wire::Message<'_>| kinds.push(message.header.kind);
    assert_eq!(events.receive(Duration::ZERO, note).unwrap(), 1);
    assert_eq!(kinds, [RTM_DELROUTE]);

    // An invalid program changes nothing. An empty one passes everything, and is no error even
    // without a filter.
    let endless = [Instruction::half(4)];
    let error = events.set_filter(&endless).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EINVAL));
    send(&mut socket, 1000..1001, |_| false);
    assert_eq!(events.receive(Duration::ZERO, |_| {}).unwrap(), 0);
    for _ in 0..2 {
        events.set_filter(&[]).unwrap();
        send(&mut socket, 2000..2001, |_| false);
        send(&mut socket, 2000..2001, |_| false);
        assert_eq!(events.receive(Duration::ZERO, |_| {}).unwrap(), 1);
        let remove =
            one(|buffer| route(buffer, RTM_DELROUTE, (0x0a00_07d1, 32), BLACKHOLE, |_| {}));
        socket.request(&remove).unwrap();
        assert_eq!(events.receive(Duration::ZERO, |_| {}).unwrap(), 1);
    }
}

// fact 61
pub(crate) fn a_row_larger_than_a_page_does_not_empty_the_dump() {
    uplinks(1);
    legs(&mut socket(), 249).unwrap();
    // On a socket that has received nothing yet, like any new one.
    assert_eq!(blackholes(&mut socket()).len(), 1);
}

// fact 62
pub(crate) fn a_row_larger_than_any_dump_ends_it_without_an_error() {
    uplinks(1);
    legs(&mut socket(), 2100).unwrap();
    let there = ip_fails(&["route", "add", "10.2.0.0/16", "dev", "up0"]);
    assert!(there.contains("File exists"), "{there}");
    let request = fixed(RTM_GETROUTE, &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let mut rows = 0;
    let dump = socket().dump(&request, |step| {
        rows += usize::from(matches!(step, DumpStep::Message(_)));
    });
    match dump {
        // So an empty dump does not show it. codec::route refuses to write routes that would cause
        // it.
        Ok(dump) => assert_eq!((dump.complete, rows), (true, 0)),
        // Linux 6.1 reports it.
        Err(error) => assert_eq!(error.errno(), Some(libc::EMSGSIZE)),
    }
}

pub(crate) fn a_strict_dump_is_filtered_and_says_so() {
    fresh_netns();
    let mut socket = socket();
    assert!(socket.strict());
    for table in [100_u32, 101] {
        let message = one(|buffer| {
            route(buffer, RTM_NEWROUTE, (0x0a00_0000, 8), BLACKHOLE, |message| {
                message.attr_u32(RTA_TABLE, table);
            })
        });
        socket.request(&message).unwrap();
    }
    let table = |table: u32| {
        one(|buffer| {
            let mut message = MessageWriter::begin(buffer, RTM_GETROUTE, 0);
            message.body(&[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
            message.attr_u32(RTA_TABLE, table);
            message.finish()
        })
    };
    let (count, dumped) = dump(&mut socket, &table(100));
    assert_eq!((count, dumped.complete, dumped.filtered, dumped.attempts), (1, true, true, 1));
    let (count, dumped) = dump(&mut socket, &fixed(RTM_GETLINK, &[0; 16]));
    assert!(count > 0 && dumped.complete && !dumped.filtered, "{dumped:?}");

    // A missing table, and a header that strict checking refuses.
    let error = socket.dump(&table(4242), |_| {}).unwrap_err();
    assert_eq!(error.errno(), Some(libc::ENOENT), "{error}");
    let tos = fixed(RTM_GETROUTE, &[2, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0]);
    let error = socket.dump(&tos, |_| {}).unwrap_err();
    assert_eq!(error.errno(), Some(libc::EINVAL));
    assert!(error.kernel_message().is_some(), "{error}");
}

pub(crate) fn a_dump_broken_off_does_not_block_the_next() {
    fresh_netns();
    let mut socket = socket();
    send(&mut socket, 0..5000, |_| false);
    let request = fixed(RTM_GETROUTE, &[2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    let broken = catch_unwind(AssertUnwindSafe(|| {
        socket.dump(&request, |step| {
            if !matches!(step, DumpStep::Begin) {
                // Like a panic, but without a message.
                resume_unwind(Box::new("enough"));
            }
        })
    }));
    assert!(broken.is_err());
    let (count, dumped) = dump(&mut socket, &request);
    assert!(dumped.complete && count >= 5000);
    assert_eq!(dumped.attempts, 2);
}

pub(crate) fn an_interrupted_dump_is_repeated_and_then_reported_as_incomplete() {
    fresh_netns();
    let mut socket = socket();
    let address = |n: u16, kind: u16| {
        one(|buffer| {
            let mut message = MessageWriter::begin(buffer, kind, create(kind));
            message.body(&[2, 32, 0, 0, 1, 0, 0, 0]);
            let [high, low] = n.to_be_bytes();
            message.attr(2, &[10, 0, high, low]);
            message.finish()
        })
    };
    let mut batch = Batch::new();
    for n in 0..2000 {
        let added = batch.push(|buffer| {
            buffer.extend_from_slice(&address(n, RTM_NEWADDR));
            Ok::<_, EncodeError>(())
        });
        assert_eq!(added, Ok(true));
        if batch.is_full() {
            socket.send_batch(&mut batch).unwrap();
        }
    }
    let request = fixed(RTM_GETADDR, &[2, 0, 0, 0, 0, 0, 0, 0]);
    let stop = AtomicBool::new(false);
    let mut incomplete = None;
    let mut repeated = false;
    let until = Instant::now() + Duration::from_secs(20);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut socket = self::socket();
            while !stop.load(Ordering::Relaxed) && Instant::now() < until {
                socket.request(&address(9999, RTM_NEWADDR)).unwrap();
                socket.request(&address(9999, RTM_NEWADDR + 1)).unwrap();
            }
        });
        while Instant::now() < until && !(repeated && incomplete.is_some()) {
            let (count, dumped) = dump(&mut socket, &request);
            repeated |= dumped.attempts > 1;
            if !dumped.complete {
                incomplete = Some((count, dumped));
            }
        }
        stop.store(true, Ordering::Relaxed);
    });
    let (count, incomplete) = incomplete.expect("no dump was interrupted to the last");
    // The last attempt's rows are passed, and none of the earlier ones'.
    assert!((1900..=2001).contains(&count), "{count}");
    assert_eq!(incomplete.attempts, DUMP_ATTEMPTS);
    assert_eq!(incomplete.whole().unwrap_err().kind(), ErrorKind::Interrupted);
    let (count, dumped) = dump(&mut socket, &request);
    assert_eq!((count, dumped.complete), (2000, true));
}

struct Sleeper(Child);

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a process in a fresh network namespace. Returns the namespace's cookie and descriptor
/// too.
fn elsewhere() -> (Sleeper, u64, OwnedFd) {
    std::thread::spawn(|| {
        fresh_netns();
        let child = Command::new("sleep").arg("600").spawn().unwrap();
        let fd = std::fs::File::open("/proc/thread-self/ns/net").unwrap();
        (Sleeper(child), socket().netns_cookie().unwrap(), fd.into())
    })
    .join()
    .unwrap()
}

pub(crate) fn a_namespace_is_found_by_pid_path_and_descriptor() {
    fresh_netns();
    let own = socket().netns_cookie().unwrap();
    let (process, cookie, fd) = elsewhere();
    assert_ne!(own, cookie);
    let pid = process.0.id();
    let current = Namespace::current().open().unwrap();
    let current = Socket::open(&current).unwrap();
    assert_eq!(current.netns_cookie().unwrap(), own, "the thread's, not the process's");
    let by_pid: Namespace = format!("pid:{pid}").parse().unwrap();
    let by_path: Namespace = format!("/proc/{pid}/ns/net").parse().unwrap();
    let opened = by_pid.open().unwrap();
    for namespace in [by_pid.clone(), by_path, Namespace::from_fd(fd), opened.clone()] {
        let socket = Socket::open(&namespace).unwrap();
        assert_eq!(socket.netns_cookie().unwrap(), cookie, "{namespace}");
        let inside = namespace.enter(|| self::socket().netns_cookie().unwrap()).unwrap();
        assert_eq!(inside, cookie, "{namespace}");
        // The caller was not moved.
        assert_eq!(self::socket().netns_cookie().unwrap(), own);
    }
    drop(process);
    let error = by_pid.open().unwrap_err();
    assert!(error.to_string().contains("has ended"), "{error}");
    assert!(error.is_gone(), "{error}");
    let error = Namespace::pid(pid).open().unwrap_err();
    assert!(error.to_string().contains("there is no process"), "{error}");
    // Opened before the process ended, it stays.
    assert_eq!(Socket::open(&opened).unwrap().netns_cookie().unwrap(), cookie);
}

pub(crate) fn a_process_in_our_own_namespace_is_refused() {
    fresh_netns();
    let child = Sleeper(Command::new("sleep").arg("600").spawn().unwrap());
    let pid = child.0.id();
    for name in [format!("pid:{pid}"), format!("/proc/{pid}/ns/net")] {
        let namespace: Namespace = name.parse().unwrap();
        for error in [
            namespace.open().map(drop).unwrap_err(),
            namespace.id().map(drop).unwrap_err(),
            namespace.enter(|| ()).unwrap_err(),
            Socket::open(&namespace).map(drop).unwrap_err(),
        ] {
            assert!(error.to_string().contains("our own"), "{name}: {error}");
        }
        // For a thread in another namespace it is a different one.
        std::thread::scope(|scope| {
            let elsewhere = scope.spawn(|| {
                fresh_netns();
                namespace.open().map(drop)
            });
            elsewhere.join().unwrap().unwrap();
        });
    }
    // A thread's number has no process.
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    if thread.unsigned_abs() != std::process::id() {
        let error = Namespace::pid(thread.unsigned_abs()).open().unwrap_err();
        assert!(error.to_string().contains("is a thread"), "{error}");
    }
}

pub(crate) fn a_namespace_is_found_by_the_name_ip_gave_it() {
    let _blue = named_netns("blue");
    let blue: Namespace = "blue".parse().unwrap();
    let by_name = Socket::open(&blue).unwrap().netns_cookie().unwrap();
    let by_path = Socket::open(&Namespace::path("/run/netns/blue")).unwrap();
    assert_eq!(by_name, by_path.netns_cookie().unwrap());
    assert_ne!(by_name, socket().netns_cookie().unwrap());
    // The remains of a namespace whose mount is gone.
    std::fs::write("/run/netns/stale", "").unwrap();
    let error = Socket::open(&"stale".parse().unwrap()).unwrap_err();
    assert_eq!(error.to_string(), "/run/netns/stale is not a network namespace");
}

pub(crate) fn without_privilege_the_error_says_which() {
    fresh_netns();
    let (process, _, fd) = elsewhere();
    let place = format!("/proc/{}/ns/net", process.0.id());
    let named = Namespace::path(&place).open().unwrap();
    let none = CapabilitySets {
        effective: CapabilitySet::empty(),
        permitted: CapabilitySet::empty(),
        inheritable: CapabilitySet::empty(),
    };
    rustix::thread::set_capabilities(None, none).unwrap();
    let error = Socket::open(&Namespace::from_fd(fd)).unwrap_err();
    assert_eq!((error.kind(), error.errno()), (ErrorKind::Namespace, Some(libc::EPERM)));
    let said = error.to_string();
    assert!(said.contains("CAP_SYS_ADMIN") && said.ends_with("run it as root"), "{said}");
    // An open namespace still shows its original name.
    let said = Socket::open(&named).unwrap_err().to_string();
    assert!(said.contains(&place), "{said}");

    let mut socket = socket();
    let error = socket.request(&one(|buffer| blackhole(buffer, 0, false))).unwrap_err();
    assert!(error.is_permission(), "{error}");
    assert_eq!(error.kind(), ErrorKind::Kernel);
    // Reading needs no privilege.
    socket
        .query(&fixed(RTM_GETLINK, &[0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]), |_| ())
        .unwrap();
    // FORCE is refused, and the other call clamps: the reported size is the actual one.
    let obtained = socket.set_receive_buffer(1 << 30).unwrap();
    assert_eq!(obtained, socket.receive_buffer().unwrap());
    assert!(obtained < 1 << 30);
}

pub(crate) fn whether_changes_are_taken_is_asked_without_one() {
    fresh_netns();
    veth_pair("v0", "v1");
    let before = Snapshot::settled();
    let mut opened_with = socket();
    assert_no_changes(|| opened_with.check_privilege().unwrap());

    without_net_admin();
    for (case, mut socket) in [("opened with", opened_with), ("opened without", socket())] {
        let error = socket.check_privilege().unwrap_err();
        assert!(error.is_permission(), "{case}: {error}");
        assert_eq!(error.kind(), ErrorKind::Kernel, "{case}: {error}");
    }
    before.assert_same(&Snapshot::settled());
}

// fact 48
pub(crate) fn events_arrive_with_the_port_of_who_caused_them() {
    fresh_netns();
    let mut events = Multicast::open(&Namespace::current(), &Group::OBJECTS).unwrap();
    events.join(Group::NEXTHOP).unwrap();
    let begin = Instant::now();
    assert_eq!(events.receive(Duration::from_millis(30), |_| {}).unwrap(), 0);
    assert!(begin.elapsed() >= Duration::from_millis(30));

    let mut socket = socket();
    socket.request(&one(|buffer| blackhole(buffer, 5, false))).unwrap();
    let remove = one(|buffer| route(buffer, RTM_DELROUTE, (0x0a00_0006, 32), BLACKHOLE, |_| {}));
    socket.request(&remove).unwrap();
    let mut seen = Vec::new();
    let count = events
        .receive(Duration::from_secs(5), |message| {
            let (_, attrs) = message.split(12).unwrap();
            let table = attrs.find(RTA_TABLE).and_then(read_u32);
            seen.push((message.header.kind, message.header.port, table));
        })
        .unwrap();
    let port = socket.port_id();
    assert_eq!(count, 2);
    assert_eq!(seen, [(RTM_NEWROUTE, port, Some(254)), (RTM_DELROUTE, port, Some(254))]);
    assert_eq!(events.join(Group(9999)).unwrap_err().errno(), Some(libc::EINVAL));
}

pub(crate) fn an_overrun_of_events_is_reported_once() {
    fresh_netns();
    let mut events = Multicast::open(&Namespace::current(), &[Group::IPV4_ROUTE]).unwrap();
    events.set_receive_buffer(5000).unwrap();
    let mut socket = socket();
    assert!(send(&mut socket, 0..1000, |_| false).iter().all(|outcome| *outcome == Some(Ok(()))));
    let error = events.receive(Duration::from_secs(5), |_| {}).unwrap_err();
    assert_eq!((error.kind(), error.is_loss()), (ErrorKind::Overrun, true));
    let left = events.receive(Duration::ZERO, |_| {}).unwrap();
    assert!((1..1000).contains(&left), "{left}");
    socket.request(&one(|buffer| blackhole(buffer, 2000, false))).unwrap();
    assert_eq!(events.receive(Duration::from_secs(5), |_| {}).unwrap(), 1);
}

pub(crate) fn wordy_answers_fit_the_queue_too() {
    fresh_netns();
    let mut socket = socket();
    let mut longest = 0;
    // A device index of two bytes; a nexthop id beside a gateway: offset, policy, a long message.
    let encoders: [&dyn Fn(&mut MessageWriter<'_>); 3] = [
        &|message| message.attr_u16(RTA_OIF, 1),
        &|message| {
            message.attr_u32(30, 7);
            message.attr_u32(RTA_OIF, 1);
        },
        &|message| message.attr(RTA_GATEWAY, &[192, 0, 2, 1]),
    ];
    for attrs in encoders {
        let mut batch = Batch::new();
        while batch
            .push(|buffer| route(buffer, RTM_NEWROUTE, (0x0a00_0000, 8), UNICAST, attrs))
            .unwrap()
        {}
        for outcome in socket.send_batch(&mut batch).unwrap() {
            let Some(Err(error)) = outcome else { panic!("{outcome:?}") };
            longest = longest.max(error.message().unwrap_or("").len());
        }
    }
    assert!(longest > 40, "{longest}");
}

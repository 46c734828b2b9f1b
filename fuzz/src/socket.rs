//! A socket with a kernel that sends anything: dumps, events, acknowledgements. The permitted
//! conclusions are computed a second time here, as simply as possible. For whole passes see
//! [`crate::pass`].

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use trueup_net::{
    DEFAULT_PROTOCOL, Family, Kinds, NextHops, ObjectKind as _, OfKind, Prefix, Route, Rule,
    RuleAction, each_kind,
};
use trueup_netlink::codec::{self, KindCodec};
use trueup_netlink::wire::{
    Attrs, Header, Message, NLM_F_ACK, NLM_F_DUMP_INTR, NLMSG_DONE, NLMSG_ERROR, NLMSG_MIN_TYPE,
    NLMSG_NOOP,
};
use trueup_netlink::{Batch, ErrorKind, Group, KernelError, Multicast, Namespace, Socket};
use trueup_observe::{Incomplete, Monitor, Observer, ReadScope, WatchScope};

use crate::script::{self, Raw, messages};

/// A stream of messages as the kernel's answer to one request, each in a separate datagram or all
/// in one. Sequence number 0 in the stream stands for the request's.
///
/// The request succeeded if the kernel says so, and otherwise failed with the kernel's errno; text
/// and offset are from the first answer.
pub fn ack(data: &[u8]) {
    let Some((&how, stream)) = data.split_first() else {
        return;
    };
    let request = request(how >> 1);
    let apart = how & 1 == 1;
    let given: Arc<[u8]> = stream.into();
    let namespace = script::namespace(move |request: &Header, _: &[u8]| {
        let (messages, rest) = messages(&given);
        let one = |message: &Raw<'_>| message.answering(request.sequence);
        let mut datagrams: Vec<_> = messages.iter().map(one).collect();
        datagrams.push(rest.to_vec());
        if apart { datagrams } else { vec![datagrams.concat()] }
    });
    let mut socket = quick(&namespace);
    let result = socket.request(&request);

    let (all, _) = messages(stream);
    let first = all
        .iter()
        .find(|message| message.header.kind == NLMSG_ERROR && message.header.sequence == 0);
    let errno = first.map(|message| errno(message.body));
    match (result, errno) {
        (Ok(()), errno) => assert_eq!(errno, Some(Some(0)), "an answer that is no success"),
        (Err(error), Some(Some(errno))) if error.kind() == ErrorKind::Kernel => {
            assert_eq!(error.errno(), Some(errno));
            assert_ne!(errno, 0);
            read(error.kernel().expect("the kernel's"), &request);
            assert!(error.to_string().contains(&errno.to_string()));
        }
        // The answer ended before, was missing, or has no errno.
        (Err(error), errno) => {
            let kinds = [ErrorKind::Malformed, ErrorKind::Timeout];
            assert!(kinds.contains(&error.kind()), "{error}, {errno:?}");
        }
    }
}

/// Returns the errno of an answer as a positive number, if it has one.
fn errno(body: &[u8]) -> Option<i32> {
    let bytes = body.first_chunk::<4>()?;
    Some(i32::from_ne_bytes(*bytes).saturating_abs())
}

/// Checks that the attribute to which the kernel objects is one of the request.
fn read(error: &KernelError, request: &[u8]) {
    assert!(error.message().is_none_or(|words| !words.contains('\0')));
    let Some(attribute) = error.attribute().map(|(_, path)| path) else {
        return;
    };
    let mut level = &request[16 + 12..];
    for (depth, kind) in attribute.iter().enumerate() {
        match Attrs::new(level).find(*kind) {
            Some(payload) => level = payload,
            // An array of structs can look like attributes that the request does not have.
            None => assert!(depth > 0, "{attribute:?}"),
        }
    }
}

/// Returns a request with nested attributes.
fn request(which: u8) -> Vec<u8> {
    let mut buffer = Vec::new();
    let prefix = |text: &str| text.parse::<Prefix>().expect("a prefix");
    let mut route = Route::new(prefix("10.1.2.0/24"), NextHops::None);
    route.protocol = DEFAULT_PROTOCOL;
    route.scope = Some(trueup_net::Scope::UNIVERSE);
    route.kind = trueup_net::RouteType::Blackhole;
    route.metrics.set(trueup_net::Metric::Mtu, 1400);
    let encoded = match which % 4 {
        0 => codec::create(&mut buffer, &route, &codec::existing),
        1 => codec::delete(&mut buffer, &route, &codec::existing),
        2 => {
            let hop = |host| trueup_net::NextHop::default().with_via([10, 0, 0, host].into());
            route.kind = trueup_net::RouteType::Unicast;
            route.nexthops = NextHops::Many(vec![hop(1), hop(2)]);
            codec::create(&mut buffer, &route, &codec::existing)
        }
        _ => {
            let mut rule = Rule::new(Family::Inet, 1000, RuleAction::Lookup(100));
            rule.protocol = DEFAULT_PROTOCOL;
            codec::create(&mut buffer, &rule, &codec::existing)
        }
    };
    encoded.expect("it can be encoded");
    buffer
}

/// A stream of messages as the kernel's answers to a batch, in one datagram. The sequence number in
/// the stream is the position in the batch.
///
/// Every message has exactly one outcome, a lost answer is never a success, and echoes reach a
/// caller that asked for them.
pub fn batch(data: &[u8]) {
    let Some((&how, stream)) = data.split_first() else {
        return;
    };
    let count = usize::from(how % 8) + 1;
    let given: Arc<[u8]> = stream.into();
    let namespace = script::namespace(move |request: &Header, _: &[u8]| {
        // The kernel executes all requests before any answer is read, and the last asks for one.
        if request.flags & NLM_F_ACK == 0 {
            return Vec::new();
        }
        let first = request.sequence.wrapping_sub(count as u32 - 1);
        let (messages, rest) = messages(&given);
        let number =
            |message: &Raw<'_>| message.numbered(first.wrapping_add(message.header.sequence));
        let datagram: Vec<u8> = messages.iter().flat_map(number).collect();
        vec![[&datagram, rest].concat()]
    });
    let mut socket = quick(&namespace);
    let mut batch = Batch::new();
    let request = request(how >> 3);
    for _ in 0..count {
        let pushed = batch.push(|buffer| {
            buffer.extend_from_slice(&request);
            Ok::<_, ()>(())
        });
        assert_eq!(pushed, Ok(true));
    }
    let (all, rest) = messages(stream);
    let echoed = how & 0x20 != 0;
    let mut echoes = Vec::new();
    let outcomes = if echoed {
        socket.send_batch_echoed(&mut batch, |index, message| {
            echoes.push((index, message.header.kind, message.body.to_vec()));
        })
    } else {
        socket.send_batch(&mut batch)
    }
    .expect("it could be sent");
    assert_eq!(outcomes.len(), count, "one outcome for each");
    let news = all.iter().filter(|message| {
        echoed
            && message.header.kind >= NLMSG_MIN_TYPE
            && (message.header.sequence as usize) < count
    });
    let news = news.map(|message| {
        let header = message.header;
        (header.sequence as usize, header.kind, message.body.to_vec())
    });
    assert_eq!(echoes, news.collect::<Vec<_>>(), "all echoes, and no others");

    let answers = |index: usize| {
        all.iter()
            .filter(move |message| message.header.sequence == index as u32)
            .filter(|message| message.header.kind == NLMSG_ERROR)
            .map(|message| errno(message.body))
    };
    for (index, outcome) in outcomes.iter().enumerate() {
        match outcome {
            Some(Ok(())) if answers(index).next().is_none() => {
                assert!(answers(count - 1).flatten().next().is_some(), "{index}: silence");
                assert!(rest.is_empty(), "{index}: silence after a loss");
            }
            Some(Ok(())) => assert!(answers(index).any(|errno| errno == Some(0)), "{index}"),
            Some(Err(error)) => {
                assert!(answers(index).any(|errno| errno == Some(error.errno())), "{index}");
                read(error, &request);
            }
            None => {}
        }
    }
}

/// A datagram of the kernel's events. All whole messages arrive, an incomplete one is reported, and
/// each is decoded or refused. An unreadable event makes everything dirty.
pub fn event(data: &[u8]) {
    let given: Arc<[u8]> = data.into();
    let namespace = script::namespace(move |_: &Header, _: &[u8]| vec![given.to_vec()]);
    let mut multicast = Multicast::open(&namespace, &[Group::LINK]).expect("a peer that answers");
    let mut lost = false;
    let mut seen = Vec::new();
    let message = multicast.receive(Duration::ZERO, |message| {
        seen.push((message.header, message.body.to_vec()));
    });
    let (all, rest) = messages(data);
    assert_eq!(seen.len(), all.len());
    for ((header, body), raw) in seen.iter().zip(&all) {
        assert!(*header == raw.header && body == raw.body);
        let target: crate::Target = match header.kind & !1 {
            codec::link::NEW => crate::link,
            codec::address::NEW => crate::address,
            codec::route::NEW => crate::route,
            codec::neighbour::NEW => crate::neighbour,
            codec::rule::NEW => crate::rule,
            _ => continue,
        };
        target(body);
        let header = *header;
        lost |= codec::decode(&Message { header, body }).is_err();
    }
    lost |= !rest.is_empty();
    for (scope, in_everything) in [
        (WatchScope::everything(), true),
        (WatchScope::new(Kinds::ALL, DEFAULT_PROTOCOL), true),
        (WatchScope::new(Kinds::NONE, DEFAULT_PROTOCOL), false),
    ] {
        let mut monitor = Monitor::open(&namespace).expect("a peer that announces");
        monitor.set_scope(scope).expect("a peer without filters");
        let drained = monitor.drain().expect("it can be read");
        let dirty = monitor.take_dirty();
        assert_eq!(drained.is_dirty, !dirty.is_empty());
        assert!(!(lost && in_everything) || dirty.everything);
    }
    match message {
        Ok(count) => assert!(count == all.len() && rest.is_empty()),
        Err(error) => assert!(error.kind() == ErrorKind::Malformed && !rest.is_empty(), "{error}"),
    }
}

/// A stream of messages as the kernel's content. Each dump answers with the messages of its kind,
/// and all messages of no kind, such as an early end or an error.
///
/// If a result is called complete, every row was read, and none was lost on the way.
pub fn dump(data: &[u8]) {
    let given: Arc<[u8]> = data.into();
    let namespace =
        script::namespace(move |request: &Header, body: &[u8]| answer_dump(&given, request, body));
    let whole = || watchful(&namespace).snapshot(&ReadScope::whole());
    let Ok(snapshot) = whole() else {
        return;
    };
    let observed = &snapshot.observed;
    let incomplete: BTreeSet<_> = snapshot.incomplete.iter().map(Incomplete::kind).collect();
    each_kind!(K => {
        assert_ne!(observed.complete.contains(K::KIND), incomplete.contains(&K::KIND));
        if !incomplete.contains(&K::KIND) {
            let expected = held::<K>(data).expect("complete, so there is nothing that was lost");
            let found = OfKind::<K>::of_kind(observed).len();
            assert_eq!(found, expected, "{}", K::NAME);
        }
    });
    assert_eq!(whole().expect("as before"), snapshot);
}

/// Returns the number of a kind's objects in a stream; `None` if any was lost.
fn held<K: KindCodec>(stream: &[u8]) -> Option<usize> {
    let mut count = 0;
    for query in K::dumps(&ReadScope::whole(), true) {
        let (requests, _) = messages(&query.request);
        let Raw { header, body } = &requests[0];
        'dump: for datagram in answer_dump(stream, header, body) {
            let (rows, rest) = messages(&datagram);
            for row in rows {
                if row.header.sequence != header.sequence {
                    // Left over from another request.
                    continue;
                }
                if row.header.flags & NLM_F_DUMP_INTR != 0 {
                    return None;
                }
                match row.header.kind {
                    NLMSG_NOOP => {}
                    NLMSG_DONE => {
                        // The return value of the kernel's dump function: only negative values are
                        // errors.
                        let bytes = row.body.first_chunk::<4>()?;
                        match i32::from_ne_bytes(*bytes) {
                            0.. => break 'dump,
                            _ => return None,
                        }
                    }
                    NLMSG_ERROR if errno(row.body) == Some(0) => break 'dump,
                    found if found == K::NEW => {
                        count += usize::from(K::decode(row.body).ok()?.is_some());
                    }
                    _ => return None,
                }
            }
            assert!(rest.is_empty(), "it breaks off, and was no error");
        }
    }
    Some(count)
}

/// Returns the answer to a dump request by a peer that holds a stream's messages: the rows in the
/// first datagram, the end in the second.
pub(crate) fn answer_dump(stream: &[u8], request: &Header, asked: &[u8]) -> Vec<Vec<u8>> {
    let mut row_types = Vec::new();
    each_kind!(K => row_types.push(K::NEW));
    const FAMILIES: [u8; 2] = [2, 10];
    const NTF_PROXY: u8 = 8;
    let new = request.kind.wrapping_sub(2);
    let (all, rest) = messages(stream);
    let mut rows = Vec::new();
    for message in all {
        let byte = |at: usize| message.body.get(at).copied().unwrap_or(0);
        let is_other_family = FAMILIES.contains(&byte(0)) && asked.first() != Some(&byte(0));
        let proxy = |flags: u8| flags & NTF_PROXY;
        let is_elsewhere = match message.header.kind {
            kind if !row_types.contains(&kind) => false,
            kind if kind != new => true,
            codec::link::NEW => false,
            codec::neighbour::NEW if proxy(byte(10)) != proxy(asked[10]) => true,
            _ => is_other_family,
        };
        if !is_elsewhere {
            rows.extend(message.answering(request.sequence));
        }
    }
    rows.extend_from_slice(rest);
    let header = Header { length: 0, kind: NLMSG_DONE, flags: 0, sequence: 0, port: 0 };
    let body = &[0; 4];
    let done = Raw { header, body }.answering(request.sequence);
    vec![rows, done]
}

fn watchful(namespace: &Namespace) -> Observer {
    let mut observer = Observer::open(namespace).expect("a peer that answers");
    observer.socket().set_timeout(Duration::ZERO);
    observer
}

fn quick(namespace: &Namespace) -> Socket {
    let mut socket = Socket::open(namespace).expect("a peer that answers");
    // The peer sends everything at once.
    socket.set_timeout(Duration::ZERO);
    socket
}

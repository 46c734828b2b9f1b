//! Tests of the assembly of responses. No etcd is needed.

#![allow(clippy::unwrap_used)]

use etcd_client::proto::{PbKeyValue, PbResponseHeader};

use super::*;

fn put(key: &str, at: i64) -> PbEvent {
    let kv = PbKeyValue {
        key: key.into(),
        value: b"v".to_vec(),
        create_revision: at,
        mod_revision: at,
        ..Default::default()
    };
    PbEvent { kv: Some(kv), ..Default::default() }
}

fn assembly(after: Revision, is_ordered: bool) -> Assembly {
    Assembly::new(after, is_ordered, Limits::default())
}

/// Takes a response at the current time.
fn take(assembly: &mut Assembly, response: PbWatchResponse) -> Result<Vec<StoreEvent>, Failure> {
    assembly.take(response, Instant::now())
}

fn response(events: Vec<PbEvent>, fragment: bool, newest: i64) -> PbWatchResponse {
    let header = PbResponseHeader { revision: newest, ..Default::default() };
    PbWatchResponse { header: Some(header), events, fragment, ..Default::default() }
}

/// Returns the revisions of the events, each with its keys.
fn shown(events: &[StoreEvent]) -> Vec<String> {
    let change = |(key, now): (&Vec<u8>, &Option<Entry>)| {
        let sign = if now.is_some() { "" } else { "-" };
        format!("{sign}{}", String::from_utf8_lossy(key))
    };
    let event = |event: &StoreEvent| match event {
        StoreEvent::Changes { revision, changes } => {
            let changes: Vec<_> = changes.iter().map(change).collect();
            format!("{revision}: {}", changes.join(" "))
        }
        StoreEvent::Progress(revision) => format!("progress {revision}"),
    };
    events.iter().map(event).collect()
}

#[test]
fn a_revision_in_parts_is_one_event() {
    let mut assembly = assembly(Revision(4), true);
    let first = take(&mut assembly, response(vec![put("a", 5), put("d", 6)], true, 7));
    // More changes of the newest revision may come, but none of the others.
    assert_eq!(shown(&first.unwrap()), ["5: a"]);
    assert_eq!(take(&mut assembly, response(vec![], true, 7)).unwrap(), []);
    let second = take(&mut assembly, response(vec![put("c", 6), put("b", 7)], false, 7));
    assert_eq!(shown(&second.unwrap()), ["6: c d", "7: b"]);
}

#[test]
fn progress_moves_forward_only_and_not_while_parts_are_missing() {
    let mut assembly = assembly(Revision(4), true);
    let progress = take(&mut assembly, response(vec![], false, 9)).unwrap();
    assert_eq!(shown(&progress), ["progress 9"]);
    assert_eq!(take(&mut assembly, response(vec![], false, 8)).unwrap(), []);
    let events = take(&mut assembly, response(vec![put("b", 10)], false, 10));
    assert_eq!(shown(&events.unwrap()), ["10: b"]);
    let part = take(&mut assembly, response(vec![put("c", 11)], true, 12));
    assert_eq!(part.unwrap(), []);
    // An answer in between does not affect the parts.
    let answer = PbWatchResponse { watch_id: ALL_WATCHES, ..response(vec![], false, 12) };
    assert_eq!(take(&mut assembly, answer).unwrap(), []);
    let rest = take(&mut assembly, response(vec![], false, 12)).unwrap();
    assert_eq!(shown(&rest), ["11: c"]);
}

#[test]
fn a_cancelled_watch_says_why() {
    let mut assembly = assembly(Revision(4), true);
    let compacted = PbWatchResponse { canceled: true, compact_revision: 9, ..Default::default() };
    assert_eq!(take(&mut assembly, compacted).unwrap_err().kind, ErrorKind::Compacted);
    for (reason, kind) in [
        ("etcdserver: permission denied", ErrorKind::Denied),
        ("etcdserver: no leader", ErrorKind::Unavailable),
        ("of another kind", ErrorKind::Unavailable),
    ] {
        let response = PbWatchResponse {
            canceled: true,
            cancel_reason: reason.to_owned(),
            ..Default::default()
        };
        let failure = take(&mut assembly, response).unwrap_err();
        assert_eq!(failure.kind, kind);
        assert!(failure.message.contains(reason));
    }
}

#[test]
fn what_no_etcd_sends_is_an_error_and_no_panic() {
    let event = |r#type, at| PbEvent {
        r#type,
        kv: Some(PbKeyValue { mod_revision: at, ..Default::default() }),
        ..Default::default()
    };
    for events in [vec![event(7, 5)], vec![event(0, -1)], vec![PbEvent::default()]] {
        let mut assembly = assembly(Revision(4), true);
        let failure = take(&mut assembly, response(events, false, 5)).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Store);
    }
    let mut assembly = assembly(Revision(4), true);
    assert!(take(&mut assembly, response(vec![], false, -1)).is_err());
}

#[test]
fn an_answer_that_may_have_overtaken_changes_is_believed_later() {
    let answer =
        |newest| PbWatchResponse { watch_id: ALL_WATCHES, ..response(vec![], false, newest) };
    let mut assembly = assembly(Revision(4), false);
    let begun = Instant::now();
    let after = |times| begun + times * QUIET;
    assert_eq!(assembly.take(answer(9), begun).unwrap(), []);
    assert_eq!(assembly.take(answer(10), begun + QUIET / 2).unwrap(), []);
    // A change came since, so the time begins again.
    let event = response(vec![put("a", 7)], false, 10);
    let events = assembly.take(event, after(1)).unwrap();
    assert_eq!(shown(&events), ["7: a"]);
    assert_eq!(assembly.take(answer(10), after(1)).unwrap(), []);
    let progress = assembly.take(answer(11), after(2)).unwrap();
    assert_eq!(shown(&progress), ["progress 10"]);
    let progress = assembly.take(answer(11), after(3)).unwrap();
    assert_eq!(shown(&progress), ["progress 11"]);
    // There is nothing new.
    assert_eq!(assembly.take(answer(11), after(4)).unwrap(), []);
    // A late change still ends the watch.
    let late = response(vec![put("a", 11)], false, 12);
    let failure = assembly.take(late, after(5)).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Compacted);
}

/// After such a change the reader lists again. Without an error it would miss the change.
#[test]
fn a_change_that_was_passed_over_ends_the_watch() {
    let begin = || {
        let mut assembly = assembly(Revision(4), true);
        let first = take(&mut assembly, response(vec![put("a", 6)], false, 6));
        assert_eq!(shown(&first.unwrap()), ["6: a"]);
        assembly
    };
    let assert_late = |mut assembly: Assembly, late: PbEvent| {
        let late = response(vec![late, put("z", 20)], false, 20);
        let failure = take(&mut assembly, late).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Compacted);
        assert!(failure.message.contains("revision"), "{}", failure.message);
    };
    // By a later change.
    assert_late(begin(), put("b", 5));
    // By a change of the same revision, which was incomplete.
    assert_late(begin(), put("b", 6));
    // By a note of progress.
    let mut assembly = begin();
    take(&mut assembly, response(vec![], false, 9)).unwrap();
    assert_late(assembly, put("b", 8));
    // By the answer of a member that keeps the order.
    let mut assembly = begin();
    let answer = PbWatchResponse { watch_id: ALL_WATCHES, ..response(vec![], false, 9) };
    let progress = take(&mut assembly, answer).unwrap();
    assert_eq!(shown(&progress), ["progress 9"]);
    assert_late(assembly, put("a", 9));
}

/// etcd before 3.4.25 repeats changes for a member that is given a copy of the leader's data
/// (etcd#15271).
#[test]
fn a_change_that_comes_twice_is_delivered_once() {
    let mut assembly = assembly(Revision(4), true);
    let both = || vec![put("a", 5), put("b", 6), put("c", 6)];
    let first = take(&mut assembly, response(both(), false, 6)).unwrap();
    assert_eq!(shown(&first), ["5: a", "6: b c"]);
    assert_eq!(take(&mut assembly, response(both(), false, 6)).unwrap(), []);
    // Changes from before the start of the watch do not belong to it.
    let again = [vec![put("x", 4)], both(), vec![put("d", 7)]].concat();
    let again = take(&mut assembly, response(again, false, 7)).unwrap();
    assert_eq!(shown(&again), ["7: d"]);
    // A repetition from long ago is no longer recognized.
    let many = (8..=8 + REMEMBERED as i64).map(|at| put("a", at));
    take(&mut assembly, response(many.collect(), false, 2000)).unwrap();
    let failure = take(&mut assembly, response(vec![put("a", 5)], false, 2000)).unwrap_err();
    assert_eq!(failure.kind, ErrorKind::Compacted);
}

#[test]
fn versions_that_tell_progress_in_order() {
    for (version, is_ordered) in [
        ("3.4.23", false),
        ("3.4.25", true),
        ("3.5.7", false),
        ("3.5.16", true),
        ("3.6.0-rc.1", true),
        ("3.3.27", false),
        ("", false),
    ] {
        assert_eq!(tells_progress_in_order(version), is_ordered, "{version}");
    }
}

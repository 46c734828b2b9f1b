//! Tests of how responses are put together. No etcd is needed.

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
    PbEvent {
        kv: Some(kv),
        ..Default::default()
    }
}

/// Takes a response now.
fn take(assembly: &mut Assembly, response: PbWatchResponse) -> Result<Vec<StoreEvent>, Failure> {
    assembly.take(response, Instant::now())
}

fn response(events: Vec<PbEvent>, fragment: bool, newest: i64) -> PbWatchResponse {
    let header = PbResponseHeader {
        revision: newest,
        ..Default::default()
    };
    PbWatchResponse {
        header: Some(header),
        events,
        fragment,
        ..Default::default()
    }
}

/// The revisions of the events, and the keys of each.
fn shown(events: &[StoreEvent]) -> Vec<String> {
    let change = |change: &KeyChange| match change {
        KeyChange::Put(entry) => String::from_utf8_lossy(&entry.key).into_owned(),
        KeyChange::Deleted(key) => format!("-{}", String::from_utf8_lossy(key)),
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
    let mut assembly = Assembly::new(Revision(4), true);
    let first = take(
        &mut assembly,
        response(vec![put("a", 5), put("d", 6)], true, 7),
    );
    assert_eq!(first.unwrap(), []);
    assert_eq!(take(&mut assembly, response(vec![], true, 7)).unwrap(), []);
    let second = take(
        &mut assembly,
        response(vec![put("c", 6), put("b", 7)], false, 7),
    );
    assert_eq!(shown(&second.unwrap()), ["5: a", "6: c d", "7: b"]);
}

#[test]
fn progress_moves_forward_only_and_not_while_parts_are_missing() {
    let mut assembly = Assembly::new(Revision(4), true);
    let progress = take(&mut assembly, response(vec![], false, 9)).unwrap();
    assert_eq!(shown(&progress), ["progress 9"]);
    assert_eq!(take(&mut assembly, response(vec![], false, 8)).unwrap(), []);
    // What was delivered comes no second time.
    let events = take(
        &mut assembly,
        response(vec![put("a", 9), put("b", 10)], false, 10),
    );
    assert_eq!(shown(&events.unwrap()), ["10: b"]);
    assert_eq!(
        take(&mut assembly, response(vec![put("c", 11)], true, 12)).unwrap(),
        []
    );
    let rest = take(&mut assembly, response(vec![], false, 12)).unwrap();
    assert_eq!(shown(&rest), ["11: c"]);
}

#[test]
fn a_cancelled_watch_says_why() {
    let mut assembly = Assembly::new(Revision(4), true);
    let compacted = PbWatchResponse {
        canceled: true,
        compact_revision: 9,
        ..Default::default()
    };
    assert_eq!(
        take(&mut assembly, compacted).unwrap_err().kind,
        ErrorKind::Compacted
    );
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
        kv: Some(PbKeyValue {
            mod_revision: at,
            ..Default::default()
        }),
        ..Default::default()
    };
    for events in [
        vec![event(7, 5)],
        vec![event(0, -1)],
        vec![PbEvent::default()],
    ] {
        let mut assembly = Assembly::new(Revision(4), true);
        let failure = take(&mut assembly, response(events, false, 5)).unwrap_err();
        assert_eq!(failure.kind, ErrorKind::Store);
    }
    let mut assembly = Assembly::new(Revision(4), true);
    assert!(take(&mut assembly, response(vec![], false, -1)).is_err());
}

#[test]
fn an_answer_that_may_have_overtaken_changes_is_believed_later() {
    let answer = |newest| PbWatchResponse {
        watch_id: ALL_WATCHES,
        ..response(vec![], false, newest)
    };
    let mut assembly = Assembly::new(Revision(4), false);
    let begun = Instant::now();
    let after = |times| begun + times * QUIET;
    assert_eq!(assembly.take(answer(9), begun).unwrap(), []);
    assert_eq!(assembly.take(answer(10), begun + QUIET / 2).unwrap(), []);
    // A change since: it begins anew.
    let event = response(vec![put("a", 7)], false, 10);
    let events = assembly.take(event, after(1)).unwrap();
    assert_eq!(shown(&events), ["7: a"]);
    assert_eq!(assembly.take(answer(10), after(1)).unwrap(), []);
    let told = assembly.take(answer(11), after(2)).unwrap();
    assert_eq!(shown(&told), ["progress 10"]);
    let told = assembly.take(answer(11), after(3)).unwrap();
    assert_eq!(shown(&told), ["progress 11"]);
    // Nothing new is told.
    assert_eq!(assembly.take(answer(11), after(4)).unwrap(), []);
    // What comes late all the same is told.
    let late = response(vec![put("a", 11)], false, 12);
    let failure = assembly.take(late, after(5)).unwrap_err();
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

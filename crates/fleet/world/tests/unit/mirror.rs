//! Tests of the size limits of a copy, and of outages. No store is needed.

#![allow(clippy::unwrap_used)]

use super::*;

fn put(key: &str, value: &str, at: u64) -> (Vec<u8>, Option<Entry>) {
    let entry = Entry {
        key: key.into(),
        value: value.into(),
        created: Revision(at),
        modified: Revision(at),
        lease: None,
    };
    (key.into(), Some(entry))
}

/// Makes a copy of two empty prefixes, which the reader has seen.
fn mirror(entries: usize, bytes: usize) -> Mirror {
    let limits = Limits { count: entries, bytes };
    let mirror = Mirror::new(2, limits, Content::Value);
    for feed in 0..2 {
        mirror.list(feed, Revision(1), Entries::new()).unwrap();
    }
    assert!(matches!(next(&mirror), Some(Raw::Ready(..))));
    mirror
}

fn next(mirror: &Mirror) -> Option<Raw> {
    mirror.next(Duration::ZERO).unwrap()
}

#[test]
fn the_limit_is_of_all_prefixes_and_a_revision_is_taken_whole_or_not() {
    let mirror = mirror(3, 100);
    mirror.change(0, Revision(2), [put("a", "1", 2)].into()).unwrap();
    mirror.change(1, Revision(2), [put("b", "1", 2)].into()).unwrap();
    let two = [put("c", "1", 3), put("d", "1", 3)].into();
    let error = mirror.change(0, Revision(3), two).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    let large = "x".repeat(100);
    let error = mirror.change(0, Revision(3), [put("c", &large, 3)].into());
    assert_eq!(error.unwrap_err().kind(), ErrorKind::TooLarge);
    // Replacements and deletions do not make the copy larger.
    let same = [put("a", "2", 4), (b"x".to_vec(), None), put("c", "1", 4)];
    mirror.change(0, Revision(4), same.into()).unwrap();
    let mut seen = Vec::new();
    while let Some(Raw::Change { key, now, .. }) = next(&mirror) {
        seen.push((key, now.map(|it| it.value.clone())));
    }
    let shown = |key: &str, value: &str| (key.into(), Some(value.into()));
    assert_eq!(seen, [shown("b", "1"), shown("a", "2"), shown("c", "1")]);
    let lists = [vec![put("e", "1", 5)], vec![put("e", "1", 5), put("f", "1", 5)]];
    let [one, two] = lists.map(|puts| {
        puts.into_iter().filter_map(|(key, now)| Some((key, Arc::new(now?)))).collect()
    });
    mirror.list(1, Revision(5), one).unwrap();
    let error = mirror.compare(1, Revision(5), two).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::TooLarge);
    assert_eq!(mirror.repaired(), 0);
}

/// Otherwise a writer of new keys would decide the cost of a slow reader.
#[test]
fn keys_that_came_and_went_take_no_room() {
    let mirror = mirror(10, 1000);
    mirror.change(0, Revision(2), [put("a", "1", 2)].into()).unwrap();
    assert!(next(&mirror).is_some());
    for at in 3..1000 {
        let key = format!("{at}");
        mirror.change(0, Revision(at), [put(&key, "1", at)].into()).unwrap();
        let gone = [(key.into_bytes(), None)];
        mirror.change(0, Revision(at), gone.into()).unwrap();
        let state = mirror.lock();
        assert!(state.unseen.is_empty() && state.order.is_empty());
    }
    mirror.change(0, Revision(1000), [(b"a".to_vec(), None)].into()).unwrap();
    assert!(matches!(next(&mirror), Some(Raw::Change { now: None, .. })));
    assert!(next(&mirror).is_none());
    assert_eq!(mirror.lock().feeds[0].bytes, 0);
}

/// Two feeds note the time before they tell it, so the second may have the earlier one.
#[test]
fn an_outage_has_one_start() {
    let mirror = mirror(3, 100);
    let second = SystemTime::now();
    let first = second + Duration::from_secs(1);
    let error = || Error::new(ErrorKind::Unavailable, "");
    mirror.interrupt(0, first, error());
    mirror.interrupt(1, second, error());
    let Some(Raw::Interrupted(since, _)) = next(&mirror) else { panic!("an interruption") };
    mirror.progress(0, Revision(2));
    assert_eq!((since, mirror.cut_off_since()), (first, Some(first)));
    mirror.progress(1, Revision(2));
    assert_eq!(mirror.cut_off_since(), None);
    assert!(matches!(next(&mirror), Some(Raw::Restored(_))));
}

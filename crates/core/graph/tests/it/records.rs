//! The bytes of records.

use std::sync::Arc;

use trueup_graph::{Made, Record};

fn names(names: &[&str]) -> Vec<Arc<str>> {
    names.iter().map(|it| Arc::from(*it)).collect()
}

#[test]
fn a_record_reads_as_it_was_written_and_a_part_of_it_does_not() {
    let lists = [names(&[]), names(&["service"]), names(&["a", "", "ü"])];
    for (intent, after) in lists.iter().zip(lists.iter().rev()) {
        for refreshes in [0, 1, u32::MAX] {
            let made = Made { place: u64::MAX - 7, after: after.clone(), undo: b"undo"[..].into() };
            for made in [None, Some(made)] {
                let record = Record { refreshes, intent: intent.clone(), made };
                let value = record.to_bytes();
                assert_eq!(Record::from_bytes(&value), Some(record.clone()));
                for len in 0..value.len() {
                    assert_ne!(Record::from_bytes(&value[..len]), Some(record.clone()));
                }
            }
        }
    }
}

#[test]
fn what_is_no_record_is_refused_and_one_of_the_first_version_is_read() {
    let wrong: [&[u8]; 5] = [
        &[],
        &[3, 0, 0, 0, 0, 0, 0, 0, 0],
        &[1, 0, 0, 0, 0, 255, 255, 255, 255, 1],
        &[1, 0, 0, 0, 0, 0, 0, 0, 1, 0xff],
        &[2, 0, 0, 0, 0, 255, 255, 255, 255],
    ];
    for value in wrong {
        assert_eq!(Record::from_bytes(value), None, "{value:?}");
    }
    let first = [1, 0, 0, 0, 7, 0, 0, 0, 1, b'a'];
    let record = Record { refreshes: 7, intent: names(&["a"]), made: None };
    assert_eq!(Record::from_bytes(&first), Some(record));
}

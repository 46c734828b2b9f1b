//! Records of created files.

use super::*;

#[test]
fn a_record_has_what_there_was_and_what_there_will_be() {
    let mut created = Created::default();
    created.plan(true, b"of another writer");
    assert_eq!(created.to_record(Path::new("/a")), None);
    created.plan(false, b"one");
    // Another writer created the file first.
    created.finish(b"one");
    assert_eq!(created.to_record(Path::new("/a")), None);
    created.plan(false, b"one");
    created.begin();
    created.finish(b"one");
    created.plan(true, b"two");
    let record = created.to_record(Path::new("/a")).unwrap();
    let (path, read) = Created::from_record(&record).unwrap();
    assert_eq!(path, Path::new("/a"));
    assert!(read.is_unchanged(b"one") && read.is_unchanged(b"two"));
    assert!(!read.is_unchanged(b"of another writer"));
    assert_eq!(read.to_record(&path), Some(record.clone()));
    for len in 0..66 {
        assert!(Created::from_record(&record[..len]).is_none(), "{len}");
    }
}

//! Records of a graph, as a ledger may give them back.

use trueup_graph::{File, Record};

/// What reads as a record is written and read again as the same one. What reads as a file's record
/// is no panic, and no other bytes are taken for one.
pub fn graph(data: &[u8]) {
    if let Some(record) = Record::from_bytes(data) {
        let again = Record::from_bytes(&record.to_bytes());
        assert_eq!(again.as_ref(), Some(&record));
        if let Some(made) = &record.made {
            drop(File::from_record(&made.undo));
        }
    }
    drop(File::from_record(data));
}

//! Records of a graph, as a ledger may return them.

use trueup_graph::{File, Record};

/// If bytes parse as a record, it is written and parsed again as the same. Parsing a file's record
/// does not panic, and accepts no other bytes.
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

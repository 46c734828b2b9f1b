//! How the database is open: for reading until the first change, then for writing, and not for
//! writing any more after a failure.

use std::sync::Arc;

use redb::Database;

use crate::Error;
use crate::database::{open_database, open_for_writing};
use crate::journal_file::JournalFile;
use crate::new_file::NewFile;
use crate::record::Change;
use crate::storage::ReadOnly;

#[derive(Debug)]
pub(crate) enum Access {
    /// For reading: before the first change, and after a failed write. Writes to it stay in memory.
    ReadOnly(Database, Option<NewFile>),
    /// For writing.
    Writable(Database),
    /// Not at all: after a failed write the storage could not be read, or another opener writes.
    Unreadable,
}

impl Access {
    pub(crate) fn database(&self) -> Option<&Database> {
        match self {
            Access::ReadOnly(database, _) | Access::Writable(database) => Some(database),
            Access::Unreadable => None,
        }
    }

    /// Opens the database for writing unless it is open, and makes the first changes. Refuses one
    /// that another opener has taken over.
    pub(crate) fn ensure_writable(
        &mut self,
        file: &Arc<JournalFile>,
        changes: &[Change],
    ) -> Result<(), Error> {
        match self {
            Access::ReadOnly(_, new) => {
                let database = open_for_writing(file, new.as_ref(), changes)?;
                *self = Access::Writable(database);
                Ok(())
            }
            Access::Writable(_) => file.check_opener(),
            Access::Unreadable => Ok(()),
        }
    }

    /// Closes the database, which must not write any more, and opens what the storage has now for
    /// reading, unless another opener has taken over.
    pub(crate) fn close(&mut self, file: &Arc<JournalFile>, is_taken_over: bool) {
        if is_taken_over {
            *self = Access::Unreadable;
            return;
        }
        match open_database(&(Arc::new(ReadOnly(Arc::clone(file))) as _)) {
            Ok(database) => *self = Access::ReadOnly(database, None),
            // The state before the first change still holds: that change is not known to be
            // durable.
            Err(_) if matches!(*self, Access::ReadOnly(..)) => {}
            Err(_) => *self = Access::Unreadable,
        }
    }

    /// Lets the file fail if it is another opener's: redb reads and writes when it closes it.
    pub(crate) fn check_before_close(&self, file: &JournalFile) {
        let checked = match self {
            Access::Writable(_) => file.check_opener(),
            Access::ReadOnly(_, None) => file.check_unchanged().map(drop),
            Access::ReadOnly(..) | Access::Unreadable => Ok(()),
        };
        if let Err(error) = checked {
            file.fail(error);
        }
    }
}

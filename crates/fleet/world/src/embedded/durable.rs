//! The file of the embedded store: the newest value of each key, and the leases.

use std::fs::File;
use std::path::Path;
use std::time::{Duration, SystemTime};

use redb::backends::FileBackend;
use redb::{Builder, Database, ReadableDatabase as _, ReadableTable as _, TableDefinition};

use trueup_path::{Readers, TrustedUsers};

use super::mvcc::{Batch, Loaded, Mvcc};
use crate::{Entry, Error, ErrorKind, LeaseId, Revision};

type Row<'a> = (&'a [u8], u64, u64, i64);

/// By key: the value, the revisions of its creation and of the value, and the lease; 0 for none.
const ENTRIES: TableDefinition<'_, &[u8], Row<'_>> = TableDefinition::new("world entries 1");
/// The milliseconds to live, by lease.
const LEASES: TableDefinition<'_, i64, u64> = TableDefinition::new("world leases 1");
/// The last time when a lease was known to be alive, in milliseconds since 1970, by lease.
const RENEWALS: TableDefinition<'_, i64, u64> = TableDefinition::new("world renewals 1");
/// The numbers `revision` and `lease`. The latter is the last one granted.
const NUMBERS: TableDefinition<'_, &str, u64> = TableDefinition::new("world numbers 1");

pub(crate) struct Durable {
    database: Database,
    /// The same file, to read its size.
    file: Option<File>,
    /// True if leases go on while the file is closed, by the wall clock. If false, they begin
    /// again.
    has_clock: bool,
}

/// The number of renewals written in each time to live.
pub(crate) const RENEWALS_IN_TTL: u32 = 2;

impl Durable {
    pub(crate) fn open(path: &Path) -> Result<(Durable, Mvcc), Error> {
        let shown = path.display();
        let (database, file) = open(path).map_err(|error| {
            let message = format!("{shown}: the store cannot be opened: {error}");
            Error::new(ErrorKind::Store, message).with_source(error)
        })?;
        let file = Some(file);
        let has_clock = true;
        Durable { database, file, has_clock }.loaded()
    }

    #[cfg(feature = "testing")]
    pub(crate) fn open_on(backend: impl redb::StorageBackend) -> Result<(Durable, Mvcc), Error> {
        let database =
            Builder::new().create_with_backend(backend).map_err(|error| failed(error.into()))?;
        Durable { database, file: None, has_clock: false }.loaded()
    }

    fn loaded(self) -> Result<(Durable, Mvcc), Error> {
        let mvcc = self.load().map_err(failed)?;
        Ok((self, mvcc))
    }

    fn load(&self) -> Result<Mvcc, redb::Error> {
        let write = self.database.begin_write()?;
        write.open_table(ENTRIES)?;
        write.open_table(LEASES)?;
        write.open_table(NUMBERS)?;
        write.open_table(RENEWALS)?;
        write.commit()?;
        let read = self.database.begin_read()?;
        let numbers = read.open_table(NUMBERS)?;
        let mut leases = Vec::new();
        let renewals = read.open_table(RENEWALS)?;
        for row in read.open_table(LEASES)?.iter()? {
            let (lease, millis) = row?;
            let ttl = Duration::from_millis(millis.value());
            let renewed = renewals.get(lease.value())?.map(|at| at.value());
            leases.push(Loaded {
                id: LeaseId(lease.value()),
                ttl,
                left: renewed.map_or(ttl, |at| self.left(ttl, at)),
            });
        }
        let mut entries = Vec::new();
        for row in read.open_table(ENTRIES)?.iter()? {
            let (key, row) = row?;
            let (value, created, modified, lease) = row.value();
            entries.push(Entry {
                key: key.value().to_vec(),
                value: value.to_vec(),
                created: Revision(created),
                modified: Revision(modified),
                lease: (lease != 0).then_some(LeaseId(lease)),
            });
        }
        let revision = numbers.get("revision")?.map_or(0, |it| it.value());
        let last_lease = numbers.get("lease")?.map_or(0, |it| it.value().cast_signed());
        Ok(Mvcc::load(Revision(revision), last_lease, entries, leases))
    }

    /// Returns the rest of a lease that was last known to be alive at `renewed`. If the clock was
    /// set back, that is the whole time.
    fn left(&self, ttl: Duration, renewed: u64) -> Duration {
        if !self.has_clock {
            return ttl;
        }
        let passed = Duration::from_millis(now().saturating_sub(renewed));
        // Later renewals were not written.
        (ttl + ttl / RENEWALS_IN_TTL).saturating_sub(passed).min(ttl)
    }

    /// Records that a lease is alive.
    pub(crate) fn note_alive(&self, lease: LeaseId) -> Result<(), Error> {
        self.write_alive(lease).map_err(failed)
    }

    fn write_alive(&self, lease: LeaseId) -> Result<(), redb::Error> {
        let write = self.database.begin_write()?;
        write.open_table(RENEWALS)?.insert(lease.0, now())?;
        Ok(write.commit()?)
    }

    /// Writes a batch. Returns once it is on the disk.
    pub(crate) fn commit(&self, batch: &Batch) -> Result<(), Error> {
        self.write(batch).map_err(failed)
    }

    fn write(&self, batch: &Batch) -> Result<(), redb::Error> {
        let write = self.database.begin_write()?;
        {
            let mut numbers = write.open_table(NUMBERS)?;
            numbers.insert("revision", batch.revision.0)?;
            let mut leases = write.open_table(LEASES)?;
            if let Some((lease, ttl)) = batch.granted {
                numbers.insert("lease", lease.0.cast_unsigned())?;
                leases.insert(lease.0, u64::try_from(ttl.as_millis()).unwrap_or(u64::MAX))?;
                write.open_table(RENEWALS)?.insert(lease.0, now())?;
            }
            if let Some(lease) = batch.ended {
                leases.remove(lease.0)?;
                write.open_table(RENEWALS)?.remove(lease.0)?;
            }
            let mut entries = write.open_table(ENTRIES)?;
            for (key, now) in &batch.changes {
                match now {
                    Some(entry) => {
                        let lease = entry.lease.map_or(0, |lease| lease.0);
                        let row = (&*entry.value, entry.created.0, entry.modified.0, lease);
                        entries.insert(&**key, row)?;
                    }
                    None => drop(entries.remove(&**key)?),
                }
            }
        }
        write.commit()?;
        Ok(())
    }

    /// Returns the size of the file in bytes.
    pub(crate) fn size(&self) -> Option<u64> {
        Some(self.file.as_ref()?.metadata().ok()?.len())
    }
}

/// Opens or creates the file, in a folder that only root and we can change. A user who can read the
/// file could lock it against us.
fn open(path: &Path) -> Result<(Database, File), redb::Error> {
    let file = open_file(path).map_err(|error| redb::Error::Io(error.into()))?;
    let same = file.try_clone().map_err(redb::Error::Io)?;
    let database = Builder::new().create_with_backend(FileBackend::new(file)?)?;
    Ok((database, same))
}

fn open_file(path: &Path) -> Result<File, trueup_path::Error> {
    let users = TrustedUsers::current()?;
    let place = users.place(path)?;
    place.folder().clone().ours()?;
    let file = place.open_or_create(0o600)?;
    users.check_sole(&place, &file, Readers::Us)?;
    Ok(file)
}

/// Returns the wall clock, in milliseconds since 1970.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.map_or(0, |since| u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Makes the error of a failed write, after which the file's content is unknown.
fn failed(error: redb::Error) -> Error {
    let message = format!("the file of the embedded store failed: {error}; open it anew");
    Error::new(ErrorKind::Store, message).with_source(error)
}

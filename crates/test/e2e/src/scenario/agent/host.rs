//! The agents' host: a directory for journals, the disk below it, the boot, and the clock.

use std::fs::{self, File};
use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use trueup_journal::{Journal, JournalLedger, LedgerScope, Storage};
use trueup_rtnl::Rtnl;
use trueup_testkit::Scratch;

/// The agents' host. It outlives their processes.
pub(in crate::scenario) struct Host {
    /// The directory of all journals.
    directory: Scratch,
    boot: u32,
    clock: Clock,
    /// True if the ledger proves ownership unless the file has another setting.
    pub(super) by_ledger: bool,
}

/// The owner of a journal: a namespace's cookie, a marker, and a domain's name.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct JournalOwner {
    pub(super) cookie: u64,
    pub(super) marker: u8,
    pub(super) domain: Option<String>,
}

impl Host {
    pub(super) fn new(by_ledger: bool) -> Result<Host, String> {
        // Syncs are cheap in memory.
        let directory =
            Scratch::make_in_memory("scenario").map_err(|error| format!("journals: {error}"))?;
        Ok(Host {
            directory,
            boot: 1,
            clock: Clock { start: Instant::now(), passed: Arc::default() },
            by_ledger,
        })
    }

    /// Returns a source with an empty history and this host's clock.
    pub(super) fn source(&self) -> Rtnl {
        let clock = self.clock.clone();
        Rtnl::with_clock(move || clock.now())
    }

    pub(super) fn later(&self, time: Duration) {
        *self.clock.passed() += time;
    }

    pub(super) fn reboot(&mut self) {
        self.boot += 1;
    }

    /// Opens a journal, which stays locked until the ledger is dropped.
    pub(super) fn open(&self, owner: &JournalOwner) -> Result<JournalLedger, String> {
        let journal = Journal::open(self.file(owner)).map_err(|error| error.to_string())?;
        self.ledger(&journal, owner)
    }

    /// Opens a journal on a disk that refuses every sync from then on.
    pub(super) fn open_broken(&self, owner: &JournalOwner) -> Result<JournalLedger, String> {
        let os = |error: io::Error| error.to_string();
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(self.file(owner)).map_err(os)?;
        if file.metadata().map_err(os)?.len() == 0 {
            let made = Journal::create_on(file.try_clone().map_err(os)?);
            made.map_err(|error| error.to_string())?;
        }
        let broken = Arc::new(AtomicBool::new(false));
        let disk = Disk { file, broken: broken.clone() };
        let journal = Journal::open_on(disk).map_err(|error| error.to_string())?;
        broken.store(true, Ordering::Relaxed);
        self.ledger(&journal, owner)
    }

    /// Deletes all journals with a marker.
    pub(super) fn forget(&self, marker: u8) -> io::Result<()> {
        for entry in fs::read_dir(&self.directory)?.flatten() {
            let of_marker = format!("-{marker}.");
            if entry.file_name().to_string_lossy().contains(&of_marker) {
                fs::remove_file(entry.path())?;
            }
        }
        Ok(())
    }

    fn file(&self, owner: &JournalOwner) -> PathBuf {
        let JournalOwner { cookie, marker, domain } = owner;
        let domain = domain.as_ref().map_or(String::new(), |name| format!("-{name}"));
        self.directory.join(format!("netns-{cookie}-{marker}{domain}.journal"))
    }

    fn ledger(&self, journal: &Journal, owner: &JournalOwner) -> Result<JournalLedger, String> {
        let scope = LedgerScope::new(owner.cookie.to_string(), format!("boot {}", self.boot));
        let ledger = journal.ledger("rtnl", &scope);
        ledger.map_err(|error| error.to_string())
    }
}

/// A clock that only moves in `later`.
#[derive(Clone)]
struct Clock {
    start: Instant,
    passed: Arc<Mutex<Duration>>,
}

impl Clock {
    fn passed(&self) -> std::sync::MutexGuard<'_, Duration> {
        self.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> Instant {
        self.start + *self.passed()
    }
}

/// A file. Once it is broken, its syncs fail.
#[derive(Debug)]
struct Disk {
    file: File,
    broken: Arc<AtomicBool>,
}

impl Storage for Disk {
    fn len(&self) -> io::Result<u64> {
        Storage::len(&self.file)
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        Storage::read(&self.file, offset, out)
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        Storage::write(&self.file, offset, data)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        Storage::set_len(&self.file, len)
    }

    fn sync(&self) -> io::Result<()> {
        const EIO: i32 = 5;
        if self.broken.load(Ordering::Relaxed) {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        Storage::sync(&self.file)
    }
}

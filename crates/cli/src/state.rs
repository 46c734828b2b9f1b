//! The ledger between runs: what we made that the kernel does not mark as ours, one file for each
//! namespace and marker. Kernel state does not outlive a boot, and neither does this.
//!
//! Written whole or not at all, by one process at a time. Not a journal: what a process made after
//! its last save is forgotten if it dies.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, bail};
use rustix::fs::{Access, FlockOperation, access, flock};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use trueup::LastApplied;

/// Of the content below.
const VERSION: u32 = 1;

/// Names the boot: another one is another kernel, in which cookies and indexes mean other things.
const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";

/// How long another process may hold the state before we give up.
const PATIENCE: Duration = Duration::from_secs(1);

/// The ledger's place: of one namespace and marker, in a directory.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    directory: PathBuf,
    name: String,
}

/// A ledger that is ours to write, until it is dropped.
#[derive(Debug)]
pub(crate) struct State {
    place: Place,
    boot_id: String,
    saved: LastApplied,
    /// Held, and never deleted: two processes that lock two files of one name exclude nobody.
    _lock: File,
}

/// The file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Content<'a> {
    version: u32,
    boot_id: String,
    #[serde(borrow)]
    last_applied: &'a RawValue,
}

#[derive(Serialize)]
struct NewContent<'a> {
    version: u32,
    boot_id: &'a str,
    last_applied: &'a LastApplied,
}

impl Place {
    /// The place for a namespace, by its cookie, and a marker. Looks at directories, makes none.
    ///
    /// # Errors
    ///
    /// When none was given and neither of the usual directories is, or can be made, writable.
    pub(crate) fn new(given: Option<&Path>, cookie: u64, marker: u8) -> Result<Place> {
        let directory = match given {
            Some(directory) => directory.to_owned(),
            None => usual_directory()?,
        };
        Ok(Place {
            directory,
            name: format!("netns-{cookie}-{marker}"),
        })
    }

    /// Reads the ledger without a claim to it. A file that is not there is an empty ledger.
    ///
    /// # Errors
    ///
    /// When the file cannot be read or is damaged.
    pub(crate) fn peek(&self) -> Result<LastApplied> {
        self.read(&boot_id()?)
    }

    /// Claims the ledger and reads it. Proves by writing it back that it can be written.
    ///
    /// # Errors
    ///
    /// When another process holds it for longer than a second; when it cannot be read or written;
    /// when it is damaged.
    pub(crate) fn claim(self) -> Result<State> {
        let boot_id = boot_id()?;
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder
            .create(&self.directory)
            .with_context(|| format!("cannot make the state directory {}", self.shown()))?;
        let lock = self.lock()?;
        let last_applied = self.read(&boot_id)?;
        let state = State {
            place: self,
            boot_id,
            saved: last_applied,
            _lock: lock,
        };
        state.write(&state.saved)?;
        Ok(state)
    }

    fn shown(&self) -> std::path::Display<'_> {
        self.directory.display()
    }

    fn file(&self, extension: &str) -> PathBuf {
        self.directory.join(format!("{}.{extension}", self.name))
    }

    fn lock(&self) -> Result<File> {
        let path = self.file("lock");
        let file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .mode(0o600)
            .open(&path)
            .with_context(|| format!("cannot open the state's lock {}", path.display()))?;
        let until = Instant::now() + PATIENCE;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file),
                Err(Errno::INTR) => {}
                Err(Errno::WOULDBLOCK) if Instant::now() < until => {
                    thread::sleep(Duration::from_millis(20));
                }
                Err(Errno::WOULDBLOCK) => bail!(
                    "another trueup writes to this namespace with this marker: it holds {}. Stop \
                     it, or give the two files different `protocol` numbers",
                    path.display()
                ),
                Err(errno) => {
                    return Err(anyhow!(io::Error::from(errno)))
                        .with_context(|| format!("cannot lock {}", path.display()));
                }
            }
        }
    }

    fn read(&self, boot_id: &str) -> Result<LastApplied> {
        let path = self.file("json");
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                return Ok(LastApplied::default());
            }
            Err(error) => {
                return Err(error)
                    .with_context(|| format!("cannot read the state file {}", path.display()));
            }
        };
        content(&bytes, boot_id).with_context(|| {
            format!(
                "the state file {} is damaged. Delete it to go on without: links that were made \
                 from a file then count as someone else's, and have to be deleted by hand",
                path.display()
            )
        })
    }
}

fn content(bytes: &[u8], boot_id: &str) -> Result<LastApplied> {
    let content: Content<'_> = serde_json::from_slice(bytes)?;
    if content.boot_id != boot_id {
        return Ok(LastApplied::default());
    }
    if content.version != VERSION {
        bail!("it is of version {}, not {VERSION}", content.version);
    }
    Ok(serde_json::from_str(content.last_applied.get())?)
}

impl State {
    /// What was read or saved last.
    pub(crate) fn last_applied(&self) -> &LastApplied {
        &self.saved
    }

    /// Saves the ledger, for good once this returns.
    ///
    /// # Errors
    ///
    /// When it cannot be written. The former one stays.
    pub(crate) fn save(&mut self, last_applied: &LastApplied) -> Result<()> {
        if *last_applied != self.saved {
            self.write(last_applied)?;
            self.saved = last_applied.clone();
        }
        Ok(())
    }

    fn write(&self, last_applied: &LastApplied) -> Result<()> {
        let path = self.place.file("json");
        let temporary = self.place.file("new");
        let write = || -> io::Result<()> {
            let mut bytes = serde_json::to_vec(&NewContent {
                version: VERSION,
                boot_id: &self.boot_id,
                last_applied,
            })?;
            bytes.push(b'\n');
            let mut file = OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .mode(0o600)
                .open(&temporary)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&temporary, &path)?;
            File::open(&self.place.directory)?.sync_all()
        };
        write().with_context(|| format!("cannot write the state file {}", path.display()))
    }
}

fn boot_id() -> Result<String> {
    let id = fs::read_to_string(BOOT_ID).with_context(|| format!("cannot read {BOOT_ID}"))?;
    Ok(id.trim().to_owned())
}

/// The first directory that is, or could be made, writable. A reader decides as a writer does.
fn usual_directory() -> Result<PathBuf> {
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    [Some(PathBuf::from("/run")), runtime.map(PathBuf::from)]
        .into_iter()
        .flatten()
        .map(|base| base.join("trueup"))
        .find(|directory| is_usable(directory))
        .context(
            "no place to remember what is ours: neither /run/trueup nor $XDG_RUNTIME_DIR/trueup \
             can be written; name a directory with --state DIR",
        )
}

fn is_usable(directory: &Path) -> bool {
    let all = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    match access(directory, Access::EXISTS) {
        Ok(()) => directory.is_dir() && access(directory, all).is_ok(),
        Err(_) => directory
            .parent()
            .is_some_and(|parent| access(parent, Access::WRITE_OK | Access::EXEC_OK).is_ok()),
    }
}

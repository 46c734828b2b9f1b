//! What is ours between runs: a journal for each namespace and marker, in one directory. Not what stands in it: that is the
//! source's, and how it is kept the journal's.

use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Error, Result, anyhow};
use rustix::fs::{Access, access};
use trueup::journal::{self, Journal, JournalLedger};
use trueup::netlink::boot_id;
use trueup::reconcile::{Claim, Ledger, LedgerError};
use trueup::rtnl::ledger_scope_of;

/// A source that has a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LedgerOf {
    Network,
    Settings,
}

impl LedgerOf {
    /// What its ledger is called in a journal.
    fn name(self) -> &'static str {
        match self {
            LedgerOf::Network => "rtnl",
            LedgerOf::Settings => "sysctl",
        }
    }
}

/// Of a journal's file.
pub(crate) const EXTENSION: &str = "journal";

/// How long another process may hold the state before we give up: one that is about to end.
const LOCK_TIMEOUT: Duration = Duration::from_secs(1);

/// The journal's place: of one namespace and marker, in a directory.
#[derive(Clone, Debug)]
pub(crate) struct StateFile {
    directory: PathBuf,
    cookie: u64,
    marker: u8,
}

/// A journal that is ours to write, until this and all of its ledgers are dropped.
#[derive(Debug)]
pub(crate) struct State(SharedLedger);

/// What is ours by one source in the place's namespace, in this boot. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct SharedLedger {
    of: LedgerOf,
    place: StateFile,
    boot_id: String,
    /// `None` once it could not be opened again.
    opened: Arc<Mutex<Option<Opened>>>,
}

#[derive(Debug)]
struct Opened {
    journal: Journal,
    network: JournalLedger,
    settings: JournalLedger,
    /// What was ours in other boots is forgotten.
    has_forgotten_boots: bool,
}

impl StateFile {
    /// Finds the place for a namespace, by its cookie, and a marker. It is in the directory that was
    /// given; or in the first of the usual ones that has its journal; or else in the first of them
    /// that is, or can be made, writable. A reader decides as a writer does. Makes no directory.
    ///
    /// # Errors
    ///
    /// When it cannot be known whether one of the usual directories has the journal.
    pub(crate) fn find(given: Option<&Path>, cookie: u64, marker: u8) -> Result<Option<StateFile>> {
        let places = directories(given).into_iter().map(|directory| StateFile {
            directory,
            cookie,
            marker,
        });
        let mut places: Vec<StateFile> = places.collect();
        if given.is_some() {
            return Ok(places.pop());
        }
        for place in &places {
            if place.is_in_use()? {
                return Ok(Some(place.clone()));
            }
        }
        let usable = |place: &StateFile| is_usable(&place.directory);
        Ok(places.into_iter().find(usable))
    }

    /// Whether the journal, or the lock of one who writes to it, is there.
    fn is_in_use(&self) -> Result<bool> {
        let journal = self.file();
        for file in [journal::lock_file(&journal), journal] {
            match fs::symlink_metadata(&file) {
                Ok(_) => return Ok(true),
                Err(error)
                    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {}
                Err(error) => {
                    let directory = self.directory.display();
                    return Err(error).with_context(|| {
                        format!(
                            "cannot know what trueup made in this namespace, as that may be in \
                             {}; run it as the owner of {directory}, or name another directory \
                             with --state DIR",
                            file.display()
                        )
                    });
                }
            }
        }
        Ok(false)
    }

    /// Its directory.
    pub(crate) fn directory(&self) -> &Path {
        &self.directory
    }

    /// Reads a ledger as it is, without a claim to it: it is not to be written. A journal that is not there is empty.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read or is damaged.
    pub(crate) fn read_ledger(&self, of: LedgerOf) -> Result<JournalLedger> {
        let file = self.file();
        let journal =
            Journal::open_read_only(&file).map_err(|error| describe_error(error, &file))?;
        self.ledger(of, &journal, &boot_id()?)
    }

    /// Claims the journal and reads it. Writes nothing to it.
    ///
    /// # Errors
    ///
    /// When another process holds it for longer than a second; when it cannot be opened; when it is damaged.
    pub(crate) fn claim(self) -> Result<State> {
        let boot_id = boot_id()?;
        make(&self.directory).with_context(|| {
            let directory = self.directory.display();
            format!("cannot make the state directory {directory}")
        })?;
        let opened = self.open(&boot_id)?;
        Ok(State(SharedLedger {
            of: LedgerOf::Network,
            place: self,
            boot_id,
            opened: Arc::new(Mutex::new(Some(opened))),
        }))
    }

    fn open(&self, boot_id: &str) -> Result<Opened> {
        let file = self.file();
        let until = Instant::now() + LOCK_TIMEOUT;
        let journal = loop {
            match Journal::open(&file) {
                Err(error) if error.is_held() && Instant::now() < until => {
                    thread::sleep(Duration::from_millis(20));
                }
                result => break result.map_err(|error| describe_error(error, &file))?,
            }
        };
        Ok(Opened {
            network: self.ledger(LedgerOf::Network, &journal, boot_id)?,
            settings: self.ledger(LedgerOf::Settings, &journal, boot_id)?,
            journal,
            has_forgotten_boots: false,
        })
    }

    fn ledger(&self, of: LedgerOf, journal: &Journal, boot_id: &str) -> Result<JournalLedger> {
        let scope = ledger_scope_of(self.cookie, boot_id);
        Ok(journal.ledger(of.name(), &scope)?)
    }

    /// Its file.
    pub(crate) fn file(&self) -> PathBuf {
        let StateFile { cookie, marker, .. } = self;
        self.directory
            .join(format!("netns-{cookie}-{marker}.{EXTENSION}"))
    }
}

impl State {
    /// What is ours by a source.
    pub(crate) fn ledger(&self, of: LedgerOf) -> SharedLedger {
        SharedLedger {
            of,
            ..self.0.clone()
        }
    }
}

impl SharedLedger {
    /// A journal of which a write failed does not write any more, so it is opened again: a disk that was full may have room.
    fn with<T>(
        &self,
        act: impl FnOnce(&mut Opened) -> Result<T, LedgerError>,
    ) -> Result<T, LedgerError> {
        let mut opened = self.opened.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opened) = &mut *opened
            && opened.journal.failure().is_none()
        {
            return act(opened);
        }
        // Its lock goes with it.
        *opened = None;
        let again = self.place.open(&self.boot_id).map_err(LedgerError::new)?;
        act(opened.insert(again))
    }
}

impl Opened {
    fn of(&mut self, of: LedgerOf) -> &mut JournalLedger {
        match of {
            LedgerOf::Network => &mut self.network,
            LedgerOf::Settings => &mut self.settings,
        }
    }
}

impl Ledger for SharedLedger {
    fn owned(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, LedgerError> {
        let of = self.of;
        self.with(|opened| opened.of(of).owned())
    }

    fn open_intents(&self) -> Result<BTreeMap<Vec<u8>, Claim>, LedgerError> {
        let of = self.of;
        self.with(|opened| opened.of(of).open_intents())
    }

    fn begin(&mut self, intents: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError> {
        let of = self.of;
        self.with(|opened| opened.of(of).begin(intents))
    }

    /// And forgets what was ours in other boots, once something is written anyway.
    fn commit_outcomes(&mut self, claims: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError> {
        let of = self.of;
        self.with(|opened| {
            opened.of(of).commit_outcomes(claims)?;
            if !opened.has_forgotten_boots && opened.journal.stats().commits > 0 {
                let forgotten = opened.journal.forget_other_boots(&self.boot_id);
                forgotten.map_err(LedgerError::new)?;
                opened.has_forgotten_boots = true;
            }
            Ok(())
        })
    }
}

/// What a journal says, and what to do about it.
pub(crate) fn describe_error(error: journal::Error, file: &Path) -> Error {
    let shown = file.display();
    if error.is_held() {
        let holder = match error.holder() {
            Some(holder) => format!("{holder}"),
            None => "it".into(),
        };
        return anyhow!(
            "another trueup writes to this namespace with this marker: {holder} holds {shown}.lock. Stop it, or give the two \
             files different `protocol` numbers"
        );
    }
    if error.is_damaged() {
        return Error::new(error).context(format!(
            "the journal {shown} is damaged, so nothing is done. `trueup journal check {shown}` looks at \
             it, `trueup journal export {shown}` prints what can be read, \
             `trueup journal repair {shown}` makes it usable, or says what that would lose"
        ));
    }
    let remedy = match remedy(&error) {
        Some(remedy) => format!("; {remedy}"),
        None => String::new(),
    };
    anyhow!("cannot use the state file {shown}: {error}{remedy}")
}

/// What to do about an error of a journal, if that is known.
pub(crate) fn remedy(error: &journal::Error) -> Option<&'static str> {
    let cause = || {
        let cause = std::error::Error::source(error)?;
        cause.downcast_ref::<io::Error>()
    };
    let is_refused = |cause: &io::Error| {
        use ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
        matches!(cause.kind(), PermissionDenied | ReadOnlyFilesystem)
    };
    let readable = || cause().is_some_and(is_refused).then_some(FIX_PERMISSIONS);
    error.remedy().or_else(readable)
}

/// What to do about a journal that cannot be opened.
pub(crate) const FIX_PERMISSIONS: &str =
    "let it be read and written by whoever runs trueup, or run it as its owner";

/// What is to be said where no usual directory can be written.
pub(crate) const NO_STATE_DIRECTORY: &str = "no state directory: neither /run/trueup nor \
                                  $XDG_RUNTIME_DIR/trueup can be written; name a directory with \
                                  --state DIR";

/// The directories in which journals may be: the one that was given, or the usual ones.
pub(crate) fn directories(given: Option<&Path>) -> Vec<PathBuf> {
    if let Some(given) = given {
        return vec![given.to_owned()];
    }
    let runtime = std::env::var_os("XDG_RUNTIME_DIR").filter(|dir| !dir.is_empty());
    let usual = [Some(PathBuf::from("/run")), runtime.map(PathBuf::from)];
    let usual = usual.into_iter().flatten();
    usual.map(|base| base.join("trueup")).collect()
}

/// Makes a state directory that is not there. Any user may learn that nothing is remembered of a
/// namespace: [`StateFile::is_in_use`]. A journal itself is for its owner alone.
fn make(directory: &Path) -> io::Result<()> {
    const MODE: u32 = 0o711;
    if let Some(parent) = directory.parent() {
        DirBuilder::new()
            .recursive(true)
            .mode(MODE)
            .create(parent)?;
    }
    match DirBuilder::new().mode(MODE).create(directory) {
        // What the process masks is given as well.
        Ok(()) => fs::set_permissions(directory, Permissions::from_mode(MODE)),
        Err(_) if directory.is_dir() => Ok(()),
        made => made,
    }
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

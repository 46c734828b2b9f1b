//! What is ours between runs: a journal for each namespace and marker, in one directory. Not what stands in it: that is the
//! source's, and how it is kept the journal's.

use std::collections::BTreeMap;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Error, Result, anyhow};
use rustix::fs::{Access, access};
use trueup::journal::{self, Journal, JournalLedger, LedgerScope};
use trueup::netlink::boot_id;
use trueup::reconcile::{Claim, Ledger, LedgerError};

/// A source that has a ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Of {
    Network,
    Settings,
}

impl Of {
    /// What its ledger is called in a journal.
    fn name(self) -> &'static str {
        match self {
            Of::Network => "rtnl",
            Of::Settings => "sysctl",
        }
    }
}

/// Of a journal's file.
pub(crate) const EXTENSION: &str = "journal";

/// How long another process may hold the state before we give up: one that is about to end.
const PATIENCE: Duration = Duration::from_secs(1);

/// The journal's place: of one namespace and marker, in a directory.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    directory: PathBuf,
    cookie: u64,
    marker: u8,
}

/// A journal that is ours to write, until this and all of its ledgers are dropped.
#[derive(Debug)]
pub(crate) struct State(Remembered);

/// What is ours by one source in the place's namespace, in this boot. Clones are the same.
#[derive(Clone, Debug)]
pub(crate) struct Remembered {
    of: Of,
    place: Place,
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
    is_tidy: bool,
}

impl Place {
    /// The place for a namespace, by its cookie, and a marker. Looks at directories, makes none.
    ///
    /// # Errors
    ///
    /// When none was given and neither of the usual directories is, or can be made, writable.
    pub(crate) fn new(given: Option<&Path>, cookie: u64, marker: u8) -> Result<Place> {
        Ok(Place {
            directory: directory(given)?,
            cookie,
            marker,
        })
    }

    /// Reads a ledger as it is, without a claim to it: it is not to be written. A journal that is not there is empty.
    ///
    /// # Errors
    ///
    /// When the journal cannot be read or is damaged.
    pub(crate) fn peek(&self, of: Of) -> Result<JournalLedger> {
        let file = self.file();
        let journal = Journal::peek(&file).map_err(|error| explain(error, &file))?;
        self.ledger(of, &journal, &boot_id()?)
    }

    /// Claims the journal and reads it. Writes nothing to it.
    ///
    /// # Errors
    ///
    /// When another process holds it for longer than a second; when it cannot be opened; when it is damaged.
    pub(crate) fn claim(self) -> Result<State> {
        let boot_id = boot_id()?;
        let mut builder = DirBuilder::new();
        builder.recursive(true).mode(0o700);
        builder.create(&self.directory).with_context(|| {
            let directory = self.directory.display();
            format!("cannot make the state directory {directory}")
        })?;
        let opened = self.open(&boot_id)?;
        Ok(State(Remembered {
            of: Of::Network,
            place: self,
            boot_id,
            opened: Arc::new(Mutex::new(Some(opened))),
        }))
    }

    fn open(&self, boot_id: &str) -> Result<Opened> {
        let file = self.file();
        let until = Instant::now() + PATIENCE;
        let journal = loop {
            match Journal::open(&file) {
                Err(error) if error.is_held() && Instant::now() < until => {
                    thread::sleep(Duration::from_millis(20));
                }
                result => break result.map_err(|error| explain(error, &file))?,
            }
        };
        Ok(Opened {
            network: self.ledger(Of::Network, &journal, boot_id)?,
            settings: self.ledger(Of::Settings, &journal, boot_id)?,
            journal,
            is_tidy: false,
        })
    }

    fn ledger(&self, of: Of, journal: &Journal, boot_id: &str) -> Result<JournalLedger> {
        let scope = LedgerScope::new(self.cookie.to_string(), boot_id);
        Ok(journal.ledger(of.name(), &scope)?)
    }

    /// Its file.
    pub(crate) fn file(&self) -> PathBuf {
        let Place { cookie, marker, .. } = self;
        self.directory
            .join(format!("netns-{cookie}-{marker}.{EXTENSION}"))
    }
}

impl State {
    /// What is ours by a source.
    pub(crate) fn ledger(&self, of: Of) -> Remembered {
        Remembered {
            of,
            ..self.0.clone()
        }
    }
}

impl Remembered {
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
    fn of(&mut self, of: Of) -> &mut JournalLedger {
        match of {
            Of::Network => &mut self.network,
            Of::Settings => &mut self.settings,
        }
    }
}

impl Ledger for Remembered {
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
    fn settle(&mut self, claims: BTreeMap<Vec<u8>, Claim>) -> Result<(), LedgerError> {
        let of = self.of;
        self.with(|opened| {
            opened.of(of).settle(claims)?;
            if !opened.is_tidy && opened.journal.stats().commits > 0 {
                let forgotten = opened.journal.forget_other_boots(&self.boot_id);
                forgotten.map_err(LedgerError::new)?;
                opened.is_tidy = true;
            }
            Ok(())
        })
    }
}

/// What a journal says, and what to do about it.
pub(crate) fn explain(error: journal::Error, file: &Path) -> Error {
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
            "what is remembered in {shown} cannot be relied on, so nothing is done. `trueup journal check {shown}` looks at \
             it, `trueup journal export {shown}` prints what can be read, `trueup journal repair {shown}` makes it usable and \
             says what is lost"
        ));
    }
    Error::new(error).context(format!("cannot use the state file {shown}"))
}

/// The directory of the journals: the one that was given, or the usual one.
///
/// # Errors
///
/// When none was given and neither of the usual directories is, or can be made, writable.
pub(crate) fn directory(given: Option<&Path>) -> Result<PathBuf> {
    match given {
        Some(directory) => Ok(directory.to_owned()),
        None => usual_directory(),
    }
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

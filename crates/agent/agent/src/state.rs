//! The state directory. It has a journal for each namespace and agent, with the sources' ledgers.

mod directory;
mod domains;
mod earlier;
mod shared_ledger;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use crate::error::{Context as _, Error, Result, error};
use trueup_journal::{self as journal, Journal, JournalLedger};
use trueup_netlink::boot_id;
use trueup_path as path;
use trueup_reconcile::{Claim, Ledger as _, LedgerError, LedgerScope};
use trueup_rtnl::Namespace;
use trueup_rtnl::{Options, ledger_scope_of};

use self::directory::is_usable;
pub use self::directory::{directories, existing};
pub(crate) use self::directory::{ignored_runtime_directory, is_unsafe, make, no_state_directory};
pub(crate) use self::shared_ledger::{SharedLedger, State};

/// The owner of a ledger: a source, the graph, the world or a section.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LedgerOf {
    Network,
    Settings,
    /// The pending refreshes, which outlive a boot.
    Graph,
    /// The grants that were seen last, which outlive a boot.
    World,
    /// A section from a user's crate.
    Section {
        name: &'static str,
        is_lasting: bool,
    },
}

impl LedgerOf {
    /// True if the ledger's records can outlive a boot.
    fn is_lasting(self) -> bool {
        match self {
            LedgerOf::Graph | LedgerOf::World => true,
            LedgerOf::Section { is_lasting, .. } => is_lasting,
            LedgerOf::Network | LedgerOf::Settings => false,
        }
    }

    /// Returns the ledger's name in the journal.
    fn name(self) -> Cow<'static, str> {
        match self {
            LedgerOf::Network => "rtnl".into(),
            LedgerOf::Settings => "sysctl".into(),
            LedgerOf::Graph => "graph".into(),
            LedgerOf::World => "world".into(),
            LedgerOf::Section { name, .. } => format!("section {name}").into(),
        }
    }
}

/// The key of the random id in the ledger of the world.
const WORLD_ID: &[u8] = b"id";

/// The extension of a journal's file name, without the dot.
pub const EXTENSION: &str = "journal";

/// The identity of an agent among those of its namespace.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Agent {
    pub(crate) marker: u8,
    /// The domain's name. `None` if it has no name.
    pub(crate) domain: Option<String>,
}

/// The identity of a namespace.
#[derive(Clone, Debug)]
pub(crate) struct NamespaceKey {
    /// Unique in this boot. After a reboot another namespace can have the same cookie.
    pub(crate) cookie: u64,
    /// The name from `ip netns`, if there is one. It holds in all boots.
    pub(crate) name: Option<String>,
}

/// The cookie of a boot's first namespace, the host's own.
const FIRST_NAMESPACE: u64 = 1;

/// The place of an agent's journal for one namespace, in a state directory.
#[derive(Clone, Debug)]
pub struct StateFile {
    directory: PathBuf,
    namespace: NamespaceKey,
    pub(crate) agent: Agent,
}

impl Agent {
    pub(crate) fn of(options: &Options) -> Agent {
        Agent { marker: options.protocol(), domain: options.domain().name.clone() }
    }

    /// Returns the agent and the namespace's cookie from a journal's file name.
    fn of_file(name: &OsStr) -> Option<(u64, Agent)> {
        let stem = name.to_str()?.strip_suffix(EXTENSION)?.strip_suffix('.')?;
        let (cookie, agent) = stem.strip_prefix("netns-")?.split_once('-')?;
        let (marker, domain) = match agent.split_once('-') {
            Some((marker, domain)) => (marker, Some(domain.to_owned())),
            None => (agent, None),
        };
        Some((cookie.parse().ok()?, Agent { marker: marker.parse().ok()?, domain }))
    }
}

impl NamespaceKey {
    /// # Errors
    ///
    /// Fails if the kernel cannot be asked.
    pub(crate) fn of(namespace: &Namespace) -> Result<NamespaceKey> {
        Ok(NamespaceKey { cookie: namespace.cookie()?, name: namespace.name() })
    }

    /// Returns the scope of records about the host's files, commands, and other hosts. They outlive
    /// a boot if the namespace can be recognized after it.
    fn lasting_scope(&self, boot_id: &str) -> LedgerScope {
        match &self.name {
            Some(name) => LedgerScope::of_all_boots(format!("netns {name}")),
            None if self.cookie == FIRST_NAMESPACE => {
                LedgerScope::of_all_boots(self.cookie.to_string())
            }
            None => ledger_scope_of(self.cookie, boot_id),
        }
    }
}

impl fmt::Display for Agent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.marker)?;
        match &self.domain {
            Some(domain) => write!(f, "-{domain}"),
            None => Ok(()),
        }
    }
}

impl StateFile {
    /// Finds the journal's place for an agent in a namespace. If `given` is `None`, this is the
    /// first usual directory with the agent's journal, or else the first usual directory that is
    /// writable or can be made. A reader and a writer choose the same place. Makes no directory.
    ///
    /// # Errors
    ///
    /// Fails if another user could change a directory, or if it is unknown whether a usual
    /// directory has the journal.
    pub(crate) fn find(
        given: Option<&Path>,
        namespace: &NamespaceKey,
        agent: &Agent,
    ) -> Result<Option<StateFile>> {
        let places = directories(given).into_iter().map(|directory| StateFile {
            directory,
            namespace: namespace.clone(),
            agent: agent.clone(),
        });
        let mut places: Vec<StateFile> = places.collect();
        if let Some(given) = given {
            existing(given)?;
            return Ok(places.pop());
        }
        for place in &places {
            if place.is_in_use()? {
                return Ok(Some(place.clone()));
            }
        }
        Ok(places.into_iter().find(|place| is_usable(&place.directory)))
    }

    /// Returns the journals of all agents of this namespace in this directory, in order. Empty if
    /// the directory cannot be listed.
    pub(crate) fn of_all_agents(&self) -> Vec<StateFile> {
        let mut all = self.of_directory();
        all.retain(|it| it.namespace.cookie == self.namespace.cookie);
        all.sort_by(|one, other| one.agent.cmp(&other.agent));
        all
    }

    /// Returns the journals in this directory. Empty if it cannot be listed.
    #[expect(
        clippy::disallowed_methods,
        reason = "names alone: each journal is opened by way of `trueup_path`"
    )]
    fn of_directory(&self) -> Vec<StateFile> {
        let entries = fs::read_dir(&self.directory).into_iter().flatten().flatten();
        let journals = entries.filter_map(|entry| {
            let (cookie, agent) = Agent::of_file(&entry.file_name())?;
            let name = self.namespace.name.clone();
            Some(StateFile {
                directory: self.directory.clone(),
                namespace: NamespaceKey {
                    cookie,
                    name: name.filter(|_| cookie == self.namespace.cookie),
                },
                agent,
            })
        });
        journals.collect()
    }

    /// Returns true if the journal exists, or the lock of a process that writes it.
    fn is_in_use(&self) -> Result<bool> {
        let Some(folder) = existing(&self.directory)? else {
            return Ok(false);
        };
        let journal = self.name();
        for file in [journal::lock_file(&journal), journal.into()] {
            let found = folder.place(&file).metadata().with_context(|| {
                let directory = self.directory.display();
                format!(
                    "cannot know what trueup made in this namespace, as that may be in \
                     {directory}/{}; run it as the owner of {directory}, or name another directory \
                     with --state DIR",
                    file.display()
                )
            })?;
            if found.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the state directory in which the journal is.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Reads a ledger without a lock. If the journal is missing, the ledger is empty.
    ///
    /// # Errors
    ///
    /// Fails if the journal cannot be read or is damaged.
    pub(crate) fn read_ledger(&self, of: LedgerOf) -> Result<JournalLedger> {
        let file = self.file();
        let journal =
            Journal::open_read_only(&file).map_err(|error| describe_error(error, &file))?;
        let boot_id = boot_id()?;
        let ledger = self.ledger(of, &journal, &boot_id)?;
        if of.is_lasting() && ledger.is_empty()? {
            return Ok(self.earlier_ledger(of, &boot_id)?.unwrap_or(ledger));
        }
        Ok(ledger)
    }

    /// Returns the random id that identifies this state in the world. `None` if no process has
    /// needed one.
    ///
    /// # Errors
    ///
    /// Fails if the journal cannot be read or is damaged.
    pub fn world_id(&self) -> Result<Option<String>> {
        let known = self.read_ledger(LedgerOf::World)?.last_applied(WORLD_ID)?;
        Ok(known.map(String::from_utf8).transpose()?)
    }

    /// Locks the journal and reads it. Writes only the records of an earlier boot, including those
    /// of `sections`.
    ///
    /// # Errors
    ///
    /// Fails if another process holds the journal for longer than a second, or if it cannot be
    /// opened or is damaged.
    pub(crate) fn claim(self, sections: impl Iterator<Item = LedgerOf>) -> Result<State> {
        let boot_id = boot_id()?;
        make(&self.directory)?;
        let state = State::open(self, boot_id)?;
        state.take_over_earlier(sections)?;
        Ok(state)
    }

    fn ledger(&self, of: LedgerOf, journal: &Journal, boot_id: &str) -> Result<JournalLedger> {
        let scope = if of.is_lasting() {
            self.namespace.lasting_scope(boot_id)
        } else {
            ledger_scope_of(self.namespace.cookie, boot_id)
        };
        Ok(journal.ledger(&of.name(), &scope)?)
    }

    /// Returns the journal's path.
    pub(crate) fn file(&self) -> PathBuf {
        self.directory.join(self.name())
    }

    fn name(&self) -> String {
        let cookie = self.namespace.cookie;
        format!("netns-{cookie}-{}.{EXTENSION}", self.agent)
    }
}

impl State {
    /// Returns the random id that identifies this state in the world. It stays the same as long as
    /// the world's records do.
    ///
    /// # Errors
    ///
    /// Fails if the journal cannot be read or written.
    pub(crate) fn world_id(&self) -> Result<String> {
        Ok(self.with(|opened| {
            let new = opened.journal.id().map_err(LedgerError::new)?.to_string();
            let world = opened.of(LedgerOf::World)?;
            let known = world.last_applied(WORLD_ID).map_err(LedgerError::new)?;
            if let Some(known) = known {
                return String::from_utf8(known).map_err(LedgerError::new);
            }
            let claim = Claim::Ours(new.clone().into_bytes());
            world.commit_outcomes(BTreeMap::from([(WORLD_ID.to_vec(), claim)]))?;
            Ok(new)
        })?)
    }
}

/// Returns a journal's error with its remedy.
pub(crate) fn describe_error(error: journal::Error, file: &Path) -> Error {
    let shown = file.display();
    if error.is_held() {
        let holder = match error.holder() {
            Some((pid, command)) => format!("pid {pid} ({command})"),
            None => "it".into(),
        };
        return error!(
            "another trueup writes to this namespace with this marker: {holder} holds {shown}.lock. Stop it, or give the two \
             files different `protocol` numbers, or a `[domain]` with a name each"
        );
    }
    if error.is_damaged() {
        return Error::from(error).context(format!(
            "the journal {shown} is damaged, so nothing is done. `trueup journal check {shown}` looks at \
             it, `trueup journal export {shown}` prints what can be read, \
             `trueup journal repair {shown}` makes it usable, or says what that would lose"
        ));
    }
    let remedy = match remedy(&error) {
        Some(remedy) => format!("; {remedy}"),
        None => String::new(),
    };
    error!("cannot use the state file {shown}: {error}{remedy}")
}

/// Returns the remedy for a journal's error, or `None` if none is known.
pub(crate) fn remedy(error: &journal::Error) -> Option<&'static str> {
    use ErrorKind::{PermissionDenied, ReadOnlyFilesystem};
    error.remedy().or_else(|| {
        let cause: &io::Error = std::error::Error::source(error)?.downcast_ref()?;
        // If another user could change the file, the message already has the remedy.
        let refused = cause.get_ref().and_then(|error| error.downcast_ref());
        let is_forbidden = !refused.is_some_and(path::Error::is_refused)
            && matches!(cause.kind(), PermissionDenied | ReadOnlyFilesystem);
        is_forbidden.then_some(FIX_PERMISSIONS)
    })
}

/// The remedy for a journal that cannot be opened.
pub(crate) const FIX_PERMISSIONS: &str =
    "let the user that runs trueup read and write it, or run trueup as its owner";

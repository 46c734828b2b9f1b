//! The agents of a scenario: each with a source, a desired state, and a journal on disk as a process of its own would have it.
//! Not what passes tell: that is in `pass.rs`.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use trueup_cli::file::{self, Tables};
use trueup_diff::Desired;
use trueup_journal::{Journal, JournalLedger, Scope, Storage};
use trueup_netlink::{Namespace, Socket};
use trueup_rtnl::{OnConflict, Options, Ownership, Rtnl};

use crate::message::{Action, Kind, RawMessage};

/// The name of the agent that a scenario begins with.
const FIRST: &str = "one";

/// All agents of a scenario, one of whom acts, and what they share.
pub(super) struct Agents {
    house: House,
    agents: BTreeMap<String, Agent>,
    acting: String,
}

/// What is around a process.
pub(super) struct House {
    /// Of the journals, for the time of the scenario.
    directory: PathBuf,
    boot: u32,
    clock: Clock,
    /// Agents go by the ledger where the file does not say otherwise.
    by_ledger: bool,
}

/// Time stands still unless it is told to pass.
#[derive(Clone)]
struct Clock {
    start: Instant,
    passed: Arc<Mutex<Duration>>,
}

impl Clock {
    fn now(&self) -> Instant {
        self.start + *self.passed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One agent. What it is told outlives its process; its source and its hold on the journal do not.
pub(super) struct Agent {
    pub(super) source: Rtnl,
    pub(super) desired: Desired,
    pub(super) options: Options,
    open: Option<Open>,
    /// What appeared in its passes, as it was then: its own, whatever it says of it.
    made: BTreeSet<RawMessage>,
    /// Kinds of which it said that it made a stranger's its own.
    adopted: BTreeSet<Kind>,
}

/// A journal that is held.
struct Open {
    /// What it is of.
    cookie: u64,
    marker: u8,
    ledger: JournalLedger,
}

impl Agents {
    pub(super) fn new(by_ledger: bool) -> Result<Agents, String> {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        // In memory where there is such a place, as syncs are then for nothing.
        let shared = Path::new("/dev/shm");
        let base = if shared.is_dir() {
            shared.to_owned()
        } else {
            std::env::temp_dir()
        };
        let directory = base.join(format!("trueup-scenario-{}-{count}", std::process::id()));
        fs::create_dir(&directory).map_err(|error| format!("{}: {error}", directory.display()))?;
        let clock = Clock {
            start: Instant::now(),
            passed: Arc::default(),
        };
        let house = House {
            directory,
            boot: 1,
            clock,
            by_ledger,
        };
        let first = Agent::new(&house);
        Ok(Agents {
            house,
            agents: BTreeMap::from([(FIRST.to_owned(), first)]),
            acting: FIRST.to_owned(),
        })
    }

    /// Whoever acts, and what is around it.
    pub(super) fn acting(&mut self) -> (&mut Agent, &House) {
        let house = &self.house;
        let name = self.acting.clone();
        let agent = self.agents.entry(name).or_insert_with(|| Agent::new(house));
        (agent, house)
    }

    pub(super) fn turn_to(&mut self, name: &str) {
        name.clone_into(&mut self.acting);
    }

    pub(super) fn later(&mut self, time: Duration) {
        let mut passed = self
            .house
            .clock
            .passed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        *passed += time;
    }

    /// All of them run anew.
    pub(super) fn restart(&mut self) {
        for agent in self.agents.values_mut() {
            agent.restart(&self.house);
        }
    }

    pub(super) fn reboot(&mut self) {
        self.house.boot += 1;
        self.restart();
    }

    /// What was announced: an index that is free is nobody's.
    pub(super) fn note_gone(&mut self, announced: &[RawMessage]) {
        let gone = |row: &&RawMessage| row.kind == Kind::Link && row.action == Action::Del;
        for link in announced.iter().filter(gone) {
            for agent in self.agents.values_mut() {
                agent
                    .made
                    .retain(|row| row.kind != Kind::Link || row.device() != link.device());
            }
        }
    }
}

impl Drop for Agents {
    fn drop(&mut self) {
        self.agents.clear();
        let _left_behind = fs::remove_dir_all(&self.house.directory);
    }
}

impl Agent {
    fn new(house: &House) -> Agent {
        Agent {
            source: source(house),
            desired: Desired::default(),
            options: Options::default(),
            open: None,
            made: BTreeSet::new(),
            adopted: BTreeSet::new(),
        }
    }

    /// Takes a desired-state file; `name` is what errors call it.
    pub(super) fn want(&mut self, house: &House, name: &str, text: &str) -> Result<(), String> {
        let file = file::File::parse(name, text.as_bytes(), &Tables::default())
            .map_err(|error| error.to_string())?;
        // As `apply` has it where a file says nothing.
        let mut settings = file.settings;
        if house.by_ledger {
            // Of the other kinds the kernel keeps no marker.
            let routes = settings.ownership.entry(trueup_diff::Kind::Route);
            routes.or_insert(Ownership::Ledger);
        }
        let options = settings.options(Duration::ZERO);
        self.options = options.map_err(|error| error.to_string())?;
        self.desired = file.desired;
        Ok(())
    }

    pub(super) fn marker(&self) -> u8 {
        self.options.protocol()
    }

    /// Whether it may replace what is a stranger's.
    pub(super) fn takes(&self) -> bool {
        self.options.on_conflict() == OnConflict::Take
    }

    /// Another process takes its place.
    pub(super) fn restart(&mut self, house: &House) {
        self.open = None;
        self.source = source(house);
    }

    /// And finds no journal.
    pub(super) fn forget(&mut self, house: &House) -> Result<(), String> {
        self.restart(house);
        for entry in fs::read_dir(&house.directory)
            .map_err(|error| error.to_string())?
            .flatten()
        {
            let marker = format!("-{}.", self.marker());
            if entry.file_name().to_string_lossy().contains(&marker) {
                fs::remove_file(entry.path()).map_err(|error| error.to_string())?;
            }
        }
        Ok(())
    }

    /// What it owns here; opens the journal unless it is open.
    pub(super) fn ledger(
        &mut self,
        house: &House,
        namespace: &Namespace,
    ) -> Result<JournalLedger, String> {
        let cookie = cookie(namespace)?;
        let marker = self.marker();
        let open = match self.open.take() {
            Some(open) if (open.cookie, open.marker) == (cookie, marker) => open,
            other => {
                // Closed first.
                drop(other);
                let journal = Journal::open(house.journal(cookie, marker))
                    .map_err(|error| error.to_string())?;
                Open {
                    cookie,
                    marker,
                    ledger: house.ledger(&journal, cookie)?,
                }
            }
        };
        Ok(self.open.insert(open).ledger.clone())
    }

    /// Opens the journal on a disk that refuses every sync from then on.
    pub(super) fn break_journal(
        &mut self,
        house: &House,
        namespace: &Namespace,
    ) -> Result<(), String> {
        self.open = None;
        let (cookie, marker) = (cookie(namespace)?, self.marker());
        let os = |error: io::Error| error.to_string();
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(false);
        let file = options.open(house.journal(cookie, marker)).map_err(os)?;
        if file.metadata().map_err(os)?.len() == 0 {
            let made = Journal::create_on(file.try_clone().map_err(os)?);
            made.map_err(|error| error.to_string())?;
        }
        let disk = Disk {
            file,
            broken: Arc::default(),
        };
        let broken = disk.broken.clone();
        let journal = Journal::open_on(disk).map_err(|error| error.to_string())?;
        broken.store(true, Ordering::Relaxed);
        self.open = Some(Open {
            cookie,
            marker,
            ledger: house.ledger(&journal, cookie)?,
        });
        Ok(())
    }

    /// Notes what is there after its pass and was not before.
    pub(super) fn note_made(&mut self, before: &[RawMessage], after: &[RawMessage]) {
        let new = after
            .iter()
            .filter(|row| before.binary_search(row).is_err());
        self.made.extend(new.cloned());
    }

    /// Notes that it said so of an object of this kind.
    pub(super) fn note_adopted(&mut self, kind: &str) {
        let kinds = Kind::ALL.into_iter().filter(|known| known.word() == kind);
        self.adopted.extend(kinds);
    }

    /// Whether it may do with a row as it likes: it made it, or it bears its marker, or it was allowed to take such rows over,
    /// and said that it did.
    pub(super) fn owns(&self, row: &RawMessage) -> bool {
        let made = match row.kind {
            Kind::Link => self.has_link(row.device()),
            _ => self.made.contains(row),
        };
        made || row.protocol() == Some(self.marker()) || self.adopted.contains(&row.kind)
    }

    /// Whether a link is of its making.
    pub(super) fn has_link(&self, index: u32) -> bool {
        self.made
            .iter()
            .any(|row| row.kind == Kind::Link && row.device() == index)
    }
}

impl House {
    /// As the reference agent has it: of a namespace, by its cookie, and a marker.
    fn journal(&self, cookie: u64, marker: u8) -> PathBuf {
        self.directory
            .join(format!("netns-{cookie}-{marker}.journal"))
    }

    fn ledger(&self, journal: &Journal, cookie: u64) -> Result<JournalLedger, String> {
        let scope = Scope::new(cookie.to_string(), format!("boot {}", self.boot));
        journal
            .ledger("rtnl", &scope)
            .map_err(|error| error.to_string())
    }
}

fn source(house: &House) -> Rtnl {
    let clock = house.clock.clone();
    Rtnl::with_clock(move || clock.now())
}

fn cookie(namespace: &Namespace) -> Result<u64, String> {
    let socket = Socket::open(namespace).map_err(|error| error.to_string())?;
    socket.netns_cookie().map_err(|error| error.to_string())
}

/// A file whose syncs fail once it is broken.
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

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, action: Action) -> RawMessage {
        let mut header = vec![0; Kind::Link.header_len()];
        header[4..8].copy_from_slice(&index.to_ne_bytes());
        RawMessage {
            kind: Kind::Link,
            action,
            header,
            attrs: [(3, vec![b'v', 0])].into(),
        }
    }

    #[test]
    fn what_appears_in_a_pass_is_the_agents_own_until_it_is_gone() {
        let mut agents = Agents::new(false).unwrap();
        let (there, new) = (link(7, Action::New), link(8, Action::New));
        let (agent, _) = agents.acting();
        agent.note_made(std::slice::from_ref(&there), &[there.clone(), new.clone()]);
        assert!(agent.owns(&new) && !agent.owns(&there));
        agents.turn_to("two");
        assert!(!agents.acting().0.owns(&new));
        agents.note_gone(&[link(8, Action::Del)]);
        agents.turn_to(FIRST);
        // Another's by now.
        assert!(!agents.acting().0.owns(&new));
    }

    #[test]
    fn a_journal_outlives_a_process_and_no_boot() {
        use std::collections::BTreeMap;
        use trueup_reconcile::{Claim, Ledger as _};

        let namespace = crate::fake::Kernel::new().namespace();
        let mut agents = Agents::new(false).unwrap();
        let owned = |agents: &mut Agents| {
            let (agent, house) = agents.acting();
            agent
                .ledger(house, &namespace)
                .unwrap()
                .owned()
                .unwrap()
                .len()
        };
        let ours = BTreeMap::from([(b"k".to_vec(), Claim::Ours(Vec::new()))]);
        let (agent, house) = agents.acting();
        agent
            .ledger(house, &namespace)
            .unwrap()
            .settle(ours.clone())
            .unwrap();
        agents.restart();
        assert_eq!(owned(&mut agents), 1);
        let (agent, house) = agents.acting();
        agent.break_journal(house, &namespace).unwrap();
        let mut ledger = agent.ledger(house, &namespace).unwrap();
        assert!(
            ledger
                .begin(BTreeMap::from([(b"l".to_vec(), Claim::NotOurs)]))
                .is_err()
        );
        drop(ledger);
        agents.reboot();
        assert_eq!(owned(&mut agents), 0);
        let (agent, house) = agents.acting();
        agent.forget(house).unwrap();
        assert_eq!(owned(&mut agents), 0);
    }
}

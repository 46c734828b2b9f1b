//! The agents of a scenario: each with a source, a desired state, and a journal on disk as a process of its own would have it.
//! Not what passes tell: that is in `pass.rs`.

mod house;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use trueup_diff::Desired;
use trueup_file::{File, Settings, TableNames};
use trueup_journal::JournalLedger;
use trueup_netlink::{Namespace, Socket};
use trueup_reconcile::{Hints, Source, Subscribed};
use trueup_rtnl::{OnConflict, Options, Ownership, ReservedProtocol, Rtnl};

use crate::faults::Faults;
use crate::message::{Action, Kind, RawMessage};
pub(super) use house::House;
use house::Of;

/// The name of the agent that a scenario begins with.
const FIRST: &str = "one";

/// All agents of a scenario, one of whom acts, and what they share.
pub(super) struct Agents {
    agents: BTreeMap<String, Agent>,
    acting: String,
    /// Goes last: journals lie in it.
    house: House,
}

/// One agent. What it is told outlives its process; its source and its hold on the journal do not.
pub(super) struct Agent {
    pub(super) source: Rtnl,
    /// What it hears, where it listens.
    pub(super) ears: Option<Ears>,
    pub(super) desired: Desired,
    pub(super) options: Options,
    /// The journal that is held, and whose it is.
    open: Option<(Of, JournalLedger)>,
    /// What appeared in its passes, as it was then: its own, whatever it says of it.
    made: BTreeSet<RawMessage>,
    /// Kinds of which it said that it made a stranger's its own.
    adopted: BTreeSet<Kind>,
}

/// A subscription, and what goes wrong on its way.
pub(super) struct Ears {
    pub(super) subscription: <Rtnl as Source>::Subscription,
    pub(super) faults: Faults,
}

impl Agents {
    pub(super) fn new(by_ledger: bool) -> Result<Agents, String> {
        let house = House::new(by_ledger)?;
        let first = Agent::new(&house);
        Ok(Agents {
            agents: BTreeMap::from([(FIRST.to_owned(), first)]),
            acting: FIRST.to_owned(),
            house,
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
        self.house.later(time);
    }

    /// All of them run anew.
    pub(super) fn restart(&mut self) {
        for agent in self.agents.values_mut() {
            agent.restart(&self.house);
        }
    }

    pub(super) fn reboot(&mut self) {
        self.house.reboot();
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

/// Returns the options that the settings of a file name; there is no grace unless the file says so.
///
/// # Errors
///
/// When the protocol is reserved, which that of a file that was read never is.
pub fn options(settings: &Settings) -> Result<Options, ReservedProtocol> {
    let options = Options::default()
        .with_protocol(settings.protocol)?
        .with_adopt(settings.adopt)
        .with_adopt_protocols(settings.adopt_protocols)
        .with_on_conflict(settings.on_conflict)
        .with_grace(settings.grace.unwrap_or(Duration::ZERO));
    let each = settings.ownership.iter();
    Ok(each.fold(options, |options, (kind, proof)| {
        options.with_ownership(*kind, *proof)
    }))
}

impl Agent {
    fn new(house: &House) -> Agent {
        Agent {
            source: house.source(),
            ears: None,
            desired: Desired::default(),
            options: Options::default(),
            open: None,
            made: BTreeSet::new(),
            adopted: BTreeSet::new(),
        }
    }

    /// Takes a desired-state file; `name` is what errors call it.
    pub(super) fn want(&mut self, house: &House, name: &str, text: &str) -> Result<(), String> {
        let file = File::parse(name, text.as_bytes(), &TableNames::default())
            .map_err(|error| error.to_string())?;
        // As `apply` has it where a file says nothing.
        let mut settings = file.settings;
        if house.by_ledger {
            // Of the other kinds the kernel keeps no marker.
            let routes = settings.ownership.entry(trueup_diff::Kind::Route);
            routes.or_insert(Ownership::Ledger);
        }
        self.options = options(&settings).map_err(|error| error.to_string())?;
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
        self.ears = None;
        self.source = house.source();
    }

    /// It subscribes; a subscription that it has ends.
    pub(super) fn listen(&mut self, namespace: &Namespace) -> Result<(), String> {
        self.ears = None;
        let faults = Faults::over(namespace.clone());
        // The descriptor is not polled, so that nobody asks for a hint.
        let hints = Hints::new(|| {});
        match self.source.subscribe(&faults.namespace(), hints) {
            Subscribed::Active(subscription) => {
                self.ears = Some(Ears {
                    subscription,
                    faults,
                });
                Ok(())
            }
            Subscribed::Unsupported => Err("the source gives no hints".to_owned()),
            Subscribed::Failed(error) => Err(error.to_string()),
        }
    }

    /// And finds no journal.
    pub(super) fn forget(&mut self, house: &House) -> Result<(), String> {
        self.restart(house);
        let forgotten = house.forget(self.marker());
        forgotten.map_err(|error| error.to_string())
    }

    /// What it owns here; opens the journal unless it is open.
    pub(super) fn ledger(
        &mut self,
        house: &House,
        namespace: &Namespace,
    ) -> Result<JournalLedger, String> {
        let of = self.journal(namespace)?;
        if self.open.as_ref().is_none_or(|(open, _)| *open != of) {
            // Closed first.
            self.open = None;
        }
        let ledger = match self.open.take() {
            Some((_, ledger)) => ledger,
            None => house.open(of)?,
        };
        self.open = Some((of, ledger.clone()));
        Ok(ledger)
    }

    /// Opens the journal on a disk that refuses every sync from then on.
    pub(super) fn break_journal(
        &mut self,
        house: &House,
        namespace: &Namespace,
    ) -> Result<(), String> {
        self.open = None;
        let of = self.journal(namespace)?;
        self.open = Some((of, house.open_broken(of)?));
        Ok(())
    }

    fn journal(&self, namespace: &Namespace) -> Result<Of, String> {
        let socket = Socket::open(namespace).map_err(|error| error.to_string())?;
        let cookie = socket.netns_cookie().map_err(|error| error.to_string())?;
        let marker = self.marker();
        Ok(Of { cookie, marker })
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
            .commit_outcomes(ours.clone())
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

//! The agents of a scenario. Like a process, each has a source, a desired state, and a journal on
//! disk. `pass.rs` formats their reports.

mod host;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use trueup_file::{File, Settings, TableNames};
use trueup_journal::JournalLedger;
use trueup_net::Desired;
use trueup_netlink::{Namespace, Socket};
use trueup_reconcile::{Hints, OpKey, Source, Status, Subscribed};
use trueup_rtnl::{Options, Ownership, Rtnl};

pub(super) use host::Host;
use host::JournalOwner;
use trueup_testkit::{Action, Kind, RawMessage};

/// The name of the first agent in a scenario.
const FIRST: &str = "one";

/// All agents of a scenario, the acting one, and their host.
pub(super) struct Agents {
    agents: BTreeMap<String, Agent>,
    acting: String,
    /// Dropped last, as it holds the journals.
    host: Host,
}

/// One agent. Its desired state outlives its process; its source and its open journal do not.
pub(super) struct Agent {
    pub(super) source: Rtnl,
    pub(super) desired: Desired,
    pub(super) options: Options,
    /// The objects that are not in place, by the reports since its last restart.
    pub(super) statuses: BTreeMap<OpKey, Arc<Status>>,
    /// The open journal and its owner; `None` until the first use.
    open: Option<(JournalOwner, JournalLedger)>,
    /// Its own rows: those that appeared in its passes, as they were then.
    made: BTreeSet<RawMessage>,
    /// The kinds for which it reported an adopted or overridden object.
    adopted: BTreeSet<Kind>,
}

impl Agents {
    pub(super) fn new(by_ledger: bool) -> Result<Agents, String> {
        let host = Host::new(by_ledger)?;
        let first = Agent::new(&host);
        Ok(Agents {
            agents: BTreeMap::from([(FIRST.to_owned(), first)]),
            acting: FIRST.to_owned(),
            host,
        })
    }

    /// Returns the acting agent, and its host.
    pub(super) fn acting(&mut self) -> (&mut Agent, &Host) {
        let host = &self.host;
        let name = self.acting.clone();
        let agent = self.agents.entry(name).or_insert_with(|| Agent::new(host));
        (agent, host)
    }

    pub(super) fn switch_to(&mut self, name: &str) {
        name.clone_into(&mut self.acting);
    }

    pub(super) fn later(&mut self, time: Duration) {
        self.host.later(time);
    }

    /// Restarts all agents' processes.
    pub(super) fn restart(&mut self) {
        for agent in self.agents.values_mut() {
            agent.restart(&self.host);
        }
    }

    pub(super) fn reboot(&mut self) {
        self.host.reboot();
        self.restart();
    }

    /// Removes deleted links from the agents' rows: their indexes are free.
    pub(super) fn record_deleted_links(&mut self, announced: &[RawMessage]) {
        for link in
            announced.iter().filter(|row| row.kind == Kind::Link && row.action == Action::Del)
        {
            for agent in self.agents.values_mut() {
                agent.made.retain(|row| row.kind != Kind::Link || row.device() != link.device());
            }
        }
    }
}

/// Returns the options from a file's settings; without a setting there is no grace.
///
/// # Errors
///
/// If the protocol is reserved, which a parsed file never has.
fn options(settings: &Settings) -> Result<Options, trueup_rtnl::Error> {
    let mut options = Options::default()
        .with_registered_protocol(settings.protocol)?
        .with_adopt(settings.adopt)
        .with_adopt_protocols(settings.adopt_protocols)
        .with_take(settings.take)
        .with_grace(settings.grace.unwrap_or(Duration::ZERO))
        .with_domain(settings.domain.clone());
    if let Some(max_deletes) = settings.max_deletes {
        options = options.with_max_deletes(max_deletes);
    }
    let each = settings.ownership.iter();
    Ok(each.fold(options, |options, (kind, proof)| options.with_ownership(*kind, *proof)))
}

impl Agent {
    fn new(host: &Host) -> Agent {
        Agent {
            source: host.source(),
            desired: Desired::default(),
            options: Options::default(),
            statuses: BTreeMap::new(),
            open: None,
            made: BTreeSet::new(),
            adopted: BTreeSet::new(),
        }
    }

    /// Sets the desired state from a file; errors call it `name`.
    pub(super) fn set_desired(
        &mut self,
        host: &Host,
        name: &str,
        text: &str,
    ) -> Result<(), String> {
        let file = File::parse(name, text.as_bytes(), &TableNames::default())
            .map_err(|error| error.to_string())?;
        // As `apply` does for missing settings.
        let mut settings = file.settings;
        if host.by_ledger {
            // For the other kinds the kernel keeps no marker.
            let routes = settings.ownership.entry(trueup_net::Kind::Route);
            routes.or_insert(Ownership::Ledger);
        }
        self.options = options(&settings).map_err(|error| error.to_string())?;
        self.desired = file.desired;
        Ok(())
    }

    pub(super) fn marker(&self) -> u8 {
        self.options.protocol()
    }

    /// Returns true if the agent may override foreign objects.
    pub(super) fn may_override(&self) -> bool {
        self.options.take()
    }

    /// Replaces its process: keeps the desired state, loses source and open journal.
    pub(super) fn restart(&mut self, host: &Host) {
        self.open = None;
        self.statuses.clear();
        self.source = host.source();
    }

    /// Subscribes to announcements; an earlier subscription ends.
    pub(super) fn listen(&mut self, namespace: &Namespace) -> Result<(), String> {
        // No hint is needed, as the descriptor is not polled.
        let hints = Hints::new(|| {});
        match self.source.subscribe(namespace, hints) {
            Subscribed::Active(()) => Ok(()),
            Subscribed::Unsupported => Err("the source gives no hints".to_owned()),
            Subscribed::Failed(error) => Err(error.to_string()),
        }
    }

    /// Restarts the agent without a journal.
    pub(super) fn forget(&mut self, host: &Host) -> Result<(), String> {
        self.restart(host);
        let forgotten = host.forget(self.marker());
        forgotten.map_err(|error| error.to_string())
    }

    /// Returns its ledger for the namespace; opens the journal unless it is open.
    pub(super) fn ledger(
        &mut self,
        host: &Host,
        namespace: &Namespace,
    ) -> Result<JournalLedger, String> {
        let owner = self.journal(namespace)?;
        if self.open.as_ref().is_none_or(|(open, _)| *open != owner) {
            // Close the old journal first.
            self.open = None;
        }
        let ledger = match self.open.take() {
            Some((_, ledger)) => ledger,
            None => host.open(&owner)?,
        };
        self.open = Some((owner, ledger.clone()));
        Ok(ledger)
    }

    /// Opens the journal on a disk that refuses every sync from then on.
    pub(super) fn break_journal(
        &mut self,
        host: &Host,
        namespace: &Namespace,
    ) -> Result<(), String> {
        self.open = None;
        let owner = self.journal(namespace)?;
        let ledger = host.open_broken(&owner)?;
        self.open = Some((owner, ledger));
        Ok(())
    }

    fn journal(&self, namespace: &Namespace) -> Result<JournalOwner, String> {
        let socket = Socket::open(namespace).map_err(|error| error.to_string())?;
        let cookie = socket.netns_cookie().map_err(|error| error.to_string())?;
        Ok(JournalOwner {
            cookie,
            marker: self.marker(),
            domain: self.options.domain().name.clone(),
        })
    }

    /// Records the rows that appeared during its pass.
    pub(super) fn record_made(&mut self, before: &[RawMessage], after: &[RawMessage]) {
        let new = after.iter().filter(|row| before.binary_search(row).is_err());
        self.made.extend(new.cloned());
    }

    /// Records that the agent reported an adopted or overridden object of this kind.
    pub(super) fn record_adopted(&mut self, kind: &str) {
        let kinds = Kind::ALL.into_iter().filter(|known| known.word() == kind);
        self.adopted.extend(kinds);
    }

    /// Returns true if the agent owns a row: it made the row, the row has its marker (which no
    /// other agent uses), or it reported an adopted or overridden object of the kind.
    pub(super) fn owns(&self, row: &RawMessage) -> bool {
        let made = match row.kind {
            Kind::Link => self.has_link(row.device()),
            _ => self.made.contains(row),
        };
        let has_marker = !self.options.domain().is_limited();
        made || has_marker && row.protocol() == Some(self.marker())
            || self.adopted.contains(&row.kind)
    }

    /// Returns true if the agent made the link with this index.
    pub(super) fn has_link(&self, index: u32) -> bool {
        self.made.iter().any(|row| row.kind == Kind::Link && row.device() == index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn link(index: u32, action: Action) -> RawMessage {
        let mut header = vec![0; Kind::Link.header_len()];
        header[4..8].copy_from_slice(&index.to_ne_bytes());
        RawMessage { kind: Kind::Link, action, header, attrs: [(3, vec![b'v', 0])].into() }
    }

    #[test]
    fn what_appears_in_a_pass_is_the_agents_own_until_it_is_gone() {
        let mut agents = Agents::new(false).unwrap();
        let (there, new) = (link(7, Action::New), link(8, Action::New));
        let (agent, _) = agents.acting();
        agent.record_made(std::slice::from_ref(&there), &[there.clone(), new.clone()]);
        assert!(agent.owns(&new) && !agent.owns(&there));
        agents.switch_to("two");
        assert!(!agents.acting().0.owns(&new));
        agents.record_deleted_links(&[link(8, Action::Del)]);
        agents.switch_to(FIRST);
        // The index now belongs to another link.
        assert!(!agents.acting().0.owns(&new));
    }

    #[test]
    fn a_journal_outlives_a_process_and_no_boot() {
        use std::collections::BTreeMap;
        use trueup_reconcile::{Claim, Ledger as _};

        let namespace = Namespace::current();
        let mut agents = Agents::new(false).unwrap();
        let owned = |agents: &mut Agents| {
            let (agent, host) = agents.acting();
            agent.ledger(host, &namespace).unwrap().owned().unwrap().len()
        };
        let ours = BTreeMap::from([(b"k".to_vec(), Claim::Ours(Vec::new()))]);
        let (agent, host) = agents.acting();
        agent.ledger(host, &namespace).unwrap().commit_outcomes(ours.clone()).unwrap();
        agents.restart();
        assert_eq!(owned(&mut agents), 1);
        let (agent, host) = agents.acting();
        agent.break_journal(host, &namespace).unwrap();
        let mut ledger = agent.ledger(host, &namespace).unwrap();
        assert!(ledger.begin(BTreeMap::from([(b"l".to_vec(), Claim::NotOurs)])).is_err());
        drop(ledger);
        agents.reboot();
        assert_eq!(owned(&mut agents), 0);
        let (agent, host) = agents.acting();
        agent.forget(host).unwrap();
        assert_eq!(owned(&mut agents), 0);
    }
}

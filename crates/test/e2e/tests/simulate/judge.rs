//! The judges check the invariants after each step, from the kernel's rows and the agent's
//! messages.

mod converged;
mod messages;
mod owners;
mod report;

use std::collections::BTreeMap;
use std::fmt;

use trueup_net::Desired;
use trueup_testkit::{Kind, RawMessage};

use crate::script::Setup;
use messages::PassMessages;
use owners::Owners;
use trueup_e2e::world::{Id, World as Rows};

/// A broken invariant, by its number in `docs/safety.md`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) invariant: u8,
    pub(crate) what: String,
}

/// IFLA_IFNAME.
const IFNAME: u16 = 3;

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = trueup_e2e::scenario::INVARIANTS[usize::from(self.invariant) - 1];
        write!(f, "invariant {}: {name}: {}", self.invariant, self.what)
    }
}

pub(crate) struct Judge {
    /// The first violation.
    pub(crate) violation: Option<Violation>,
    owners: Owners,
    /// The rows before the agent and other writers came.
    base: Option<Rows>,
    pass: PassMessages,
    /// Other writers' changes, with their time.
    writes: BTreeMap<Id, Write>,
    desired: Desired,
    /// True if nothing has happened since a pass that converged.
    is_quiet: bool,
    /// The number of the namespace to which the agent is subscribed.
    bound: Option<u64>,
    /// True if the agent has read the links, and none was added, deleted or renamed since.
    pub(crate) has_links: bool,
}

/// A change by another writer.
struct Write {
    row: RawMessage,
    step: u64,
    is_removal: bool,
}

impl Judge {
    pub(crate) fn new(setup: &Setup) -> Judge {
        Judge {
            violation: None,
            owners: Owners::new(setup),
            base: None,
            pass: PassMessages::default(),
            writes: BTreeMap::new(),
            desired: Desired::default(),
            is_quiet: false,
            bound: None,
            has_links: false,
        }
    }

    pub(crate) fn fail(&mut self, invariant: u8, what: String) {
        self.violation.get_or_insert(Violation { invariant, what });
    }

    pub(crate) fn set_base(&mut self, base: Rows) {
        self.base = Some(base);
    }

    pub(crate) fn set_desired(&mut self, desired: &Desired) {
        self.desired = desired.clone();
        self.is_quiet = false;
    }

    pub(crate) fn set_bound(&mut self, namespace: Option<u64>) {
        self.bound = namespace;
    }

    pub(crate) fn recreated(&mut self) {
        self.has_links = false;
        self.owners.clear();
        self.is_quiet = false;
    }

    pub(crate) fn fault_happened(&mut self) {
        self.is_quiet = false;
    }

    /// Handles another writer's change of the rows.
    pub(crate) fn writer_acted(&mut self, before: &Rows, after: &Rows, step: u64) {
        let ids = before.rows.keys().chain(after.rows.keys());
        for id in ids.filter(|id| before.rows.get(id) != after.rows.get(id)) {
            let rows = before.rows.get(id).or_else(|| after.rows.get(id));
            if let Some(row) = rows.and_then(|rows| rows.first()) {
                let named = |rows: &Rows| {
                    let link = rows.rows.get(id).and_then(|rows| rows.first());
                    link.map(|link| (link.device(), link.attrs.get(&IFNAME).cloned()))
                };
                self.has_links &= row.kind != Kind::Link || named(before) == named(after);
                let write =
                    Write { row: row.clone(), step, is_removal: !after.rows.contains_key(id) };
                self.writes.insert(id.clone(), write);
            }
            self.is_quiet = false;
        }
        self.owners.writer_acted(before, after, step);
    }

    /// Returns true if a write in this step may have moved a dump's position past a row: a change
    /// of a rule or a removed neighbour of the family, a change of an IPv6 route in the table, or
    /// of an IPv4 route to the destination. A new neighbour comes before all dumped ones.
    pub(crate) fn has_moved(&self, row: &RawMessage, step: u64) -> bool {
        let moves = |write: &Write| {
            let written = &write.row;
            let is_beside =
                write.step == step && (written.kind, written.family()) == (row.kind, row.family());
            let is_v4 = row.family() == 2;
            // Proxies have their own table.
            let is_proxy = |other: &RawMessage| other.header[10] & 8 != 0;
            if is_beside && row.kind == Kind::Neighbour {
                return write.is_removal && is_proxy(written) == is_proxy(row);
            }
            let is_to = |other: &RawMessage| (other.header[1], other.attrs.get(&1).cloned());
            is_beside
                && (row.kind != Kind::Route
                    || written.table() == row.table() && (!is_v4 || is_to(written) == is_to(row)))
        };
        self.writes.values().any(moves)
    }

    /// Handles a change of the rows by the agent's message.
    pub(crate) fn agent_changed(&mut self, before: &Rows, after: &Rows) {
        let pass = &self.pass;
        let changed = self.owners.agent_changed(before, after, |kind| pass.read_at(kind));
        if let Err(what) = changed {
            self.fail(1, what);
        }
        if self.is_quiet && before.rows != after.rows {
            let (lost, new) = (after.lacks(before), before.lacks(after));
            let what = "nothing has happened since a pass that converged, and";
            self.fail(3, format!("{what} lost is\n{lost}and new is\n{new}"));
        }
    }

    /// Returns our objects, one a line.
    pub(crate) fn ours(&self, rows: &Rows) -> String {
        self.owners.lines_of_ours(rows)
    }

    pub(crate) fn is_foreign(&self, id: &Id) -> bool {
        !self.owners.is_ours(id)
    }

    /// Checks the end: nothing is declared, other writers' objects are gone, and the rows are as at
    /// the beginning.
    pub(crate) fn all_is_gone(&mut self, rows: &Rows) {
        let Some(base) = &self.base else {
            return;
        };
        let (left, lost) = (base.lacks(rows), rows.lacks(base));
        if !left.is_empty() || !lost.is_empty() {
            self.fail(5, format!("left is\n{left}and lost is\n{lost}"));
        }
    }

    /// Returns true for a row that was there at the beginning.
    pub(crate) fn is_base(&self, id: &Id) -> bool {
        self.base.as_ref().is_some_and(|base| base.rows.contains_key(id))
    }
}

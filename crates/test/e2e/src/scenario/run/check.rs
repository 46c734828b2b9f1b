//! Checks of a scenario: the state, the announcements, and that no foreign object was touched.

use super::super::numbers::BRIDGE;
use super::super::object::{self, is_the_kernels_own};
use super::super::writer::Trouble;
use super::super::{INVARIANTS, Selection};
use super::Run;
use std::fmt::Write as _;
use trueup_testkit::{Kind, RawMessage};

impl Run<'_> {
    /// Fails if a pass deleted or changed a foreign object.
    pub(super) fn foreign_is_untouched(&mut self, after: &[RawMessage]) -> Result<(), Stop> {
        let (agent, _) = self.agents.acting();
        let mut lost = String::new();
        for row in &self.before {
            let concerns = match row.kind {
                Kind::Link => true,
                Kind::Neighbour => is_declared(row),
                _ => !is_derived(row),
            };
            let there = match row.kind {
                // A declared link may change, whichever writer made it.
                Kind::Link => {
                    after.iter().any(|now| now.kind == Kind::Link && now.device() == row.device())
                }
                _ => after.binary_search(row).is_ok(),
            };
            if concerns && !there && !agent.owns(row) {
                let _infallible = writeln!(lost, "  - {row}");
            }
        }
        if lost.is_empty() {
            return Ok(());
        }
        Err(Stop::Differs(format!(
            "invariant 1: {}\nafter the pass these are gone or changed:\n{lost}",
            INVARIANTS[0]
        )))
    }

    pub(super) fn state(&mut self, selection: &Selection, expected: &[String]) -> Result<(), Stop> {
        let rows = self.machine.rows(selection.kind, selection.family);
        let names = self.machine.names().clone();
        let stay = |row: &&RawMessage| {
            row.kind != Kind::Neighbour
                || row.family() == BRIDGE
                || selection.all
                || is_declared(row)
                || is_answered(row)
        };
        let mut got: Vec<_> = rows
            .iter()
            .filter(stay)
            .map(|row| (row, object::phrase(row, &names, selection.details)))
            .filter(|(row, phrase)| selection.takes(row, phrase, &names))
            .map(|(_, phrase)| phrase)
            .collect();
        let mut wanted: Vec<_> =
            expected.iter().map(|text| object::expected(selection.kind, text)).collect();
        if self.unmarked.contains(&selection.kind) {
            let marker = self.agents.acting().0.marker();
            let all = got.iter_mut().chain(&mut wanted);
            all.for_each(|phrase| *phrase = phrase.clone().unmarked(marker));
        }
        let [mut got, mut wanted] =
            [got, wanted].map(|all| all.iter().map(ToString::to_string).collect::<Vec<_>>());
        got.sort();
        wanted.sort();
        same(
            &format!("the {} rows that exist and those expected", selection.kind.word()),
            &wanted,
            &got,
        )
    }

    pub(super) fn unchanged(&mut self, except: &[String]) -> Result<(), Stop> {
        let names = self.machine.names().clone();
        let (agent, _) = self.agents.acting();
        let foreign = |row: &&RawMessage| {
            !agent.owns(row)
                && !agent.has_link(row.device())
                && !except.iter().any(|name| names.get(&row.device()) == Some(name))
        };
        let lines = |rows: &[RawMessage]| {
            rows.iter().filter(foreign).map(ToString::to_string).collect::<Vec<_>>()
        };
        let before = lines(&self.before);
        let after = lines(&self.machine.everything());
        same("the foreign objects", &before, &after)
            .map_err(|stop| stop.with(&format!("invariant 1: {}\n", INVARIANTS[0])))
    }

    pub(super) fn events(&mut self, kinds: &[Kind], expected: &[String]) -> Result<(), Stop> {
        let names = self.machine.names().clone();
        let all = kinds.is_empty();
        let shown = self.announced.iter().filter(|row| {
            all && expected.is_empty()
                || (all || kinds.contains(&row.kind)) && !is_the_kernels_own(row)
        });
        let mut got: Vec<_> = shown.map(|row| object::event(row, &names)).collect();
        let mut wanted: Vec<_> = expected.iter().map(|text| object::expected_event(text)).collect();
        got.sort();
        wanted.sort();
        same("the announcements", &wanted, &got)
    }
}

/// Returns true for a writer's neighbour: permanent, noarp, a proxy, or learned elsewhere.
fn is_declared(row: &RawMessage) -> bool {
    const NOARP_PERMANENT: u8 = 0xc0;
    const PROXY_EXT_LEARNED: u8 = 0x18;
    let multicast = match row.attrs.get(&1).map(Vec::as_slice) {
        Some([first, _, _, _]) => first >> 4 == 14 || *first == 255,
        Some([first, ..]) => *first == 255,
        _ => false,
    };
    !multicast && (row.header[8] & NOARP_PERMANENT != 0 || row.header[10] & PROXY_EXT_LEARNED != 0)
}

fn is_answered(row: &RawMessage) -> bool {
    const NOARP: u8 = 0x40;
    row.header[8] & NOARP == 0 && row.attrs.contains_key(&2)
}

/// Returns true for a row that the kernel derives from other objects and deletes with them.
fn is_derived(row: &RawMessage) -> bool {
    const KERNEL: u8 = 2;
    match row.kind {
        Kind::Route => row.protocol() == Some(KERNEL),
        Kind::Address => is_the_kernels_own(row),
        _ => false,
    }
}

/// The reason why a step ended.
pub(super) enum Stop {
    Trouble(Trouble),
    Differs(String),
}

impl Stop {
    pub(super) fn with(self, front: &str) -> Stop {
        match self {
            Stop::Differs(message) => Stop::Differs(format!("{front}{message}")),
            other => other,
        }
    }
}

impl From<Trouble> for Stop {
    fn from(trouble: Trouble) -> Stop {
        Stop::Trouble(trouble)
    }
}

pub(super) fn same(what: &str, wanted: &[String], got: &[String]) -> Result<(), Stop> {
    if wanted == got {
        return Ok(());
    }
    Err(Stop::Differs(format!("{what} differ: - expected, + got\n{}", diff(wanted, got))))
}

/// Returns a diff by the longest common subsequence. Lists are short.
fn diff(old: &[String], new: &[String]) -> String {
    let mut common = vec![vec![0_usize; new.len() + 1]; old.len() + 1];
    for (i, a) in old.iter().enumerate().rev() {
        for (j, b) in new.iter().enumerate().rev() {
            common[i][j] = if a == b {
                common[i + 1][j + 1] + 1
            } else {
                common[i + 1][j].max(common[i][j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut out = String::new();
    while i < old.len() || j < new.len() {
        let (mark, line);
        if i < old.len() && j < new.len() && old[i] == new[j] {
            (mark, line) = (' ', &old[i]);
            (i, j) = (i + 1, j + 1);
        } else if j == new.len() || (i < old.len() && common[i + 1][j] >= common[i][j + 1]) {
            (mark, line) = ('-', &old[i]);
            i += 1;
        } else {
            (mark, line) = ('+', &new[j]);
            j += 1;
        }
        let _infallible = writeln!(out, "  {mark} {line}");
    }
    out
}

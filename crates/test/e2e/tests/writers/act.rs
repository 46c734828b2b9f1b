//! Another writer's acts as numbers: random, small, and often about our objects.

use proptest::collection::vec;
use proptest::prelude::*;
use trueup_e2e::cases::spec::{self, DesiredSpec, WriterSpec};

/// A change to a row that is written again.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anew {
    /// An index into `actor::PROTOCOLS`.
    pub(crate) protocol: usize,
    /// The number of the change; 0 for none.
    pub(crate) change: u8,
}

/// One act. `pick` selects one of the kernel's rows, of any owner, modulo their number.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Makes an object, often with a key that may be desired.
    Make(WriterSpec),
    Delete {
        kind: usize,
        pick: u16,
    },
    /// Writes over a row.
    Rewrite {
        kind: usize,
        pick: u16,
        anew: Anew,
    },
    /// Deletes a row and makes it again, perhaps changed.
    Again {
        kind: usize,
        pick: u16,
        anew: Anew,
    },
    /// Makes a row on a key that we once had.
    Squat {
        kind: usize,
        pick: u16,
        anew: Anew,
    },
    /// Puts an IPv4 route before or behind another with the same key.
    Beside {
        pick: u16,
        first: bool,
        protocol: usize,
    },
    Rename {
        pick: u16,
        to: usize,
    },
    /// Deletes a link and makes another with its index: with its name, its kind, or neither.
    Reindex {
        pick: u16,
        name: bool,
        kind: bool,
    },
    /// Changes something of a link.
    Set {
        pick: u16,
        what: u8,
    },
}

impl Act {
    /// Returns the same act without our protocol, and without a second route on a key.
    pub(crate) fn without_our_marker(mut self) -> Act {
        match &mut self {
            Act::Rewrite { anew, .. } | Act::Again { anew, .. } | Act::Squat { anew, .. } => {
                anew.protocol %= 3
            }
            Act::Beside { pick, .. } => self = Act::Delete { kind: 3, pick: *pick },
            _ => {}
        }
        self
    }
}

/// The other writer's acts between two passes, and the index of the desired state after them.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) acts: Vec<Act>,
    pub(crate) desired: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// Few states, so that a former one is desired again, with the other writer's objects in its
    /// place.
    pub(crate) desired: [DesiredSpec; 2],
    pub(crate) turns: Vec<Turn>,
    /// True if the other writer's objects stay while ours are deleted.
    pub(crate) stays: bool,
    /// True if the ledger is the proof for every kind.
    pub(crate) ledger: bool,
    /// True if each of our passes is made by a new process.
    pub(crate) restarts: bool,
}

fn anew() -> impl Strategy<Value = Anew> {
    (0..crate::actor::PROTOCOLS.len(), 0..3u8)
        .prop_map(|(protocol, change)| Anew { protocol, change })
}

fn attack() -> impl Strategy<Value = Act> {
    let pick = any::<u16>();
    prop_oneof![
        3 => (0..5usize, pick).prop_map(|(kind, pick)| Act::Delete { kind, pick }),
        4 => (1..5usize, pick, anew()).prop_map(|(kind, pick, anew)| Act::Rewrite { kind, pick, anew }),
        4 => (1..5usize, pick, anew()).prop_map(|(kind, pick, anew)| Act::Again { kind, pick, anew }),
        4 => (1..5usize, pick, anew()).prop_map(|(kind, pick, anew)| Act::Squat { kind, pick, anew }),
        1 => (pick, any::<bool>(), 0..crate::actor::PROTOCOLS.len())
            .prop_map(|(pick, first, protocol)| Act::Beside { pick, first, protocol }),
        1 => (pick, 0..spec::LINKS).prop_map(|(pick, to)| Act::Rename { pick, to }),
        2 => (pick, any::<bool>(), any::<bool>())
            .prop_map(|(pick, name, kind)| Act::Reindex { pick, name, kind }),
        1 => (pick, 0..6u8).prop_map(|(pick, what)| Act::Set { pick, what }),
    ]
}

/// Returns the acts of the other tests' other writers.
fn makes() -> impl Strategy<Value = Vec<Act>> {
    spec::case(true).prop_map(|case| {
        let makes = case.steps.into_iter().flat_map(|step| step.other_writer);
        makes.take(3).map(Act::Make).collect()
    })
}

fn turn() -> impl Strategy<Value = Turn> {
    (makes(), vec(attack(), 0..8), 0..2usize).prop_map(|(makes, attacks, desired)| {
        let acts = makes.into_iter().chain(attacks).collect();
        Turn { acts, desired }
    })
}

pub(crate) fn case() -> impl Strategy<Value = Case> {
    let desired = || spec::case(true).prop_map(|case| case.steps[0].desired.clone());
    let bits = (any::<bool>(), any::<bool>(), any::<bool>());
    ([desired(), desired()], vec(turn(), 2..6), bits).prop_map(
        |(desired, turns, (stays, ledger, restarts))| Case {
            desired,
            turns,
            stays,
            ledger,
            restarts,
        },
    )
}

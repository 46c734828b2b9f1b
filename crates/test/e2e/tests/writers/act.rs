//! What another writer does, as numbers: random, small, and so that what he picks is often ours.

use proptest::collection::vec;
use proptest::prelude::*;
use trueup_e2e::cases::spec::{self, DesiredSpec, WriterSpec};

/// How a row is written anew.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Anew {
    /// Of `actor::PROTOCOLS`.
    pub(crate) protocol: usize,
    /// What else is other than it was, if anything.
    pub(crate) change: u8,
}

/// One deed. What is picked is a row of the kernel, whosesoever, modulo their number.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Makes an object, often on a key that may be desired.
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
    /// Deletes a row and makes it again.
    Again {
        kind: usize,
        pick: u16,
        anew: Anew,
    },
    /// Makes a row that was ours once.
    Squat {
        kind: usize,
        pick: u16,
        anew: Anew,
    },
    /// Puts an IPv4 route before or behind another of the same key.
    Beside {
        pick: u16,
        first: bool,
        protocol: usize,
    },
    Rename {
        pick: u16,
        to: usize,
    },
    /// Deletes a link and makes another with its index: of its name, or of its kind, or neither.
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
    /// The same under another protocol than ours, and without a second route of a key.
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

/// Between two passes: what the other writer does, and which of the desired states is then desired.
#[derive(Clone, Debug)]
pub(crate) struct Turn {
    pub(crate) acts: Vec<Act>,
    pub(crate) desired: usize,
}

#[derive(Clone, Debug)]
pub(crate) struct Case {
    /// Few, so that what was desired, and what he has made in its place, is desired again.
    pub(crate) desired: [DesiredSpec; 2],
    pub(crate) turns: Vec<Turn>,
    /// He is still there when everything of ours is to go.
    pub(crate) stays: bool,
    /// The ledger is the proof, of every kind.
    pub(crate) ledger: bool,
    /// Each pass of ours is that of a new process.
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

/// What the other tests' other writers make, of any step.
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

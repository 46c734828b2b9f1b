//! Scenarios: behaviours written as text, one file each, in iproute2's words. `scenarios/README.md`
//! describes the format. This module has its parser, which is pure and never panics, and its
//! runner.
//!
//! A scenario runs in a namespace of its own of the running kernel. Other writers speak through
//! `ip`; rows and announcements are read without the codecs under test.

mod agent;
mod errno;
mod machine;
mod main;
mod numbers;
mod object;
mod parse;
mod pass;
mod raw;
mod run;
mod text;
mod writer;

use std::fmt;
use std::time::Duration;

pub use main::{failure, main};
use parse::parse;

use text::Expected;
use trueup_testkit::Kind;
use trueup_testkit::faults::At;
use writer::WriterLine;

/// The invariants of trueup, by number from 1. A failing scenario names them.
pub const INVARIANTS: [&str; 9] = [
    "Foreign state is never touched",
    "Converged means that the kernel says so",
    "A second pass does nothing",
    "Every op has exactly one outcome",
    "What we created, we can delete later",
    "Not knowing never deletes",
    "One bad object delays only what depends on it",
    "Nothing waits for ever",
    "No panic on input",
];

/// One behaviour: its head, and the steps that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Scenario {
    /// The comment at the top: what the scenario shows.
    title: String,
    /// Numbers of the kernel facts that it shows.
    facts: Vec<u32>,
    /// Known faults of other systems that it is a regression test of, such as `diff-2`.
    faults: Vec<String>,
    /// Invariants that it shows, by number: see [`INVARIANTS`].
    invariants: Vec<u8>,
    /// The kernel features that it needs.
    needs: Vec<Need>,
    steps: Vec<Step>,
}

impl Scenario {
    /// Returns true if an agent acts in it.
    fn has_agent(&self) -> bool {
        let acts = |step: &Step| {
            matches!(
                step.kind,
                StepKind::Plan(_)
                    | StepKind::Apply { .. }
                    | StepKind::Again(_)
                    | StepKind::Drain { .. }
                    | StepKind::Converge(_)
            )
        };
        self.steps.iter().any(acts)
    }
}

/// A kernel feature that a scenario needs.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Need {
    /// A kind of link, such as `vrf`.
    Link(String),
    /// A version.
    Kernel(Version),
    /// A sysctl, such as `net.ipv6.route.max_size`: a user namespace lacks some of them.
    Sysctl(String),
    /// The kernel keeps markers on addresses, neighbours and rules.
    Markers,
}

/// A condition on the version of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    /// The version must be below this one, rather than at least this one.
    below: bool,
    /// Major and minor number.
    version: (u32, u32),
}

impl Version {
    /// Returns true if a kernel of this version satisfies it.
    fn admits(self, version: (u32, u32)) -> bool {
        (version < self.version) == self.below
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Need::Link(kind) => f.write_str(kind),
            Need::Sysctl(name) => write!(f, "sysctl {name}"),
            Need::Markers => f.write_str("markers"),
            Need::Kernel(version) => version.fmt(f),
        }
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.below { "<" } else { ">=" };
        write!(f, "kernel {sign} {}.{}", self.version.0, self.version.1)
    }
}

/// The error of a text that is no scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Error {
    /// Line, from 1.
    line: usize,
    /// Column in characters, from 1.
    column: usize,
    /// The problem, and what to write instead.
    message: String,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.message)
    }
}

impl std::error::Error for Error {}

/// A step, and the line of its keyword.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Step {
    line: usize,
    only: Option<Version>,
    kind: StepKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum StepKind {
    /// Another writer acts: `setup`, `writer`, `send`.
    Write(Vec<WriterLine>),
    /// The desired state from here on, as the text of a desired-state file.
    Desired(String),
    /// A plan: the ops that a pass would have.
    Plan(Vec<Expected>),
    /// A pass, which must converge unless expectations are given.
    Apply { faults: Vec<FaultLine>, expected: Option<Vec<Expected>> },
    /// A pass that has no op and causes no announcement.
    Again(Vec<Expected>),
    /// The agent subscribes; the subscription lasts until its process ends.
    Listen,
    /// The agent drains its subscription and has one pass if something is dirty. Without
    /// expectations something must be dirty and the pass must converge.
    Drain { faults: Vec<FaultLine>, expected: Option<Vec<Expected>> },
    /// The agent drains and passes until nothing is dirty; the last pass must converge.
    Converge(Vec<FaultLine>),
    /// The kernel's late announcements cost a pass without an op; after that nothing is dirty.
    Idle,
    /// The following steps are those of the agent of this name, until the next such step.
    Agent(String),
    /// This much time passes for the agents.
    Later(Duration),
    /// The agent restarts, and finds its journal.
    Restart,
    /// The agent restarts, and finds no journal.
    Forget,
    /// The agents restart with another boot id. The kernel keeps its state.
    Reboot,
    /// An empty namespace replaces this one; the agents restart if they notice it.
    Recreate { noticed: bool },
    /// The disk below the journal refuses every sync until the agent restarts.
    JournalFails,
    /// The agents' kernel keeps no marker on objects of these kinds from here on.
    Mask(Vec<Kind>),
    /// The objects that exist.
    State(Selection, Vec<String>),
    /// Foreign objects are as they were before the last pass, except those on these devices.
    Unchanged(Vec<String>),
    /// The announcements that the last acting step caused.
    Events(Vec<Kind>, Vec<String>),
    /// The statuses of objects after the last pass.
    Status(Vec<Expected>),
    /// Waits for the end of duplicate address detection.
    Settle,
}

/// A `fault` line of `apply`, `drain` or `converge`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FaultLine {
    at: At,
    kind: FaultKind,
}

/// A [`Fault`](trueup_testkit::faults::Fault) whose writer's line has not run yet.
#[derive(Clone, Debug, PartialEq, Eq)]
enum FaultKind {
    Refuse(i32),
    LoseAnswer,
    DieBefore,
    DieAfter,
    Writer(WriterLine),
    Interrupt,
    LoseRow(usize),
    RepeatRow(usize),
    SpoilRow(usize),
    UnknownAttribute,
    Truncate,
    Corrupt,
    Overrun,
    BreakOff(i32),
    Lose,
    Repeat,
    Reverse,
    Invent(WriterLine),
}

/// The objects that a `state` step selects.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Selection {
    kind: Kind,
    /// `AF_INET`, `AF_INET6`, `AF_BRIDGE`, or 0.
    family: u8,
    /// Includes the kernel's own objects.
    all: bool,
    /// Includes status, and values that differ from run to run.
    details: bool,
    /// Selects only objects with these words.
    with: Vec<(String, String)>,
}

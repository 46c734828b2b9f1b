//! Scenarios: behaviours written as text, one file each, in iproute2's words. `scenarios/README.md`
//! describes the format. This module has the parser, which is pure and never panics, and the
//! runner.
//!
//! A scenario runs in its own namespace of the running kernel. Other writers act through `ip`. Rows
//! and announcements are read without the codecs under test.

mod agent;
mod errno;
mod machine;
mod main;
mod numbers;
mod object;
mod packet;
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

/// The invariants of trueup, numbered from 1. A failing scenario names them.
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

/// One behaviour: the head, and the steps that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Scenario {
    /// The comment at the top, which says what the scenario shows.
    title: String,
    /// The numbers of the kernel facts that it shows.
    facts: Vec<u32>,
    /// The known faults of other systems for which it is a regression test, such as `diff-2`.
    faults: Vec<String>,
    /// The numbers of the invariants that it shows: see [`INVARIANTS`].
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
    /// A kind of link, by its name, such as `vrf`.
    Link(String),
    /// A version, at least or at most.
    Kernel(Version),
    /// A sysctl, such as `net.ipv6.route.max_size`: a user namespace lacks some of them.
    Sysctl(String),
    /// The kernel keeps markers on addresses, neighbours and rules.
    Markers,
}

/// A condition on the kernel's version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Version {
    /// True if the version must be below this one; otherwise it must be at least this one.
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

/// The error in a text that is not a valid scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Error {
    /// The line number, from 1.
    line: usize,
    /// The column in characters, from 1.
    column: usize,
    /// The problem, and the remedy.
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
    /// Sets the desired state from here on, as the text of a desired-state file.
    Desired(String),
    /// A plan: the ops of a pass now.
    Plan(Vec<Expected>),
    /// A pass, which must converge unless expectations are given.
    Apply { faults: Vec<FaultLine>, expected: Option<Vec<Expected>> },
    /// A pass that has no op and causes no announcement.
    Again(Vec<Expected>),
    /// The agent subscribes, until its process ends.
    Listen,
    /// The agent drains its subscription, and has one pass if something is dirty. Without
    /// expectations, something must be dirty and the pass must converge.
    Drain { faults: Vec<FaultLine>, expected: Option<Vec<Expected>> },
    /// The agent drains and passes until nothing is dirty; the last pass must converge.
    Converge(Vec<FaultLine>),
    /// The kernel's late announcements cause a pass without an op; after that nothing is dirty.
    Idle,
    /// The following steps are about the agent with this name, until the next such step.
    Agent(String),
    /// This much time passes for the agents.
    Later(Duration),
    /// The agent restarts with its journal.
    Restart,
    /// The agent restarts without its journal.
    Forget,
    /// The agents restart with another boot id. The kernel keeps its state.
    Reboot,
    /// An empty namespace replaces this one; the agents restart if they notice it.
    Recreate { noticed: bool },
    /// The disk below the journal refuses every sync until the agent restarts.
    JournalFails,
    /// From here on, the agents' kernel keeps no marker on objects of these kinds.
    Mask(Vec<Kind>),
    /// The existing objects, as selected.
    State(Selection, Vec<String>),
    /// Foreign objects are unchanged since before the last pass, except on these devices.
    Unchanged(Vec<String>),
    /// The announcements caused by the last acting step.
    Events(Vec<Kind>, Vec<String>),
    /// The objects' statuses after the last pass.
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

/// A [`Fault`](trueup_testkit::faults::Fault); its writer's line has not run yet.
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
    /// `AF_INET`, `AF_INET6`, `AF_BRIDGE`, or 0 for all.
    family: u8,
    /// True if the kernel's own objects are included.
    all: bool,
    /// True if status is included, and values that vary from run to run.
    details: bool,
    /// Selects only objects with all these words and values.
    with: Vec<(String, String)>,
}

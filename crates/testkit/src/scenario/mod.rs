//! Scenarios: behaviours written as text, one file each, in iproute2's words. `scenarios/README.md` is the page on the
//! format; here are its parser, which is pure and takes any text without a panic, and what carries a scenario out
//! (feature `scenarios`).
//!
//! A scenario is carried out on a fake kernel and on the real one by the same code, which knows neither: it speaks
//! through a transport to whatever is at the other end. What a scenario does and what it looks at is written and read
//! apart from the codecs under test.

#![cfg_attr(
    not(feature = "scenarios"),
    allow(dead_code, reason = "read alone, not carried out")
)]

#[cfg(feature = "scenarios")]
mod agent;
mod command;
mod errno;
#[cfg(feature = "scenarios")]
mod machine;
#[cfg(feature = "scenarios")]
mod main;
#[cfg(feature = "scenarios")]
mod object;
mod parse;
#[cfg(feature = "scenarios")]
mod pass;
#[cfg(feature = "scenarios")]
mod run;
mod text;

use std::fmt;
use std::time::Duration;

#[cfg(feature = "scenarios")]
pub use agent::options;
#[cfg(feature = "scenarios")]
pub use main::main;
pub use parse::parse;

use crate::faults::At;
use crate::message::Kind;
use command::Command;
use text::Expected;

/// The invariants of trueup, by number from 1: what a failing scenario names.
pub const INVARIANTS: [&str; 9] = [
    "Foreign state is never touched",
    "Converged means that the kernel says so",
    "A second pass does nothing",
    "Every op has exactly one outcome",
    "What we created, we can delete later",
    "Not knowing never deletes",
    "One failing op starves nobody",
    "Nothing waits for ever",
    "No panic on input",
];

/// One behaviour: what its head says of it, and the steps that show it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// What it shows, from the comment that it begins with.
    pub title: String,
    /// Numbers of the kernel's facts that it shows.
    pub facts: Vec<u32>,
    /// Known faults of other systems that it is a regression test of, such as `diff-2`.
    pub faults: Vec<String>,
    /// Invariants that it shows, by number: see [`INVARIANTS`].
    pub invariants: Vec<u8>,
    /// What a kernel has to have for it.
    pub needs: Vec<Need>,
    steps: Vec<Step>,
}

impl Scenario {
    /// Whether an agent acts in it.
    #[cfg(feature = "scenarios")]
    fn has_agent(&self) -> bool {
        let acts = |step: &Step| {
            matches!(
                step.what,
                What::Plan(_)
                    | What::Apply { .. }
                    | What::Again(_)
                    | What::Heard { .. }
                    | What::Mended(_)
            )
        };
        self.steps.iter().any(acts)
    }
}

/// What a kernel has to have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// A kind of link, such as `vrf`.
    Link(String),
    /// A version.
    Kernel(Version),
    /// A setting, such as `net.ipv6.route.max_size`: some are not in namespaces of a user namespace.
    Sysctl(String),
    /// It keeps the markers of addresses, neighbours and rules.
    Markers,
}

/// A condition on the version of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    /// The version is to be below, rather than at least, this one.
    pub below: bool,
    /// Major and minor number.
    pub version: (u32, u32),
}

impl Version {
    /// Whether a kernel of this version fulfils it.
    pub fn admits(self, version: (u32, u32)) -> bool {
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

/// Why a text is no scenario.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error {
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
    /// What is wrong, and what to write instead.
    pub message: String,
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
    what: What,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum What {
    /// Somebody else acts: `setup`, `stranger`, `send`.
    Act(Vec<Act>),
    /// What is wanted from here on, as the text of a desired-state file.
    Desired(String),
    /// What a pass would do.
    Plan(Vec<Expected>),
    /// A pass. Without expectations it has to converge.
    Apply {
        faults: Vec<FaultLine>,
        expected: Option<Vec<Expected>>,
    },
    /// A pass that has nothing to do, and announces nothing.
    Again(Vec<Expected>),
    /// The agent subscribes, and stays so until it ends.
    Listen,
    /// It attends to what it has heard since, with a pass if there is anything to it. Without expectations there has to be, and
    /// the pass has to converge.
    Heard {
        faults: Vec<FaultLine>,
        expected: Option<Vec<Expected>>,
    },
    /// It answers what it hears until it hears nothing more; the last pass has to converge.
    Mended(Vec<FaultLine>),
    /// What the kernel still tells by itself costs it a look, and after that it hears nothing.
    Calm,
    /// What follows is done by the agent of this name, until the next such step.
    Agent(String),
    /// So much time passes for the agents.
    Later(Duration),
    /// The agent ends, and runs anew: it knows what is in its journal.
    Restart,
    /// As that, but the journal is lost.
    Forget,
    /// The agents run anew after a boot. What the kernel holds is still there.
    Reboot,
    /// The namespace goes, and an empty one takes its place; the agents run anew, unless they are not told of it.
    Recreate { told: bool },
    /// The disk below the journal refuses to sync, until the agent runs anew.
    JournalFails,
    /// From here on the agents' kernel keeps no marker on objects of these kinds.
    Mask(Vec<Kind>),
    /// What there is.
    State(Selection, Vec<String>),
    /// What is not ours is as it was before the last pass, but what sits on these devices.
    Unchanged(Vec<String>),
    /// What the last step that acted made the kernel announce.
    Events(Vec<Kind>, Vec<String>),
    /// Waits for the end of duplicate address detection.
    Settle,
}

/// A line of somebody else's.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Act {
    line: usize,
    /// As written, for `ip`.
    text: String,
    command: Command,
    /// Sent as a message of our own, even where there is an `ip`.
    raw: bool,
    /// The error that it has to end in, an errno.
    errno: Option<i32>,
}

/// A `fault` line of `apply` or `heard`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FaultLine {
    at: At,
    what: Mishap,
}

/// What goes wrong: [`faults::Fault`](crate::faults::Fault) with a stranger's line not yet carried out.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Mishap {
    Refuse(i32),
    LoseAnswer,
    DieBefore,
    DieAfter,
    Stranger(Act),
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
    Invent(Act),
}

/// A line with `@NAME` replaced by the index that an interface of that name has, or had; the error is a name that there
/// never was.
fn resolved(text: &str, index: impl Fn(&str) -> Option<u32>) -> Result<String, String> {
    let mut words = Vec::new();
    for word in text.split(' ') {
        words.push(match word.strip_prefix('@') {
            Some(name) => index(name).ok_or_else(|| name.to_owned())?.to_string(),
            None => word.to_owned(),
        });
    }
    Ok(words.join(" "))
}

/// Which objects a `state` is about.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Selection {
    kind: Kind,
    /// `AF_INET`, `AF_INET6`, `AF_BRIDGE`, or 0.
    family: u8,
    /// The kernel's own too.
    all: bool,
    /// Also what is status, and what has a value by chance.
    details: bool,
    /// Only with these words.
    with: Vec<(String, String)>,
}

//! Carries a scenario out and says where it differs.

mod differ;
mod go_wrong;
mod hear;
mod look;

use std::fmt::Write as _;

use trueup_netlink::Namespace;
use trueup_reconcile::Drained;

use super::agent::{Agent, Agents, House};
use super::machine::{Machine, Trouble};
use super::text::Expected;
use super::{FaultLine, INVARIANTS, Mishap, Scenario, What};
use crate::faults::{Faults, died};
use crate::mask::mask;
use crate::message::{Kind, RawMessage};
use differ::{Stop, same};

/// What is not as the scenario says, at which line of it.
struct Differs {
    line: usize,
    message: String,
}

type Result<T, E = Differs> = std::result::Result<T, E>;

/// What bears a marker on newer kernels only.
const MARKED: [Kind; 3] = [Kind::Address, Kind::Neighbour, Kind::Rule];

/// Runs a scenario; the error tells all that there is to tell. `file` is what it is called. `by_ledger`: no marker proves
/// anything, and those that the scenario expects on what may bear none do not count.
pub(super) fn run(
    file: &str,
    scenario: &Scenario,
    machine: Machine,
    by_ledger: bool,
) -> Result<(), String> {
    let masked = if by_ledger { &MARKED[..] } else { &[] };
    let agents = Agents::new(by_ledger).map_err(|error| format!("{file}: {error}"))?;
    let mut run = Run {
        file,
        machine,
        agents,
        masked: masked.to_owned(),
        unmarked: masked.to_owned(),
        before: Vec::new(),
        announced: Vec::new(),
    };
    run.scenario(scenario).map_err(|differs| {
        let message = differs.message.trim_end();
        format!(
            "{file}:{}: {message}\n\n{}",
            differs.line,
            what_it_shows(scenario)
        )
    })
}

/// For whoever reads of its failure: the title, and of what it is a test.
pub(super) fn what_it_shows(scenario: &Scenario) -> String {
    let mut told = format!("{}\n", scenario.title);
    for number in &scenario.invariants {
        let name = INVARIANTS
            .get(usize::from(*number) - 1)
            .copied()
            .unwrap_or_default();
        let _infallible = writeln!(told, "invariant {number}: {name}");
    }
    let numbers = |numbers: &[u32]| {
        numbers
            .iter()
            .map(u32::to_string)
            .collect::<Vec<_>>()
            .join(" ")
    };
    for (word, list) in [
        ("facts", numbers(&scenario.facts)),
        ("faults", scenario.faults.join(" ")),
    ] {
        if !list.is_empty() {
            let _infallible = writeln!(told, "{word} {list}");
        }
    }
    told
}

struct Run<'a> {
    file: &'a str,
    machine: Machine,
    agents: Agents,
    /// Kinds whose markers the agents' kernel does not keep.
    masked: Vec<Kind>,
    /// Those of them of which the scenario does not know.
    unmarked: Vec<Kind>,
    /// What there was before the last pass.
    before: Vec<RawMessage>,
    /// By the step that acted last.
    announced: Vec<RawMessage>,
}

impl Run<'_> {
    fn scenario(&mut self, scenario: &Scenario) -> Result<()> {
        let version = self.machine.version();
        for step in &scenario.steps {
            if step.only.is_some_and(|only| !only.admits(version)) {
                continue;
            }
            let acts = matches!(
                step.what,
                What::Act(_)
                    | What::Apply { .. }
                    | What::Again(_)
                    | What::Heard { .. }
                    | What::Mended(_)
                    | What::Calm
                    | What::Settle
            );
            let at = |trouble: Trouble| Differs {
                line: trouble.line.unwrap_or(step.line),
                message: trouble.message,
            };
            if acts {
                self.machine.announced().map_err(at)?;
            }
            let done = self.step(&step.what);
            done.map_err(|stop| match stop {
                Stop::Trouble(trouble) => at(trouble),
                Stop::Differs(message) => Differs {
                    line: step.line,
                    message,
                },
            })?;
            if acts && !matches!(step.what, What::Again(_) | What::Calm) {
                self.announced = self.machine.announced().map_err(at)?;
                self.agents.note_gone(&self.announced);
            }
        }
        Ok(())
    }

    /// The kernel as the agents see it.
    fn namespace(&self) -> Namespace {
        let namespace = self.machine.namespace();
        if self.masked.is_empty() {
            return namespace;
        }
        mask(namespace, &self.masked)
    }

    fn step(&mut self, what: &What) -> Result<(), Stop> {
        match what {
            What::Act(acts) => self.machine.act(acts)?,
            What::Desired(text) => {
                let (agent, house) = self.agents.acting();
                agent.want(house, self.file, text).map_err(Stop::Differs)?;
            }
            What::Plan(expected) => {
                let namespace = self.namespace();
                let (agent, house) = self.agents.acting();
                let got = agent.plan(house, &namespace);
                let nothing = Expected::parse("nothing").map_err(Stop::Differs)?;
                let expected = if expected.is_empty() {
                    std::slice::from_ref(&nothing)
                } else {
                    expected
                };
                self.compare("the plan", expected, got)?;
            }
            What::Apply { faults, expected } => {
                self.apply(faults, expected.as_deref(), Agent::pass)?;
            }
            What::Listen => {
                let namespace = self.namespace();
                let (agent, _) = self.agents.acting();
                agent.listen(&namespace).map_err(Stop::Differs)?;
            }
            What::Heard { faults, expected } => self.heard(faults, expected.as_deref())?,
            What::Mended(faults) => self.mended(faults)?,
            What::Calm => self.calm()?,
            What::Again(expected) => self.again(expected)?,
            What::Agent(name) => self.agents.turn_to(name),
            What::Later(time) => self.agents.later(*time),
            What::Restart => {
                let (agent, house) = self.agents.acting();
                agent.restart(house);
            }
            What::Forget => {
                let (agent, house) = self.agents.acting();
                agent.forget(house).map_err(Stop::Differs)?;
            }
            What::Reboot => self.agents.reboot(),
            What::Recreate { told } => {
                self.machine.recreate()?;
                if *told {
                    self.agents.restart();
                }
            }
            What::JournalFails => {
                let namespace = self.namespace();
                let (agent, house) = self.agents.acting();
                agent
                    .break_journal(house, &namespace)
                    .map_err(Stop::Differs)?;
            }
            What::Mask(kinds) => self.masked.extend(kinds),
            What::State(selection, expected) => self.state(selection, expected)?,
            What::Unchanged(except) => self.unchanged(except)?,
            What::Events(kinds, expected) => self.events(kinds, expected)?,
            What::Settle => self.machine.settle()?,
        }
        Ok(())
    }

    fn apply(
        &mut self,
        faults: &[FaultLine],
        expected: Option<&[Expected]>,
        pass: impl FnOnce(&mut Agent, &House, &Namespace) -> (Vec<Expected>, usize),
    ) -> Result<(), Stop> {
        match (self.pass(faults, pass)?, expected) {
            (Some(got), Some(expected)) => self.compare("the report", expected, got),
            (Some(got), None) => converged(&got),
            (None, None) => Ok(()),
            (None, Some(_)) => Err(Stop::Differs(
                "the pass died, as asked, and tells nothing: expect nothing".to_owned(),
            )),
        }
    }

    /// Whatever an agent does, with faults. Nothing is told if it died.
    fn pass(
        &mut self,
        faults: &[FaultLine],
        pass: impl FnOnce(&mut Agent, &House, &Namespace) -> (Vec<Expected>, usize),
    ) -> Result<Option<Vec<Expected>>, Stop> {
        self.before = self.machine.everything()?;
        let strangers = faults
            .iter()
            .any(|fault| matches!(fault.what, Mishap::Stranger(_)));
        let namespace = self.namespace();
        let script = Faults::over(namespace.clone());
        for FaultLine { at, what } in faults {
            script.add(*at, self.mishap(what)?);
        }
        let through = if faults.is_empty() {
            namespace
        } else {
            script.namespace()
        };
        let (agent, house) = self.agents.acting();
        let passed = died(|| pass(agent, house, &through));
        script.clear();
        // Who may take what is a stranger's, and is killed, cannot say that it did.
        let untold = passed.is_none() && agent.takes();
        if passed.is_none() {
            agent.restart(house);
        }
        let after = self.machine.everything()?;
        if !strangers && !untold {
            self.foreign_is_untouched(&after)?;
        }
        let (agent, _) = self.agents.acting();
        agent.note_made(&self.before, &after);
        let Some((got, ops)) = passed else {
            return Ok(None);
        };
        // Each op has one line, of one of three outcomes; a second one would be one line more.
        let outcomes = got.iter().filter(|line| line.is_outcome()).count();
        if outcomes != ops {
            let name = INVARIANTS[3];
            return Err(Stop::Differs(format!(
                "invariant 4: {name}\n{ops} ops have {outcomes} outcomes"
            )));
        }
        Ok(Some(got))
    }

    fn again(&mut self, expected: &[Expected]) -> Result<(), Stop> {
        let namespace = self.namespace();
        let (agent, house) = self.agents.acting();
        if agent.ears.is_some() && agent.drain().map_err(Stop::Differs)? != Drained::Nothing {
            return Err(Stop::Differs(format!(
                "invariant 3: {}\nwhat it did itself, it heard of, and would pass once more",
                INVARIANTS[2]
            )));
        }
        let (got, ops) = agent.pass(house, &namespace);
        let changes = self.machine.announced()?;
        still(&got, ops, changes)?;
        let converged = Expected::parse("converged").map_err(Stop::Differs)?;
        let expected = if expected.is_empty() {
            std::slice::from_ref(&converged)
        } else {
            expected
        };
        self.compare("the report of the second pass", expected, got)
    }

    /// In order; what is expected loosely is taken for what was got where it admits it.
    fn compare(
        &mut self,
        what: &str,
        expected: &[Expected],
        got: Vec<Expected>,
    ) -> Result<(), Stop> {
        let marker = self.agents.acting().0.marker();
        let unmarked = |line: Expected| line.unmarked(&self.unmarked, marker);
        let got: Vec<_> = got.into_iter().map(unmarked).collect();
        let got_lines: Vec<_> = got.iter().map(ToString::to_string).collect();
        let mut wanted = Vec::new();
        for (at, line) in expected.iter().cloned().map(unmarked).enumerate() {
            let nearest = got.get(at).filter(|got| line.admits(got)).map(|_| at);
            let place = nearest.or_else(|| got.iter().position(|got| line.admits(got)));
            wanted.push(match place {
                Some(place) => got_lines[place].clone(),
                None => line.to_string(),
            });
        }
        same(what, &wanted, &got_lines)
    }
}

fn converged(got: &[Expected]) -> Result<(), Stop> {
    if got.last().is_some_and(Expected::is_converged) {
        return Ok(());
    }
    let lines = got.iter().map(|line| format!("  {line}\n"));
    Err(Stop::Differs(format!(
        "the pass did not converge:\n{}",
        lines.collect::<String>()
    )))
}

/// A pass has had no op, and made the kernel announce nothing.
fn still(got: &[Expected], ops: usize, changes: Vec<RawMessage>) -> Result<(), Stop> {
    if ops == 0 && changes.is_empty() {
        return Ok(());
    }
    let mut told = format!("invariant 3: {}\n", INVARIANTS[2]);
    for line in got.iter().filter(|line| line.is_outcome()) {
        let _infallible = writeln!(told, "  {line}");
    }
    for change in changes {
        let _infallible = writeln!(told, "  announced: {change}");
    }
    Err(Stop::Differs(told))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::parse;

    fn told(text: &str) -> String {
        let machine = Machine::fake().map_err(|trouble| trouble.message).unwrap();
        run("x.scenario", &parse(text).unwrap(), machine, false).unwrap_err()
    }

    #[test]
    fn a_failure_tells_its_place_what_differs_and_what_it_shows() {
        let text = told(
            "# A rule stays.\nfacts 10\ninvariant 1\nsetup\n  rule add pref 900 from 10.0.0.0/8 table 100\n\
             state rules\n  pref 901 from 10.0.0.0/8 table 100\n",
        );
        for part in [
            "x.scenario:6: ",
            "- pref 901 from 10.0.0.0/8 table 100",
            "+ pref 900 from 10.0.0.0/8 table 100",
            "A rule stays.",
            "invariant 1: Foreign state is never touched",
            "facts 10",
        ] {
            assert!(text.contains(part), "{part} is not in:\n{text}");
        }
    }

    #[test]
    fn a_line_of_a_stranger_that_ends_otherwise_is_told_at_its_line() {
        let text =
            told("# t\nsetup\n  rule add pref 900 table 100\n  rule add pref 900 table 100\n");
        assert!(
            text.starts_with("x.scenario:4: ") && text.contains("EEXIST"),
            "{text}"
        );
        let text = told("# t\nsetup\n  rule add pref 900 table 100 -> EINVAL\n");
        assert!(
            text.contains("ended in success, EINVAL was expected"),
            "{text}"
        );
    }

    #[test]
    fn a_wrong_file_is_told_with_the_line_of_the_scenario() {
        let text =
            told("# t\n\ndesired\n  [[route]]\n  dst = \"10.0.0.1/8\"\n  via = \"10.0.0.2\"\n");
        assert!(text.contains("x.scenario:5:9: "), "{text}");
    }

    #[test]
    fn a_pass_that_takes_a_strangers_rule_breaks_the_first_invariant() {
        // The stranger has our marker, so that it is not his to us, and the comparison is made to think that it is.
        let text = told(
            "# t\nsetup\n  rule add pref 900 table 100 protocol 116\ndesired\n  protocol = 117\n  rule = []\n\
             apply\nstranger\n  rule del pref 900 table 100\nunchanged\n",
        );
        assert!(
            text.contains("invariant 1: ") && text.contains("- rule"),
            "{text}"
        );
    }
}

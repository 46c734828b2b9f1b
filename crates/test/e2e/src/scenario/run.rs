//! Runs a scenario and reports the first difference.

mod check;
mod drain;
mod fault;

use std::fmt::Write as _;

use trueup_netlink::Namespace;
use trueup_reconcile::{Drained, Source as _};

use super::agent::{Agent, Agents, Host};
use super::machine::Machine;
use super::text::Expected;
use super::writer::Trouble;
use super::{FaultKind, FaultLine, INVARIANTS, Scenario, StepKind};
use check::{Stop, same};
use trueup_testkit::faults::{Faults, died};
use trueup_testkit::{Kind, RawMessage, mask, running_version};

/// A difference from the scenario, and its line number.
struct Differs {
    line: usize,
    message: String,
}

type Result<T, E = Differs> = std::result::Result<T, E>;

/// The kinds that only newer kernels mark.
const MARKED: [Kind; 3] = [Kind::Address, Kind::Neighbour, Kind::Rule];

/// Runs a scenario in a fresh namespace, to which the calling thread moves; `file` is its name in
/// errors. With `by_ledger`, no marker proves ownership, and expected markers are ignored for kinds
/// that may lack them.
pub(super) fn run(file: &str, scenario: &Scenario, by_ledger: bool) -> Result<(), String> {
    let masked = if by_ledger { &MARKED[..] } else { &[] };
    let agents = Agents::new(by_ledger).map_err(|error| format!("{file}: {error}"))?;
    let mut run = Run {
        file,
        machine: Machine::new(),
        agents,
        masked: masked.to_owned(),
        faults: faults_over(masked),
        unmarked: masked.to_owned(),
        before: Vec::new(),
        announced: Vec::new(),
    };
    run.scenario(scenario).map_err(|differs| {
        let message = differs.message.trim_end();
        format!("{file}:{}: {message}\n\n{}", differs.line, description(scenario))
    })
}

/// Returns a scenario's title and what it tests, for the failure message.
pub(super) fn description(scenario: &Scenario) -> String {
    let mut text = format!("{}\n", scenario.title);
    for number in &scenario.invariants {
        let name = INVARIANTS.get(usize::from(*number) - 1).copied().unwrap_or_default();
        let _infallible = writeln!(text, "invariant {number}: {name}");
    }
    let numbers =
        |numbers: &[u32]| numbers.iter().map(u32::to_string).collect::<Vec<_>>().join(" ");
    for (word, list) in [("facts", numbers(&scenario.facts)), ("faults", scenario.faults.join(" "))]
    {
        if !list.is_empty() {
            let _infallible = writeln!(text, "{word} {list}");
        }
    }
    text
}

/// Returns an empty list of faults over a kernel without markers for some kinds.
fn faults_over(masked: &[Kind]) -> Faults {
    let namespace = Namespace::current();
    Faults::over(match masked {
        [] => namespace,
        masked => mask(namespace, masked),
    })
}

struct Run<'a> {
    file: &'a str,
    machine: Machine,
    agents: Agents,
    /// The kinds for which the agents' kernel keeps no markers.
    masked: Vec<Kind>,
    /// The faults between the agents and their kernel.
    faults: Faults,
    /// The masked kinds for which the scenario expects markers.
    unmarked: Vec<Kind>,
    /// All rows before the last pass.
    before: Vec<RawMessage>,
    /// The announcements of the last acting step.
    announced: Vec<RawMessage>,
}

impl Run<'_> {
    fn scenario(&mut self, scenario: &Scenario) -> Result<()> {
        let version = running_version();
        for step in &scenario.steps {
            if step.only.is_some_and(|only| !only.admits(version)) {
                continue;
            }
            let acts = matches!(
                step.kind,
                StepKind::Write(_)
                    | StepKind::Apply { .. }
                    | StepKind::Again(_)
                    | StepKind::Drain { .. }
                    | StepKind::Converge(_)
                    | StepKind::Idle
                    | StepKind::Settle
            );
            let at = |trouble: Trouble| Differs {
                line: trouble.line.unwrap_or(step.line),
                message: trouble.message,
            };
            if acts {
                self.machine.announced();
            }
            let done = self.step(&step.kind);
            done.map_err(|stop| match stop {
                Stop::Trouble(trouble) => at(trouble),
                Stop::Differs(message) => Differs { line: step.line, message },
            })?;
            if acts {
                let differs = |message| Differs { line: step.line, message };
                super::packet::check().map_err(differs)?;
            }
            if acts && !matches!(step.kind, StepKind::Again(_) | StepKind::Idle) {
                self.announced = self.machine.announced();
                self.agents.record_deleted_links(&self.announced);
            }
        }
        Ok(())
    }

    /// Returns the namespace as the agents see it, with faults and masks.
    fn namespace(&self) -> Namespace {
        self.faults.namespace()
    }

    fn step(&mut self, what: &StepKind) -> Result<(), Stop> {
        match what {
            StepKind::Write(acts) => self.machine.act(acts)?,
            StepKind::Desired(text) => {
                let (agent, host) = self.agents.acting();
                agent.set_desired(host, self.file, text).map_err(Stop::Differs)?;
            }
            StepKind::Plan(expected) => {
                let namespace = self.namespace();
                let (agent, host) = self.agents.acting();
                let got = agent.plan(host, &namespace);
                let nothing = Expected::parse("nothing").map_err(Stop::Differs)?;
                let expected =
                    if expected.is_empty() { std::slice::from_ref(&nothing) } else { expected };
                self.compare("the plan", expected, got)?;
            }
            StepKind::Apply { faults, expected } => {
                self.apply(faults, expected.as_deref(), Agent::pass)?;
            }
            StepKind::Listen => {
                let namespace = self.namespace();
                let (agent, _) = self.agents.acting();
                agent.listen(&namespace).map_err(Stop::Differs)?;
            }
            StepKind::Drain { faults, expected } => {
                self.drain_and_pass(faults, expected.as_deref())?
            }
            StepKind::Converge(faults) => self.converge(faults)?,
            StepKind::Idle => self.idle()?,
            StepKind::Again(expected) => self.again(expected)?,
            StepKind::Agent(name) => self.agents.switch_to(name),
            StepKind::Later(time) => self.agents.later(*time),
            StepKind::Restart => {
                let (agent, host) = self.agents.acting();
                agent.restart(host);
            }
            StepKind::Forget => {
                let (agent, host) = self.agents.acting();
                agent.forget(host).map_err(Stop::Differs)?;
            }
            StepKind::Reboot => self.agents.reboot(),
            StepKind::Recreate { noticed } => {
                self.machine.recreate();
                if *noticed {
                    self.agents.restart();
                }
            }
            StepKind::JournalFails => {
                let namespace = self.namespace();
                let (agent, host) = self.agents.acting();
                agent.break_journal(host, &namespace).map_err(Stop::Differs)?;
            }
            StepKind::Mask(kinds) => {
                self.masked.extend(kinds);
                self.faults = faults_over(&self.masked);
            }
            StepKind::State(selection, expected) => self.state(selection, expected)?,
            StepKind::Unchanged(except) => self.unchanged(except)?,
            StepKind::Events(kinds, expected) => self.events(kinds, expected)?,
            StepKind::Status(expected) => {
                let got = self.agents.acting().0.status_lines();
                self.compare("the statuses", expected, got)?;
            }
            StepKind::Settle => self.machine.settle()?,
        }
        Ok(())
    }

    fn apply(
        &mut self,
        faults: &[FaultLine],
        expected: Option<&[Expected]>,
        pass: impl FnOnce(&mut Agent, &Host, &Namespace) -> (Vec<Expected>, usize),
    ) -> Result<(), Stop> {
        match (self.pass(faults, pass)?, expected) {
            (Some(got), Some(expected)) => self.compare("the report", expected, got),
            (Some(got), None) => converged(&got),
            (None, None) => Ok(()),
            (None, Some(_)) => Err(Stop::Differs(
                "the agent died in the pass, as asked, and reports nothing: expect nothing"
                    .to_owned(),
            )),
        }
    }

    /// Runs a pass with faults. Returns `None` if the agent died.
    fn pass(
        &mut self,
        faults: &[FaultLine],
        pass: impl FnOnce(&mut Agent, &Host, &Namespace) -> (Vec<Expected>, usize),
    ) -> Result<Option<Vec<Expected>>, Stop> {
        self.before = self.machine.everything();
        let writers = faults.iter().any(|fault| matches!(fault.kind, FaultKind::Writer(_)));
        let namespace = self.namespace();
        for FaultLine { at, kind } in faults {
            let fault = self.fault(kind)?;
            self.faults.add(*at, fault);
        }
        let (agent, host) = self.agents.acting();
        let passed = died(|| pass(agent, host, &namespace));
        self.faults.clear();
        // A killed agent cannot report the objects that it overrode.
        let unreported = passed.is_none() && agent.may_override();
        if passed.is_none() {
            agent.restart(host);
        }
        let after = self.machine.everything();
        if !writers && !unreported {
            self.foreign_is_untouched(&after)?;
        }
        let (agent, _) = self.agents.acting();
        agent.record_made(&self.before, &after);
        let Some((got, ops)) = passed else {
            return Ok(None);
        };
        // Each op has one line with one of three outcomes; a second outcome would be an additional
        // line.
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
        let (agent, host) = self.agents.acting();
        if agent.source.descriptor().is_some()
            && agent.drain().map_err(Stop::Differs)? != Drained::Nothing
        {
            return Err(Stop::Differs(format!(
                "invariant 3: {}\nits own writes made keys dirty, and would cause another pass",
                INVARIANTS[2]
            )));
        }
        let (got, ops) = agent.pass(host, &namespace);
        let changes = self.machine.announced();
        assert_no_op(&got, ops, changes)?;
        let converged = Expected::parse("converged").map_err(Stop::Differs)?;
        let expected =
            if expected.is_empty() { std::slice::from_ref(&converged) } else { expected };
        self.compare("the report of the second pass", expected, got)
    }

    /// Compares in order. A loose expectation takes the form of the line that it admits.
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
    Err(Stop::Differs(format!("the pass did not converge:\n{}", lines.collect::<String>())))
}

/// Fails unless a pass had no op and caused no announcement.
fn assert_no_op(got: &[Expected], ops: usize, changes: Vec<RawMessage>) -> Result<(), Stop> {
    if ops == 0 && changes.is_empty() {
        return Ok(());
    }
    let mut text = format!("invariant 3: {}\n", INVARIANTS[2]);
    for line in got.iter().filter(|line| line.is_outcome()) {
        let _infallible = writeln!(text, "  {line}");
    }
    for change in changes {
        let _infallible = writeln!(text, "  announced: {change}");
    }
    Err(Stop::Differs(text))
}

//! Carries a scenario out and says where it differs.

use std::fmt::Write as _;
use std::sync::Arc;

use trueup_netlink::Namespace;

use super::agent::Agents;
use super::command::BRIDGE;
use super::machine::{Machine, Trouble, Wire};
use super::object::{self, is_the_kernels_own};
use super::text::Expected;
use super::{Act, FaultLine, INVARIANTS, Mishap, Scenario, Selection, What};
use crate::faults::{Fault, Faults, died};
use crate::mask::mask;
use crate::message::{Kind, RawMessage};

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
                What::Act(_) | What::Apply { .. } | What::Again(_) | What::Settle
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
            if acts && !matches!(step.what, What::Again(_)) {
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
            What::Apply { faults, expected } => self.apply(faults, expected.as_deref())?,
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
            What::Recreate => {
                self.machine.recreate()?;
                self.agents.restart();
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

    fn apply(&mut self, faults: &[FaultLine], expected: Option<&[Expected]>) -> Result<(), Stop> {
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
        let passed = died(|| agent.pass(house, &through));
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
            return match expected {
                None => Ok(()),
                Some(_) => Err(Stop::Differs(
                    "the pass died, as asked, and tells nothing: expect nothing".to_owned(),
                )),
            };
        };
        // Each op has one line, of one of three outcomes; a second one would be one line more.
        let outcomes = got.iter().filter(|line| line.is_outcome()).count();
        if outcomes != ops {
            let name = INVARIANTS[3];
            return Err(Stop::Differs(format!(
                "invariant 4: {name}\n{ops} ops have {outcomes} outcomes"
            )));
        }
        match expected {
            Some(expected) => self.compare("the report", expected, got),
            None if got.last().is_some_and(Expected::is_converged) => Ok(()),
            None => Err(Stop::Differs(format!(
                "the pass did not converge:\n{}",
                got.iter()
                    .map(|line| format!("  {line}\n"))
                    .collect::<String>()
            ))),
        }
    }

    fn mishap(&mut self, what: &Mishap) -> Result<Fault, Stop> {
        Ok(match what {
            Mishap::Refuse(errno) => Fault::Refuse(*errno),
            Mishap::LoseAnswer => Fault::LoseAnswer,
            Mishap::DieBefore => Fault::DieBefore,
            Mishap::DieAfter => Fault::DieAfter,
            Mishap::Interrupt => Fault::Interrupt,
            Mishap::LoseRow(n) => Fault::LoseRow(*n),
            Mishap::RepeatRow(n) => Fault::RepeatRow(*n),
            Mishap::SpoilRow(n) => Fault::SpoilRow(*n),
            Mishap::UnknownAttribute => Fault::UnknownAttribute,
            Mishap::Truncate => Fault::Truncate,
            Mishap::Corrupt => Fault::Corrupt,
            Mishap::Overrun => Fault::Overrun,
            Mishap::BreakOff(errno) => Fault::BreakOff(*errno),
            Mishap::Stranger(act) => {
                let Act {
                    command,
                    errno,
                    text,
                    ..
                } = self.machine.resolved(act)?;
                let namespace = self.machine.namespace();
                Fault::Stranger(Arc::new(move || {
                    let ended =
                        Wire::open(&namespace).and_then(|mut wire| wire.carry_out(&command));
                    let ended =
                        ended.unwrap_or_else(|trouble| panic!("stranger: {}", trouble.message));
                    assert_eq!(ended, errno.unwrap_or(0), "stranger's `{text}` ended so");
                }))
            }
        })
    }

    /// Whatever a pass does, nothing of somebody else's is gone or changed after it.
    fn foreign_is_untouched(&mut self, after: &[RawMessage]) -> Result<(), Stop> {
        let (agent, _) = self.agents.acting();
        let mut lost = String::new();
        for row in &self.before {
            let concerns = match row.kind {
                Kind::Link => true,
                Kind::Neighbour => is_declared(row),
                _ => !is_derived(row),
            };
            let there = match row.kind {
                // What is declared of a link may change it, whoever made it.
                Kind::Link => after
                    .iter()
                    .any(|now| now.kind == Kind::Link && now.device() == row.device()),
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

    fn again(&mut self, expected: &[Expected]) -> Result<(), Stop> {
        let namespace = self.namespace();
        let (agent, house) = self.agents.acting();
        let (got, ops) = agent.pass(house, &namespace);
        let changes = self.machine.announced()?;
        if ops > 0 || !changes.is_empty() {
            let mut told = format!("invariant 3: {}\n", INVARIANTS[2]);
            for line in got.iter().filter(|line| line.is_outcome()) {
                let _infallible = writeln!(told, "  {line}");
            }
            for change in changes {
                let _infallible = writeln!(told, "  announced: {change}");
            }
            return Err(Stop::Differs(told));
        }
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

    fn state(&mut self, selection: &Selection, expected: &[String]) -> Result<(), Stop> {
        let rows = self.machine.rows(selection.kind, selection.family)?;
        let names = self.machine.names()?.clone();
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
        let mut wanted: Vec<_> = expected
            .iter()
            .map(|text| object::expected(selection.kind, text))
            .collect();
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
            &format!(
                "of kind {}, what there is and what is expected",
                selection.kind.word()
            ),
            &wanted,
            &got,
        )
    }

    fn unchanged(&mut self, except: &[String]) -> Result<(), Stop> {
        let names = self.machine.names()?.clone();
        let (agent, _) = self.agents.acting();
        let foreign = |row: &&RawMessage| {
            let named = |name: &String| names.get(&row.device()) == Some(name);
            !agent.owns(row) && !agent.has_link(row.device()) && !except.iter().any(named)
        };
        let lines = |rows: &[RawMessage]| {
            rows.iter()
                .filter(foreign)
                .map(ToString::to_string)
                .collect::<Vec<_>>()
        };
        let before = lines(&self.before);
        let after = lines(&self.machine.everything()?);
        same("what is not ours", &before, &after)
            .map_err(|stop| stop.with(&format!("invariant 1: {}\n", INVARIANTS[0])))
    }

    fn events(&mut self, kinds: &[Kind], expected: &[String]) -> Result<(), Stop> {
        let names = self.machine.names()?.clone();
        let all = kinds.is_empty();
        let heard = self.announced.iter().filter(|row| {
            all && expected.is_empty()
                || (all || kinds.contains(&row.kind)) && !is_the_kernels_own(row)
        });
        let mut got: Vec<_> = heard.map(|row| object::event(row, &names)).collect();
        let mut wanted: Vec<_> = expected
            .iter()
            .map(|text| object::expected_event(text))
            .collect();
        got.sort();
        wanted.sort();
        same("the announcements", &wanted, &got)
    }
}

/// A neighbour that somebody declared: permanent, without resolution, a proxy, or learned elsewhere.
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

/// What the kernel makes of other objects, and takes back with them.
fn is_derived(row: &RawMessage) -> bool {
    const KERNEL: u8 = 2;
    match row.kind {
        Kind::Route => row.protocol() == Some(KERNEL),
        Kind::Address => is_the_kernels_own(row),
        _ => false,
    }
}

/// Why a step ended.
enum Stop {
    Trouble(Trouble),
    Differs(String),
}

impl Stop {
    fn with(self, front: &str) -> Stop {
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

fn same(what: &str, wanted: &[String], got: &[String]) -> Result<(), Stop> {
    if wanted == got {
        return Ok(());
    }
    Err(Stop::Differs(format!(
        "{what} differ: - expected, + got\n{}",
        diff(wanted, got)
    )))
}

/// A diff by the longest common part. Lists are short.
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

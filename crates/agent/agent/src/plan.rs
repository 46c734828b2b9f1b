//! What a run would do, found by one that changes nothing.

use std::collections::BTreeSet;

use crate::error::{Result, with_causes};
use trueup_graph::{Failure, RunContext, Snapshot, Verdict};
use trueup_net::{self as net, Kind};
use trueup_reconcile::{Claim, ErrorClass, Ledger, MemoryLedger, Outcome};
use trueup_rtnl::{self as rtnl, Explanation, Query, Rtnl};
use trueup_world::Accepted;

use crate::agent::Agent;
use crate::declared::Declared;
use crate::graph::{self, WorldVertices, is_in_place};
use crate::namespace::Desired;
use crate::options::Options;
use crate::part::Part;
use crate::pass_vertex::pass_verdict;
use crate::report::{PassReport, SectionResult};
use crate::state::{LedgerOf, StateFile, no_state_directory};
use crate::world;

/// What a run would do.
pub struct Plan {
    /// To the network.
    pub network: net::Plan,
    /// What was observed of the network.
    pub observed: rtnl::Snapshot,
    /// To sysctls.
    pub settings: Vec<Box<dyn PassReport>>,
    /// By the name of each section that a user's crate has added: the report of a pass that may
    /// change nothing, or why it could not run.
    pub sections: Vec<(&'static str, Result<Box<dyn PassReport>>)>,
    /// What files and commands would do, if there are any.
    pub snapshot: Option<Snapshot>,
    /// Of each part, in the order in which they run.
    verdicts: Vec<(Part, Result<Verdict, Failure>)>,
}

impl Plan {
    fn reports(&self) -> impl Iterator<Item = &dyn PassReport> {
        let sections = self.sections.iter().filter_map(|(_, result)| result.as_ref().ok());
        self.settings.iter().chain(sections).map(|it| &**it)
    }

    /// Returns true if all is as declared, as far as is known.
    pub fn is_converged(&self) -> bool {
        is_converged(&self.network, &self.observed)
            && self.reports().all(|report| report.converged())
            && self.sections.iter().all(|(_, result)| result.is_ok())
            && self.snapshot.as_ref().is_none_or(is_in_place)
    }

    /// Says what files and commands would do, if it is carried out; and what `world` would.
    fn check(
        &self,
        declared: &Declared,
        world: Option<WorldVertices>,
        state: Option<&StateFile>,
    ) -> Result<Snapshot> {
        let ops = self.network.ops.iter();
        let mut kinds: BTreeSet<_> = ops.map(|op| op.object.kind().name()).collect();
        self.settings.iter().for_each(|it| it.outcomes(&mut |op| kinds.extend([op.kind])));
        let (verdicts, ledger) = (self.verdicts.clone(), ledger(state, LedgerOf::Graph)?);
        graph::check(&declared.file, verdicts, &kinds, world, &*ledger)
    }

    /// Returns true if a run would try nothing, as far as is known.
    pub fn is_empty(&self) -> bool {
        self.network.is_empty()
            && self.reports().all(is_idle)
            && self.snapshot.as_ref().is_none_or(is_in_place)
    }
}

/// Returns true if the kernel is as desired, and known to be.
fn is_converged(network: &net::Plan, observed: &rtnl::Snapshot) -> bool {
    network.is_empty() && observed.is_complete()
}

/// Returns true if a pass would try nothing, but for what could not be read and may be as declared.
fn is_idle(report: &dyn PassReport) -> bool {
    use ErrorClass::{Busy, Permission, Unknown};
    let mut is_idle = true;
    report.outcomes(&mut |op| {
        is_idle &= matches!(op.outcome, Outcome::Failed(Busy | Permission | Unknown));
    });
    is_idle
}

impl Agent {
    /// Says what [`apply`](Self::apply) would do. Changes nothing, and needs no privilege but to
    /// read the journal.
    ///
    /// # Errors
    ///
    /// When that is not known.
    pub fn plan(&self, declared: &Declared) -> Result<Plan> {
        let state = self.readable_state(&declared.options)?;
        let mut plan = self.planned_now(declared, state.as_ref())?;
        if graph::is_needed(&declared.file, &*ledger(state.as_ref(), LedgerOf::Graph)?)? {
            plan.snapshot = Some(plan.check(declared, None, state.as_ref())?);
        }
        Ok(plan)
    }

    /// Returns the graph of a file, and how each vertex stands. Runs the checks of its commands.
    ///
    /// # Errors
    ///
    /// When that is not known.
    pub fn graph(&self, declared: &Declared) -> Result<Snapshot> {
        let state = self.readable_state(&declared.options)?;
        let plan = self.planned_now(declared, state.as_ref())?;
        plan.check(declared, world_vertices(declared, self)?, state.as_ref())
    }

    /// Says who owns the objects that a question is about, what is declared of them, and what a pass
    /// would do; also what became of what other hosts export. Without a file the last two are left
    /// out.
    ///
    /// # Errors
    ///
    /// When that is not known.
    pub fn why(
        &self,
        declared: Option<&Declared>,
        options: &Options,
        query: &Query,
    ) -> Result<(Explanation, Option<Accepted>)> {
        let state = self.readable_state(options)?;
        let ledger = ledger(state.as_ref(), LedgerOf::Network)?;
        let (desired, accepted) = match declared {
            Some(declared) => {
                let (desired, accepted) = self.collect(declared, |_| Ok(()))?;
                (Some(desired.network), accepted)
            }
            None => (None, None),
        };
        let (namespace, options) = (&self.namespace, &options.network);
        let explained = Rtnl::new().why(namespace, desired.as_deref(), &*ledger, options, query);
        match (explained, declared) {
            (Ok(explained), _) => Ok((explained, accepted)),
            (Err(error), Some(declared)) => Err(declared.explain(error.into())),
            (Err(error), None) => Err(error.into()),
        }
    }

    /// Returns what passes would do, with what other hosts export now.
    fn planned_now(&self, declared: &Declared, state: Option<&StateFile>) -> Result<Plan> {
        let (desired, _) = self.collect(declared, |_| Ok(()))?;
        self.planned(declared, &desired, |of| ledger(state, of))
    }

    /// Returns what passes would do, but for files and commands. `ledger` opens a ledger to read.
    pub(crate) fn planned(
        &self,
        declared: &Declared,
        desired: &Desired,
        ledger: impl Fn(LedgerOf) -> Result<Box<dyn Ledger + Send>>,
    ) -> Result<Plan> {
        let (scope, options) = (&self.namespace, &declared.options);
        let of_network = ledger(LedgerOf::Network)?;
        let network = Rtnl::new().plan(scope, &desired.network, &*of_network, &options.network);
        let (mut settings, mut sections, mut verdicts) = (Vec::new(), Vec::new(), Vec::new());
        for part in declared.parts(desired, options) {
            let of = part.part();
            // A copy, which the pass may write.
            let owned = ledger(of.ledger)?.owned()?.into_iter();
            let mut copy = MemoryLedger::default();
            copy.commit_outcomes(owned.map(|(key, value)| (key, Claim::Ours(value))).collect())?;
            let verdict = match (part.plan(scope, &mut copy), &network) {
                (Some(result), _) if of.is_of_user() => {
                    let verdict = planned_verdict(&result);
                    sections.push((of.name, result));
                    verdict
                }
                (Some(result), _) => {
                    let report = result.map_err(|it| declared.explain(it))?;
                    let verdict = verdict(report.converged(), is_idle(&*report));
                    settings.push(report);
                    verdict
                }
                (None, Ok((network, _))) if of == Part::LINKS => {
                    let mut ops = network.ops.iter();
                    let has_link = ops.any(|op| op.object.kind() == Kind::Link);
                    Ok(if has_link { Verdict::WouldChange } else { Verdict::InPlace })
                }
                (None, Ok((network, observed))) => {
                    verdict(is_converged(network, observed), network.is_empty())
                }
                (None, Err(_)) => continue,
            };
            verdicts.push((of, verdict));
        }
        let (network, observed) = network.map_err(|error| declared.explain(error.into()))?;
        Ok(Plan { network, observed, settings, sections, snapshot: None, verdicts })
    }

    /// Returns the journal, for what only reads. Where no directory is usable the ledger is empty,
    /// and a note says so.
    fn readable_state(&self, options: &Options) -> Result<Option<StateFile>> {
        let found = self.find_state_file(options)?;
        if found.is_none() {
            let none = no_state_directory();
            self.note(&format!("{none}. The output is that of an empty ledger"));
        }
        Ok(found)
    }
}

fn planned_verdict(result: &SectionResult) -> Result<Verdict, Failure> {
    match result {
        Ok(report) => pass_verdict(&**report, false),
        Err(error) => Err(Failure::new(ErrorClass::Unknown, with_causes(error))),
    }
}

fn verdict(is_converged: bool, is_empty: bool) -> Result<Verdict, Failure> {
    match (is_converged, is_empty) {
        (true, _) => Ok(Verdict::InPlace),
        (false, false) => Ok(Verdict::WouldChange),
        (false, true) => Err(Failure::new(
            ErrorClass::Unknown,
            "it is not known whether there is anything to do",
        )),
    }
}

/// Returns the vertices of the world, if the file has `[world]`: what it collects is in the plan,
/// and what it exports is compared with what is exported.
fn world_vertices(declared: &Declared, agent: &Agent) -> Result<Option<WorldVertices>> {
    let Some(named) = &declared.file.settings.world else {
        return Ok(None);
    };
    let state = agent.state_file(&declared.options)?;
    let exports = declared.exports();
    let exported = world::open(named, state.directory(), world::Use::Read)
        .and_then(|world| Ok(world::is_exported(&world, &exports)?));
    let exporter = match exported {
        Ok(true) => Ok(Verdict::InPlace),
        Ok(false) => Ok(Verdict::WouldChange),
        Err(error) => Err(Failure::new(ErrorClass::Unknown, format!("{error:#}"))),
    };
    Ok(Some(WorldVertices {
        collector: Box::new(|_: &RunContext, _: bool| Ok(Verdict::InPlace)),
        exporter: Box::new(move |_: &RunContext, _: bool| exporter.clone()),
    }))
}

/// Returns a ledger to read.
fn ledger(state: Option<&StateFile>, of: LedgerOf) -> Result<Box<dyn Ledger + Send>> {
    Ok(match state {
        Some(state) => Box::new(state.read_ledger(of)?),
        None => Box::new(MemoryLedger::default()),
    })
}

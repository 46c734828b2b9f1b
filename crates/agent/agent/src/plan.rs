//! What a run would do, found by one that changes nothing.

use std::collections::BTreeSet;

use crate::error::Result;
use trueup_graph::{Failure, RunContext, Snapshot, Verdict};
use trueup_net::Kind;
use trueup_reconcile::{Claim, ErrorClass, Ledger, MemoryLedger, Outcome};
use trueup_rtnl::{Explanation, Planned, Query, Rtnl};
use trueup_world::Accepted;

use crate::agent::Agent;
use crate::declared::Declared;
use crate::desired::Desired;
use crate::graph::{self, WorldVertices, is_in_place, pass_verdict};
use crate::options::Options;
use crate::report::PassReport;
use crate::section::{Part, SectionResult};
use crate::state::{LedgerOf, NO_STATE_DIRECTORY, StateFile};
use crate::target::Target;
use crate::words::with_causes;
use crate::world;

/// What a run would do.
pub struct Plan {
    /// To the network.
    pub network: Planned,
    /// To sysctls, by part.
    pub settings: Vec<(Part, Box<dyn PassReport>)>,
    /// Of each section that a user's crate has added: the report of a pass that may change nothing,
    /// or why it could not run.
    pub sections: Vec<(Part, SectionResult)>,
    /// What files and commands would do, if there are any.
    pub snapshot: Option<Snapshot>,
}

impl Plan {
    fn reports(&self) -> impl Iterator<Item = &dyn PassReport> {
        let sections = self.sections.iter().filter_map(|(_, result)| result.as_ref().ok());
        self.settings.iter().map(|(_, it)| it).chain(sections).map(|it| &**it)
    }

    /// Returns true if all is as declared, as far as is known.
    pub fn is_converged(&self) -> bool {
        self.network.is_converged()
            && self.reports().all(|report| report.converged())
            && self.sections.iter().all(|(_, result)| result.is_ok())
            && self.snapshot.as_ref().is_none_or(is_in_place)
    }

    /// Returns true if a run would try nothing, as far as is known.
    pub fn is_empty(&self) -> bool {
        self.network.plan.is_empty()
            && self.reports().all(is_idle)
            && self.snapshot.as_ref().is_none_or(is_in_place)
    }
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
        let state = self.state_file(&declared.options)?;
        let state = state.as_ref();
        let plan = self.planned_now(declared, state)?;
        let graph_ledger = ledger(state, LedgerOf::Graph)?;
        let snapshot = if graph::is_needed(&declared.file, &*graph_ledger)? {
            Some(check(declared, &plan, None, state)?)
        } else {
            None
        };
        Ok(Plan { snapshot, ..plan })
    }

    /// Returns the graph of a file, and how each vertex stands. Runs the checks of its commands.
    ///
    /// # Errors
    ///
    /// When that is not known.
    pub fn graph(&self, declared: &Declared) -> Result<Snapshot> {
        let state = self.state_file(&declared.options)?;
        let plan = self.planned_now(declared, state.as_ref())?;
        let world = world_vertices(declared, &self.target)?;
        check(declared, &plan, world, state.as_ref())
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
        let state = self.state_file(options)?;
        let ledger = ledger(state.as_ref(), LedgerOf::Network)?;
        let (desired, accepted) = match declared {
            Some(declared) => {
                let collected = declared.collect(&self.target, |_| Ok(()))?;
                collected.notes.iter().for_each(|note| self.note(note));
                (Some(collected.desired.network), collected.accepted)
            }
            None => (None, None),
        };
        let (namespace, options) = (&self.target.namespace, &options.network);
        let explained = Rtnl::new().why(namespace, desired.as_deref(), &*ledger, options, query);
        let explained = explained.map_err(|error| match declared {
            Some(declared) => declared.explain(error.into()),
            None => error.into(),
        })?;
        Ok((explained, accepted))
    }

    /// Returns what passes would do, with what other hosts export now.
    fn planned_now(&self, declared: &Declared, state: Option<&StateFile>) -> Result<Plan> {
        let collected = declared.collect(&self.target, |_| Ok(()))?;
        collected.notes.iter().for_each(|note| self.note(note));
        self.planned(declared, &collected.desired, |of| ledger(state, of))
    }

    /// Returns what passes would do, but for files and commands. `ledger` opens a ledger to read.
    pub(crate) fn planned(
        &self,
        declared: &Declared,
        desired: &Desired,
        ledger: impl Fn(LedgerOf) -> Result<Box<dyn Ledger + Send>>,
    ) -> Result<Plan> {
        let (scope, options) = (&self.target.namespace, &declared.options);
        let (mut settings, mut sections) = (Vec::new(), Vec::new());
        for (part, desired) in self.sections.parts(declared, desired) {
            // A copy, which the pass may write.
            let owned = ledger(part.ledger())?.owned()?;
            let owned = owned.into_iter().map(|(key, value)| (key, Claim::Ours(value)));
            let mut copy = MemoryLedger::default();
            copy.commit_outcomes(owned.collect())?;
            let kind = self.sections.of(part);
            match kind.and_then(|kind| kind.plan(scope, desired, &mut copy, options)) {
                Some(result) if matches!(part, Part::Section(_)) => sections.push((part, result)),
                Some(result) => settings.push((part, result.map_err(|it| declared.explain(it))?)),
                None => {}
            }
        }
        let of_network = ledger(LedgerOf::Network)?;
        let network = Rtnl::new().plan(scope, &desired.network, &*of_network, &options.network);
        let network = network.map_err(|error| declared.explain(error.into()))?;
        Ok(Plan { network, settings, sections, snapshot: None })
    }

    /// Returns the journal, for what only reads. Where no directory is usable the ledger is empty,
    /// and a note says so.
    fn state_file(&self, options: &Options) -> Result<Option<StateFile>> {
        let found = self.target.state(options)?;
        if found.is_none() {
            let none = NO_STATE_DIRECTORY;
            self.note(&format!("{none}. The output is that of an empty ledger"));
        }
        Ok(found)
    }
}

/// Says what files and commands would do, if a plan is carried out; and what `world` would.
fn check(
    declared: &Declared,
    plan: &Plan,
    world: Option<WorldVertices>,
    state: Option<&StateFile>,
) -> Result<Snapshot> {
    let mut kinds: BTreeSet<_> =
        plan.network.plan.ops.iter().map(|op| op.object.kind().name()).collect();
    plan.settings.iter().for_each(|(_, it)| it.outcomes(&mut |op| kinds.extend([op.kind])));
    let ledger = ledger(state, LedgerOf::Graph)?;
    graph::check(&declared.file, verdicts(plan), &kinds, world, &*ledger)
}

/// Returns what each part would do.
fn verdicts(plan: &Plan) -> Vec<(Part, Result<Verdict, Failure>)> {
    let Plan { network, settings, sections, .. } = plan;
    let settings =
        settings.iter().map(|(part, it)| (*part, verdict(it.converged(), is_idle(&**it))));
    let mut verdicts: Vec<_> = settings.collect();
    if verdicts.iter().any(|(part, _)| *part == Part::LinkSettings) {
        let mut ops = network.plan.ops.iter();
        let has_link = ops.any(|op| op.object.kind() == Kind::Link);
        let verdict = if has_link { Verdict::WouldChange } else { Verdict::InPlace };
        verdicts.push((Part::Links, Ok(verdict)));
    }
    verdicts.push((Part::Network, verdict(network.is_converged(), network.plan.is_empty())));
    verdicts.extend(sections.iter().map(|(part, result)| {
        let verdict = match result {
            Ok(report) => pass_verdict(&**report, false),
            Err(error) => Err(Failure::new(ErrorClass::Unknown, with_causes(error))),
        };
        (*part, verdict)
    }));
    verdicts.sort_by_key(|(part, _)| *part);
    verdicts
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
fn world_vertices(declared: &Declared, target: &Target) -> Result<Option<WorldVertices>> {
    let Some(named) = &declared.file.settings.world else {
        return Ok(None);
    };
    let state = target.require_state(&declared.options)?;
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

//! What a run would do, found by one that changes nothing.

use crate::error::{Context as _, Result};
use trueup_graph::{Failure, RunContext, Snapshot, Verdict};
use trueup_net::Kind;
use trueup_reconcile::{Claim, ErrorClass, Ledger, MemoryLedger, Report as _};
use trueup_rtnl::{Explanation, Query, Rtnl};
use trueup_world::Accepted;

use crate::agent::Agent;
use crate::declared::Declared;
use crate::graph::{self, WorldVertices, is_in_place, pass_verdict};
use crate::host::{self, Options, Part, Planned};
use crate::report::PassReport;
use crate::section::SectionResult;
use crate::state::{LedgerOf, NO_STATE_DIRECTORY, StateFile};
use crate::target::Target;
use crate::world;

/// What a run would do.
pub struct Plan {
    /// To the network and to sysctls.
    pub namespace: Planned,
    /// Of each section that a user's crate has added: the report of a pass that may change nothing,
    /// or why it could not run.
    pub sections: Vec<(Part, SectionResult)>,
    /// What files and commands would do, if there are any.
    pub snapshot: Option<Snapshot>,
}

impl Plan {
    /// Returns true if all is as declared, as far as is known.
    pub fn is_converged(&self) -> bool {
        let mut sections = self.sections.iter();
        self.namespace.is_converged()
            && sections.all(|(_, it)| it.as_ref().is_ok_and(|report| report.converged()))
            && self.snapshot.as_ref().is_none_or(is_in_place)
    }

    /// Returns true if a run would try nothing, as far as is known.
    pub fn is_empty(&self) -> bool {
        let is_idle = |report: &dyn PassReport| {
            let mut is_idle = true;
            report.outcomes(&mut |_| is_idle = false);
            is_idle
        };
        let mut sections = self.sections.iter();
        self.namespace.is_empty()
            && sections.all(|(_, it)| it.as_ref().map_or(true, |report| is_idle(&**report)))
            && self.snapshot.as_ref().is_none_or(is_in_place)
    }
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
        let (namespace, sections) = self.planned(declared, state)?;
        let graph_ledger = ledger(state, LedgerOf::Graph)?;
        let snapshot = match graph::is_needed(&declared.file, &*graph_ledger)? {
            true => Some(check(declared, &namespace, &sections, None, state)?),
            false => None,
        };
        Ok(Plan { namespace, sections, snapshot })
    }

    /// Returns the graph of a file, and how each vertex stands. Runs the checks of its commands.
    ///
    /// # Errors
    ///
    /// When that is not known.
    pub fn graph(&self, declared: &Declared) -> Result<Snapshot> {
        let state = self.state_file(&declared.options)?;
        let (namespace, sections) = self.planned(declared, state.as_ref())?;
        let world = world_vertices(declared, &self.target)?;
        check(declared, &namespace, &sections, world, state.as_ref())
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

    /// Returns what passes would do.
    fn planned(
        &self,
        declared: &Declared,
        state: Option<&StateFile>,
    ) -> Result<(Planned, Vec<(Part, SectionResult)>)> {
        let collected = declared.collect(&self.target, |_| Ok(()))?;
        collected.notes.iter().for_each(|note| self.note(note));
        let desired = collected.desired;
        let (scope, options) = (&self.target.namespace, &declared.options);
        let planned = host::plan(scope, &desired, options, |of| ledger(state, of))?;
        let planned = planned.map_err(|error| declared.explain(error))?;
        let mut sections = Vec::new();
        for (part, desired) in self.sections.parts(declared, &desired) {
            if let (Part::Section(_), Some(kind)) = (part, self.sections.of(part)) {
                // A copy, which the pass may write.
                let owned = ledger(state, part.ledger())?.owned()?;
                let owned = owned.into_iter().map(|(key, value)| (key, Claim::Ours(value)));
                let mut copy = MemoryLedger::default();
                copy.commit_outcomes(owned.collect())?;
                sections.extend(kind.plan(scope, desired, &mut copy).map(|it| (part, it)));
            }
        }
        Ok((planned, sections))
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

/// Returns what a section would do.
fn pass_verdict_section(result: &SectionResult) -> Result<Verdict, Failure> {
    match result {
        Ok(report) => pass_verdict(&**report, false),
        Err(why) => Err(Failure::new(ErrorClass::Unknown, why.clone())),
    }
}

/// Says what files and commands would do, if the network's plan is carried out; and what `world`
/// would.
fn check(
    declared: &Declared,
    planned: &Planned,
    sections: &[(Part, SectionResult)],
    world: Option<WorldVertices>,
    state: Option<&StateFile>,
) -> Result<Snapshot> {
    let kinds = planned.network.plan.ops.iter().map(|op| op.object.kind().name());
    let kinds = kinds.chain(planned.settings().map(|_| "sysctl")).collect();
    let ledger = ledger(state, LedgerOf::Graph)?;
    let sections = sections.iter().map(|(part, result)| (*part, pass_verdict_section(result)));
    let verdicts = verdicts(planned).into_iter().chain(sections).collect();
    graph::check(&declared.file, verdicts, &kinds, world, &*ledger)
}

/// Returns what each part of the namespace would do.
fn verdicts(planned: &Planned) -> Vec<(Part, Result<Verdict, Failure>)> {
    let network = &planned.network;
    let settings = planned.settings.iter().map(|(part, report)| {
        let is_empty = report.ops().iter().all(host::is_unread);
        (*part, verdict(report.converged(), is_empty))
    });
    let mut verdicts: Vec<_> = settings.collect();
    if verdicts.iter().any(|(part, _)| *part == Part::LinkSettings) {
        let mut ops = network.plan.ops.iter();
        let verdict = match ops.any(|op| op.object.kind() == Kind::Link) {
            true => Verdict::WouldChange,
            false => Verdict::InPlace,
        };
        verdicts.push((Part::Links, Ok(verdict)));
    }
    let of_network = verdict(network.is_converged(), network.plan.is_empty());
    verdicts.push((Part::Network, of_network));
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
    let state = target.state(&declared.options)?;
    let state = state.context(NO_STATE_DIRECTORY)?;
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

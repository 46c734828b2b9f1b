//! The changes that a run would make, found without a change.

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

/// The changes that a run would make.
///
/// ```no_run
/// use trueup_agent::Agent;
///
/// let agent = Agent::new(None, Some("/var/lib/example".into()))?;
/// let plan = agent.plan(&agent.parse("edge.toml", "route = []")?)?;
/// assert!(plan.is_empty() || !plan.is_converged());
/// # Ok::<(), trueup_agent::Error>(())
/// ```
pub struct Plan {
    /// The ops on links, addresses, neighbours, routes and rules, with conflicts and notices.
    pub network: net::Plan,
    /// The observed network that the ops are based on.
    pub observed: rtnl::Snapshot,
    /// The reports of the sysctls' passes, which changed nothing.
    pub settings: Vec<Box<dyn PassReport>>,
    /// The report of each section from a user's crate, by the section's name. The pass may change
    /// nothing. An error says why it could not run.
    pub sections: Vec<(&'static str, Result<Box<dyn PassReport>>)>,
    /// The state of each vertex if the run is carried out. `None` if the file has only the network.
    pub snapshot: Option<Snapshot>,
    /// The verdict of each part, in the order in which they run.
    verdicts: Vec<(Part, Result<Verdict, Failure>)>,
}

impl Plan {
    fn reports(&self) -> impl Iterator<Item = &dyn PassReport> {
        let sections = self.sections.iter().filter_map(|(_, result)| result.as_ref().ok());
        self.settings.iter().chain(sections).map(|it| &**it)
    }

    /// Returns true if everything is as declared, as far as is known.
    pub fn is_converged(&self) -> bool {
        is_converged(&self.network, &self.observed)
            && self.reports().all(|report| report.converged())
            && self.sections.iter().all(|(_, result)| result.is_ok())
            && self.snapshot.as_ref().is_none_or(is_in_place)
    }

    /// Checks what files and commands would do after this plan's changes, and what `world` would
    /// do.
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

/// Returns true if the kernel was observed completely and is as desired.
fn is_converged(network: &net::Plan, observed: &rtnl::Snapshot) -> bool {
    network.is_empty() && observed.is_complete()
}

/// Returns true if a pass would try nothing. Ignores objects that could not be read and may be as
/// declared.
fn is_idle(report: &dyn PassReport) -> bool {
    use ErrorClass::{Busy, Permission, Unknown};
    let mut is_idle = true;
    report.outcomes(&mut |op| {
        is_idle &= matches!(op.outcome, Outcome::Failed(Busy | Permission | Unknown));
    });
    is_idle
}

impl Agent {
    /// Plans the changes that [`apply`](Self::apply) would make. Changes nothing. The only
    /// privilege it needs is to read the journal.
    ///
    /// # Errors
    ///
    /// Fails if the changes cannot be determined.
    pub fn plan(&self, declared: &Declared) -> Result<Plan> {
        let state = self.readable_state(&declared.options)?;
        let mut plan = self.planned_now(declared, state.as_ref())?;
        if graph::is_needed(&declared.file, &*ledger(state.as_ref(), LedgerOf::Graph)?)? {
            plan.snapshot = Some(plan.check(declared, None, state.as_ref())?);
        }
        Ok(plan)
    }

    /// Returns the graph of a file, with each vertex's state. Runs the checks of the file's
    /// commands.
    ///
    /// # Errors
    ///
    /// Fails if the states cannot be determined.
    pub fn graph(&self, declared: &Declared) -> Result<Snapshot> {
        let state = self.readable_state(&declared.options)?;
        let plan = self.planned_now(declared, state.as_ref())?;
        plan.check(declared, world_vertices(declared, self)?, state.as_ref())
    }

    /// Explains the objects in `query`: who owns them, how they are declared, and what a pass would
    /// do. Also returns which exports of other hosts were accepted. Without a file, only the owners
    /// are known.
    ///
    /// # Errors
    ///
    /// Fails if this cannot be determined.
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

    /// Returns the plan with the current exports of other hosts.
    fn planned_now(&self, declared: &Declared, state: Option<&StateFile>) -> Result<Plan> {
        let (desired, _) = self.collect(declared, |_| Ok(()))?;
        self.planned(declared, &desired, |of| ledger(state, of))
    }

    /// Returns the plan without files and commands. `ledger` opens a ledger for reading.
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
            // A copy, because the pass may write to it.
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

    /// Returns the journal for a reader. If no directory is usable, returns `None`, which stands
    /// for an empty ledger, and notes this.
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

/// Returns the world's vertices, if the file has `[world]`. The plan already has the collected
/// routes. The exports are compared with those in the store.
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

/// Returns a ledger for reading.
fn ledger(state: Option<&StateFile>, of: LedgerOf) -> Result<Box<dyn Ledger + Send>> {
    Ok(match state {
        Some(state) => Box::new(state.read_ledger(of)?),
        None => Box::new(MemoryLedger::default()),
    })
}

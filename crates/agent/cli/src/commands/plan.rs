//! `trueup plan`: what a pass would do. Needs no privilege and writes nothing.

use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Result, bail};
use trueup::Report as _;
use trueup::graph::{Failure, Snapshot, Verdict};
use trueup::net::Kind;
use trueup::reconcile::{ErrorClass, Ledger, MemoryLedger};

use trueup_agent::declared::Declared;
use trueup_agent::graph::{self, WorldVertices, is_in_place};
use trueup_agent::host::{self, Options, Part, Planned};
use trueup_agent::state::{self, LedgerOf};
use trueup_agent::target::Target;

use super::{note_cautions, target};
use crate::{Common, output};

/// Changes are pending.
pub(super) const PENDING: u8 = 2;

pub(crate) fn plan(common: &Common, file: &Path) -> Result<ExitCode> {
    let declared = Declared::read(file, common.writers(), Duration::ZERO)?;
    note_cautions(&declared);
    let target = target(common)?;
    let state = find_state_file(&target, &declared.options)?;
    let planned = network(&declared, &target, state.as_ref())?;
    let graph_ledger = ledger(state.as_ref(), LedgerOf::Graph)?;
    let beside = match graph::is_needed(&declared.file, &*graph_ledger)? {
        true => Some(check(&declared, &planned, None, state.as_ref())?),
        false => None,
    };
    output::plan(common.format, &planned, beside.as_ref())?;
    let missing = declared.all_missing(&planned.network.plan.devices, &target.namespace);
    missing.iter().for_each(output::note);
    for doubt in &planned.network.doubts {
        output::note(doubt);
    }
    let is_beside_in_place = beside.as_ref().is_none_or(is_in_place);
    if planned.is_converged() && is_beside_in_place {
        return Ok(ExitCode::SUCCESS);
    }
    if planned.is_empty() && is_beside_in_place {
        bail!("cannot tell whether there is anything to do");
    }
    Ok(ExitCode::from(PENDING))
}

/// Returns what a pass over the network would do.
pub(super) fn network(
    declared: &Declared,
    target: &Target,
    state: Option<&state::StateFile>,
) -> Result<Planned> {
    let collected = declared.collect(target, |_| Ok(()))?;
    collected.notes.iter().for_each(output::note);
    let desired = collected.desired;
    let (scope, options) = (&target.namespace, &declared.options);
    let planned = host::plan(scope, &desired, options, |of| ledger(state, of))?;
    planned.map_err(|error| declared.explain(error))
}

/// Says what files and commands would do, if the network's plan is carried out; and what `world`
/// would.
pub(super) fn check(
    declared: &Declared,
    planned: &Planned,
    world: Option<WorldVertices>,
    state: Option<&state::StateFile>,
) -> Result<Snapshot> {
    let kinds = planned.network.plan.ops.iter().map(|op| op.object.kind().name());
    let kinds = kinds.chain(planned.settings().map(|_| "sysctl")).collect();
    let ledger = ledger(state, LedgerOf::Graph)?;
    graph::check(&declared.file, verdicts(planned), &kinds, world, &*ledger)
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

/// Returns the journal, for commands that only read. Where no directory is usable the ledger is
/// empty, and a note says so.
///
/// # Errors
///
/// When that is not known.
pub(super) fn find_state_file(
    target: &Target,
    options: &Options,
) -> Result<Option<state::StateFile>> {
    let found = target.state(options)?;
    if found.is_none() {
        let none = state::NO_STATE_DIRECTORY;
        output::note(format_args!("{none}. The output is that of an empty ledger"));
    }
    Ok(found)
}

/// Returns a ledger to read.
pub(super) fn ledger(
    state: Option<&state::StateFile>,
    of: LedgerOf,
) -> Result<Box<dyn Ledger + Send>> {
    Ok(match state {
        Some(state) => Box::new(state.read_ledger(of)?),
        None => Box::new(MemoryLedger::default()),
    })
}

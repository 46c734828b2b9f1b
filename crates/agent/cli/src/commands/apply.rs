//! `trueup apply`: one run of the file's graph. What can be refused is refused before the kernel is
//! touched, with exit code 1. After a change the exit code of a failure is 2.

use std::path::Path;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Error, Result, anyhow, bail};
use trueup::Report as _;
use trueup::graph::Verdict;
use trueup::reconcile::Ledger;

use trueup_agent::declared::Declared;
use trueup_agent::graph::{self, OnResult, Once, Passed, change_line, is_of_file_or_command};
use trueup_agent::host::{self, Host, PassTimer};
use trueup_agent::state::LedgerOf;
use trueup_agent::verdict::verdict;
use trueup_agent::world::recorder;

use super::{note_cautions, target};
use crate::output::GraphReport;
use crate::{Common, output};

/// The kernel is not as desired, or what the pass did could not be reported.
const NOT_CONVERGED: u8 = 2;

pub(crate) fn apply(
    common: &Common,
    file: &Path,
    strict: bool,
    allow_deletes: bool,
) -> Result<ExitCode> {
    let mut declared = Declared::read(file, common.writers(), Duration::ZERO)?;
    let network = &mut declared.options.network;
    *network = network.clone().with_strict(strict);
    if allow_deletes {
        *network = network.clone().with_max_deletes(None);
    }
    let target = target(common)?;
    target.require_privilege()?;
    let (state, notes) = target.claim(&declared.options)?;
    notes.iter().for_each(output::note);
    note_cautions(&declared);
    let desired = match &declared.file.settings.world {
        Some(named) => {
            let collected = declared.collect(&target, recorder(&state, named))?;
            collected.notes.iter().for_each(output::note);
            collected.desired
        }
        None => declared.desired(),
    };
    if !declared.exports().is_empty() {
        output::note(
            "nothing is exported: exports live as long as the `trueup watch` that has them",
        );
    }
    let graph_ledger = Box::new(state.ledger(LedgerOf::Graph));
    let has_graph = graph::is_needed(&declared.file, &*graph_ledger)?;
    if has_graph {
        // What the kernel would refuse is known before a file is written.
        let (scope, options) = (&target.namespace, &declared.options);
        let ledger = |of| Ok(Box::new(state.ledger(of)) as Box<dyn Ledger + Send>);
        let planned = host::plan(scope, &desired, options, ledger)?;
        planned.map_err(|error| declared.explain(error))?;
    }
    let passed = Passed::default();
    let pass_timer = Arc::new(PassTimer::default());
    let parts = desired.parts().into_iter().map(|(part, desired)| Once {
        part,
        host: Host::new(part, |of| state.ledger(of), &pass_timer),
        scope: target.namespace.clone(),
        desired,
        ledger: Box::new(state.ledger(part.ledger())),
        options: declared.options.clone(),
        passed: passed.clone(),
    });
    let changed = Arc::new(Mutex::new(Vec::new()));
    let on_result = collect(&changed);
    let parts = parts.collect();
    let snapshot = graph::run_once(&declared.file, parts, graph_ledger, &on_result)?;
    let changed = std::mem::take(&mut *changed.lock().unwrap_or_else(PoisonError::into_inner));
    let changes = changed.iter();
    let changes = changes.filter(|name| is_of_file_or_command(name));
    let changes = changes.map(|name| change_line(&declared.file, name));
    let ran = GraphReport { changes: changes.collect(), snapshot: has_graph.then_some(snapshot) };
    let report = match passed.take() {
        Some(Ok(report)) => report,
        Some(Err(error)) => return failed(declared.explain(error), &ran),
        None => bail!("the pass did not run"),
    };
    let is_converged = report.converged() && ran.verdict().is_none();
    let reported = output::report(common.format, &report, &ran);
    let missing = report.devices().flat_map(|it| declared.all_missing(it, &target.namespace));
    missing.for_each(output::note);
    if let Err(error) = &reported {
        output::print_error(&unreported(error, verdict(&report)));
    }
    Ok(if is_converged && reported.is_ok() {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_CONVERGED)
    })
}

/// Notes the vertices that have changed something.
fn collect(changed: &Arc<Mutex<Vec<String>>>) -> OnResult {
    let changed = Arc::clone(changed);
    Arc::new(move |name, result| {
        if *result == Ok(Verdict::Changed) {
            let mut changed = changed.lock().unwrap_or_else(PoisonError::into_inner);
            changed.push(name.to_owned());
        }
    })
}

/// Ends after a pass that could not run: with exit code 1 if files and commands changed nothing
/// either.
fn failed(error: Error, ran: &GraphReport) -> Result<ExitCode> {
    if ran.changes.is_empty() {
        return Err(error);
    }
    output::print(|out| {
        let mut changes = ran.changes.iter();
        changes.try_for_each(|change| writeln!(out, "{change}"))
    })?;
    output::print_error(&error);
    Ok(ExitCode::from(NOT_CONVERGED))
}

/// Returns how the pass ended whose report could not be written.
fn unreported(error: &Error, verdict: Option<String>) -> Error {
    let verdict = verdict.map_or("converged".to_owned(), |why| format!("not converged: {why}"));
    anyhow!("the pass ran ({verdict}), but its report is incomplete: {error:#}")
}

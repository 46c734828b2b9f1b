//! One run over a whole file, until each part was tried once.

use std::mem::take;
use std::sync::{Arc, Mutex};

use crate::error::{Result, bail, with_causes};
use trueup_graph::{Failure, Snapshot, Verdict};
use trueup_net::Devices;
use trueup_reconcile::{Ledger, Outcome, Report as _};

use crate::agent::Agent;
use crate::declared::Declared;
use crate::graph::{self, OnResult, change_line, graph_verdict, is_of_file_or_command};
use crate::lock;
use crate::part::{Once, Part, Passed};
use crate::report::{OpText, PassReport, SectionResult};
use crate::state::LedgerOf;
use crate::world::recorder;

/// The result of a run over a whole file.
///
/// ```no_run
/// use trueup_agent::{Agent, Declared, Result};
///
/// fn apply(agent: &Agent, declared: &Declared) -> Result<bool> {
///     let mut applied = agent.apply(declared)?;
///     let report = applied.passed()?;
///     if let Some(why) = applied.verdict() {
///         eprintln!("files and commands: {why}");
///     }
///     Ok(applied.is_converged_with(&report))
/// }
/// ```
pub struct Applied {
    passed: Option<Result<RunReport>>,
    /// A line for each file and command that changed something.
    pub changes: Vec<String>,
    /// The state of each vertex. `None` if the file has only the network.
    pub snapshot: Option<Snapshot>,
}

impl Applied {
    /// Takes the passes' report out of this result. A second call fails.
    ///
    /// # Errors
    ///
    /// Fails if no pass could run. Then the kernel is unchanged.
    pub fn passed(&mut self) -> Result<RunReport> {
        self.passed.take().unwrap_or_else(|| bail!("the report was taken"))
    }

    /// Returns true if `report`, the files and the commands are all as declared.
    pub fn is_converged_with(&self, report: &RunReport) -> bool {
        report.converged() && self.verdict().is_none()
    }

    /// Returns why files and commands are not converged, or `None` if they are.
    pub fn verdict(&self) -> Option<String> {
        self.snapshot.as_ref().and_then(graph_verdict)
    }
}

/// The report of a run: one report for each part of the namespace and for each section from a
/// user's crate.
pub struct RunReport {
    reports: Vec<Box<dyn PassReport>>,
    /// The reasons why passes could not run, a line for each.
    failures: Vec<String>,
}

impl RunReport {
    /// Joins the reports of all parts.
    ///
    /// # Errors
    ///
    /// Returns the error of a part of the namespace, but only if no part has tried an op: an error
    /// promises that nothing was changed.
    pub(crate) fn of(mut results: Vec<(Part, SectionResult)>) -> Result<RunReport> {
        results.sort_by_key(|(part, _)| *part);
        let mut has_tried = false;
        for report in results.iter().flat_map(|(_, result)| result) {
            report.outcomes(&mut |op| has_tried |= op.outcome != Outcome::Pending(()));
        }
        let (mut reports, mut failures) = (Vec::new(), Vec::new());
        for (part, result) in results {
            match (part, result) {
                (_, Ok(report)) => reports.push(report),
                (part, Err(error)) if part.is_of_user() => {
                    let why = with_causes(&error);
                    failures.push(format!("{}: the pass could not run: {why}", part.name));
                }
                (_, Err(error)) if has_tried => {
                    failures.push(format!("the pass ended early: {error}"));
                }
                (_, Err(error)) => return Err(error),
            }
        }
        Ok(RunReport { reports, failures })
    }

    /// Returns the devices that the last pass over the network observed.
    pub fn devices(&self) -> impl Iterator<Item = &Devices> {
        PassReport::devices(self).into_iter()
    }
}

impl trueup_reconcile::Report for RunReport {
    fn converged(&self) -> bool {
        self.failures.is_empty() && self.reports.iter().all(|report| report.converged())
    }

    fn outcomes(&self, visit: &mut dyn FnMut(trueup_reconcile::ReportedOp<'_>)) {
        self.reports.iter().for_each(|report| report.outcomes(visit));
    }
}

impl PassReport for RunReport {
    fn ops(&self, visit: &mut dyn FnMut(&dyn OpText)) {
        self.reports.iter().for_each(|report| report.ops(visit));
    }

    fn errors(&self) -> Vec<String> {
        let errors = self.reports.iter().flat_map(|it| it.errors());
        errors.chain(self.failures.iter().cloned()).collect()
    }

    fn members(&self) -> Vec<&dyn PassReport> {
        self.reports.iter().map(|it| &**it).collect()
    }
}

impl Agent {
    /// Brings everything into agreement with a file once. trueup makes every possible check before
    /// it changes anything.
    ///
    /// # Errors
    ///
    /// Fails if the run cannot begin. Then nothing was changed.
    pub fn apply(&self, declared: &Declared) -> Result<Applied> {
        self.require_privilege()?;
        let (state, notes) = self.claim(&declared.options)?;
        notes.iter().for_each(|note| self.note(note));
        let desired = match &declared.file.settings.world {
            Some(named) => self.collect(declared, recorder(&state, named))?.0,
            None => declared.desired(),
        };
        if !declared.exports().is_empty() {
            self.note(
                "nothing is exported: exports live as long as the `trueup watch` that has them",
            );
        }
        let graph_ledger = Box::new(state.ledger(LedgerOf::Graph));
        let has_graph = graph::is_needed(&declared.file, &*graph_ledger)?;
        if has_graph {
            // Finds refusals by the kernel before a file is written.
            self.planned(declared, &desired, |of| {
                Ok(Box::new(state.ledger(of)) as Box<dyn Ledger + Send>)
            })?;
        }
        let passed = Passed::default();
        let run = Once {
            scope: self.namespace.clone(),
            passed: passed.clone(),
            ledger: Box::new(move |of| state.ledger(of)),
        };
        let parts = declared.parts(&desired, &declared.options).into_iter();
        let changed = Arc::new(Mutex::new(Vec::new()));
        let noted = Arc::clone(&changed);
        let on_result: OnResult = Arc::new(move |name: &str, result: &Result<_, Failure>| {
            if *result == Ok(Verdict::Changed) && is_of_file_or_command(name) {
                lock(&noted).push(name.to_owned());
            }
        });
        let snapshot = graph::run_once(
            &declared.file,
            parts.map(|part| (part.part(), part.once(&run))).collect(),
            &self.namespace,
            graph_ledger,
            &on_result,
        )?;
        let results = take(&mut *lock(&passed));
        if results.is_empty() {
            bail!("the pass did not run");
        }
        let changed = take(&mut *lock(&changed));
        Ok(Applied {
            passed: Some(RunReport::of(results).map_err(|error| declared.explain(error))),
            changes: changed.iter().map(|name| change_line(&declared.file, name)).collect(),
            snapshot: has_graph.then_some(snapshot),
        })
    }
}

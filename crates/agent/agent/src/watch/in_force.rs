//! The file in force, with its collected routes.

use std::sync::{Arc, Mutex, MutexGuard};
use std::task::Waker;

use trueup_graph::{Failure, RunContext, Verdict, Vertex};
use trueup_reconcile::Hints;
use trueup_rtnl::Namespace;

use super::collecting::Collecting;
use super::loops::Loops;
use super::reporter::Reporter;
use crate::declared::Declared;
use crate::error::{cause_of, with_causes};
use crate::lock;
use crate::report::PassReport;

/// The file in force, which the threads share. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct InForce(Arc<Mutex<Inner>>);

/// The data under the lock.
#[derive(Default)]
pub(crate) struct Inner {
    /// `None` before the graph runs.
    pub(crate) declared: Option<Declared>,
    /// The file's collection. `None` without `[world]`.
    pub(crate) collecting: Option<Collecting>,
}

impl InForce {
    pub(crate) fn lock(&self) -> MutexGuard<'_, Inner> {
        lock(&self.0)
    }

    /// Waits until the vertices that have still to run for the file in force are known. Reports
    /// come only after that.
    pub(crate) fn wait(&self) {
        drop(self.lock());
    }

    /// Notes the objects whose devices this pass has newly found missing.
    pub(crate) fn note_missing(
        &self,
        reporter: &Reporter,
        report: &dyn PassReport,
        namespace: &Namespace,
    ) {
        let in_force = self.lock();
        if let Some(devices) = report.devices() {
            let missing = reporter.newly_missing(devices);
            let declared = in_force.declared.iter();
            let lines =
                declared.flat_map(|declared| declared.missing(&missing, devices, namespace));
            lines.for_each(|line| reporter.note(&line));
        }
    }

    /// Returns why a pass could not run, with the place in the file if the cause is there.
    pub(crate) fn explain(&self, error: &(dyn std::error::Error + 'static)) -> String {
        let in_force = self.lock();
        let declared = in_force.declared.as_ref();
        let wrong = declared.and_then(|it| it.file_error(cause_of(error)?));
        wrong.map_or_else(|| with_causes(error), |wrong| wrong.to_string())
    }
}

/// The collection of the file in force, as a vertex.
pub(crate) struct CollectorVertex {
    pub(crate) in_force: InForce,
    pub(crate) loops: Loops,
    pub(crate) reporter: Reporter,
}

impl Vertex for CollectorVertex {
    fn check_apply(&mut self, _: &RunContext, apply: bool) -> Result<Verdict, Failure> {
        let (verdict, status) = {
            let mut inner = self.in_force.lock();
            let Inner { declared, collecting, .. } = &mut *inner;
            let (Some(declared), Some(collecting)) = (declared, collecting) else {
                return Ok(Verdict::InPlace);
            };
            let verdict = collecting.update(declared, &self.loops, apply);
            (verdict, collecting.status())
        };
        self.reporter.world(|world| world.collection = status);
        verdict
    }

    fn watch(&mut self, hints: Hints, _: Waker) -> Result<bool, Failure> {
        if let Some(collecting) = &self.in_force.lock().collecting {
            collecting.watch(hints);
        }
        Ok(false)
    }
}

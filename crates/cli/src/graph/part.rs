//! A part of the namespace as a vertex.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use trueup::graph::{Failure, RunContext, Snapshot, Verdict, Vertex, Watch};
use trueup::reconcile::Hints;

use crate::host::Part;

/// The parts whose last pass ran, and left something that is not as declared. What comes after them
/// in order runs all the same: one setting that is refused holds back no route. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct Unsettled(Arc<Mutex<BTreeMap<Part, Failure>>>);

impl Unsettled {
    /// Returns the failure of the first part of settings that has one.
    pub(super) fn of_settings(&self) -> Option<Failure> {
        let failures = self.lock();
        let mut of_settings = failures.iter().filter(|(part, _)| part.is_of_settings());
        of_settings.next().map(|(_, failure)| failure.clone())
    }

    /// Shows in a snapshot how these parts stand.
    pub(super) fn show(&self, mut snapshot: Snapshot) -> Snapshot {
        let failures = self.lock();
        for (part, failure) in &*failures {
            let named = snapshot.vertices.iter_mut();
            for vertex in named.filter(|it| it.name == part.name()) {
                vertex.last = Some(Err(failure.class()));
                vertex.message = Some(failure.message().to_owned());
            }
        }
        snapshot
    }

    /// Forgets a part that is no longer there.
    pub(super) fn forget(&self, part: Part) {
        self.lock().remove(&part);
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<Part, Failure>> {
        // Nothing under the lock leaves it half done.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The vertex of a part before the network.
pub(super) struct Before {
    part: Part,
    vertex: Box<dyn Vertex>,
    /// Returns true if the last pass ran, so that a failure is one of single objects.
    has_run: Box<dyn Fn() -> bool + Send>,
    unsettled: Unsettled,
}

impl Before {
    pub(super) fn new(
        part: Part,
        vertex: Box<dyn Vertex>,
        has_run: impl Fn() -> bool + Send + 'static,
        unsettled: &Unsettled,
    ) -> Before {
        Before {
            part,
            vertex,
            has_run: Box::new(has_run),
            unsettled: unsettled.clone(),
        }
    }
}

impl Vertex for Before {
    fn check_apply(&mut self, context: &RunContext, apply: bool) -> Result<Verdict, Failure> {
        match self.vertex.check_apply(context, apply) {
            Err(failure) if context.should_continue() && (self.has_run)() => {
                self.unsettled.lock().insert(self.part, failure);
                Ok(Verdict::InPlace)
            }
            Ok(verdict) => {
                self.unsettled.forget(self.part);
                Ok(verdict)
            }
            failed => failed,
        }
    }

    fn watch(&mut self, hints: Hints) -> Result<Watch, Failure> {
        self.vertex.watch(hints)
    }
}

//! Sources that run, whatever they are sources of.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use trueup_graph::{SourceVertex, Vertex};
use trueup_loop::{Error, Events, Handle, ObjectStatus, Revision, Stats};
use trueup_reconcile::{OpKey, Source};

/// A desired state, which its source alone knows.
pub(crate) type AnyDesired = Arc<dyn Any + Send + Sync>;

/// Returns the desired state of a source; `None` if it is another's.
pub(crate) fn desired_of<D: Any + Clone + Send + Sync>(desired: AnyDesired) -> Option<D> {
    desired.downcast().ok().map(Arc::unwrap_or_clone)
}

/// A source that runs in a loop.
pub(crate) trait AnySource: Send {
    /// Returns the same source.
    fn boxed(&self) -> Box<dyn AnySource>;

    /// Returns its vertex.
    fn vertex(&self) -> Box<dyn Vertex>;

    /// Returns its controls.
    fn handle(&self) -> Arc<dyn AnyHandle>;

    /// Returns how its loop has ended; `None` while it runs.
    fn ended(&self) -> Option<Result<(), Error>>;
}

/// The controls of a source's loop.
pub(crate) trait AnyHandle: Send + Sync {
    /// Returns the controls of the source itself.
    fn as_any(&self) -> &dyn Any;

    fn stop(&self);

    fn is_ended(&self) -> bool;

    /// Returns false if it has not ended after that time.
    fn wait_ended(&self, within: Duration) -> bool;

    /// Requests a full pass, without a wait for it.
    fn force(&self);

    /// Requests a pass over what may have changed.
    fn look(&self);

    /// Has no pass run until [`resume`](Self::resume).
    ///
    /// # Errors
    ///
    /// When the current one goes on for too long, or the loop has ended.
    fn pause(&self, within: Duration) -> Result<(), Error>;

    fn resume(&self);

    /// Replaces the desired state; `None` if the loop has ended.
    fn set_desired(&self, desired: AnyDesired) -> Option<Revision>;

    fn stats(&self) -> Stats;

    /// Returns for how long it has been running the current pass.
    fn busy(&self) -> Option<Duration>;

    fn status(&self, key: OpKey) -> Option<ObjectStatus>;

    fn exceptions(&self) -> Vec<ObjectStatus>;

    fn exception_counts(&self) -> BTreeMap<(&'static str, &'static str), usize>;

    fn events(&self) -> Events;
}

impl<S> AnySource for SourceVertex<S>
where
    S: Source + 'static,
    S::Desired: Any + Clone + Send + Sync,
    SourceVertex<S>: Vertex,
    Handle<S>: Send + Sync,
{
    fn boxed(&self) -> Box<dyn AnySource> {
        Box::new(self.clone())
    }

    fn vertex(&self) -> Box<dyn Vertex> {
        Box::new(self.clone())
    }

    fn handle(&self) -> Arc<dyn AnyHandle> {
        Arc::new(SourceVertex::handle(self).clone())
    }

    fn ended(&self) -> Option<Result<(), Error>> {
        SourceVertex::ended(self)
    }
}

impl<S> AnyHandle for Handle<S>
where
    S: Source + 'static,
    S::Desired: Any + Clone + Send + Sync,
    Handle<S>: Send + Sync,
{
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn stop(&self) {
        Handle::stop(self);
    }

    fn is_ended(&self) -> bool {
        Handle::is_ended(self)
    }

    fn wait_ended(&self, within: Duration) -> bool {
        !Handle::wait_ended(self, within).is_err_and(|error| error.is_timeout())
    }

    fn force(&self) {
        // The pass runs without a waiter.
        let _ = Handle::force(self, Duration::ZERO);
    }

    fn look(&self) {
        // One that has ended needs none.
        let _ended = self.change(|_| {});
    }

    fn pause(&self, within: Duration) -> Result<(), Error> {
        Handle::pause(self, within)
    }

    fn resume(&self) {
        // One that has ended is not paused.
        let _ended = Handle::resume(self);
    }

    fn set_desired(&self, desired: AnyDesired) -> Option<Revision> {
        Handle::set_desired(self, desired_of(desired)?).ok()
    }

    fn stats(&self) -> Stats {
        Handle::stats(self)
    }

    fn busy(&self) -> Option<Duration> {
        Handle::busy(self)
    }

    fn status(&self, key: OpKey) -> Option<ObjectStatus> {
        Handle::status(self, key)
    }

    fn exceptions(&self) -> Vec<ObjectStatus> {
        Handle::exceptions(self)
    }

    fn exception_counts(&self) -> BTreeMap<(&'static str, &'static str), usize> {
        Handle::exception_counts(self)
    }

    fn events(&self) -> Events {
        Handle::events(self)
    }
}

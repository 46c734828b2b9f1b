//! Sources that run in loops, without their types.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use trueup_graph::{SourceVertex, Vertex};
use trueup_loop::{Error, Events, Handle, ObjectStatus, Revision, Stats};
use trueup_reconcile::{OpKey, Source};

/// A desired state. Only its source knows the type.
pub(crate) type AnyDesired = Arc<dyn Any + Send + Sync>;

/// A source that runs in a loop.
pub(crate) trait AnySource: Send + Sync {
    /// Returns the loop's handle. Only the source knows its type.
    fn handle(&self) -> &dyn Any;

    fn vertex(&self) -> Box<dyn Vertex>;

    /// Returns the loop's result, or `None` while it runs.
    fn ended(&self) -> Option<Result<(), Error>>;

    fn is_ended(&self) -> bool;

    /// Waits for the loop's end. Returns false if it still runs after `within`.
    fn wait_ended(&self, within: Duration) -> bool;

    fn stop(&self);

    /// Requests a full pass, and does not wait for it.
    fn force(&self);

    /// Requests a pass over objects that may have changed.
    fn look(&self);

    /// Prevents passes until [`resume`](Self::resume). Fails if the current pass takes longer than
    /// `within`, or if the loop has ended.
    fn pause(&self, within: Duration) -> Result<(), Error>;

    fn resume(&self);

    /// Replaces the desired state. Returns `None` if the loop has ended.
    fn set_desired(&self, desired: AnyDesired) -> Option<Revision>;

    fn stats(&self) -> Stats;

    /// Returns how long the current pass has been running, or `None` if there is none.
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
    SourceVertex<S>: Vertex + Sync,
    Handle<S>: Send + Sync,
{
    fn handle(&self) -> &dyn Any {
        SourceVertex::handle(self)
    }

    fn vertex(&self) -> Box<dyn Vertex> {
        Box::new(self.clone())
    }

    fn ended(&self) -> Option<Result<(), Error>> {
        SourceVertex::ended(self)
    }

    fn is_ended(&self) -> bool {
        SourceVertex::handle(self).is_ended()
    }

    fn wait_ended(&self, within: Duration) -> bool {
        let ended = SourceVertex::handle(self).wait_ended(within);
        !ended.is_err_and(|error| error.is_timeout())
    }

    fn stop(&self) {
        SourceVertex::handle(self).stop();
    }

    fn force(&self) {
        // The pass runs without a waiter.
        let _ = SourceVertex::handle(self).force(Duration::ZERO);
    }

    fn look(&self) {
        // A loop that has ended needs no change.
        let _ended = SourceVertex::handle(self).change(|_| {});
    }

    fn pause(&self, within: Duration) -> Result<(), Error> {
        SourceVertex::handle(self).pause(within)
    }

    fn resume(&self) {
        // A loop that has ended is not paused.
        let _ended = SourceVertex::handle(self).resume();
    }

    fn set_desired(&self, desired: AnyDesired) -> Option<Revision> {
        let desired = Arc::unwrap_or_clone(desired.downcast().ok()?);
        SourceVertex::handle(self).set_desired(desired).ok()
    }

    fn stats(&self) -> Stats {
        SourceVertex::handle(self).stats()
    }

    fn busy(&self) -> Option<Duration> {
        SourceVertex::handle(self).busy()
    }

    fn status(&self, key: OpKey) -> Option<ObjectStatus> {
        SourceVertex::handle(self).status(key)
    }

    fn exceptions(&self) -> Vec<ObjectStatus> {
        SourceVertex::handle(self).exceptions()
    }

    fn exception_counts(&self) -> BTreeMap<(&'static str, &'static str), usize> {
        SourceVertex::handle(self).exception_counts()
    }

    fn events(&self) -> Events {
        SourceVertex::handle(self).events()
    }
}

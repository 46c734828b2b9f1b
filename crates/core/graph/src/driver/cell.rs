//! The vertex behind a number of the graph, and safe calls of its code.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use trueup_reconcile::ErrorClass;

use crate::ports::Value;
use crate::sync::{Mutex, lock};
use crate::{Failure, Vertex, VertexId, VertexSpec};

/// The number of a cell that is no longer in the graph.
const NONE: u32 = u32::MAX;

/// A vertex and its rare state. Each vertex has a cell, so cells are small.
pub(super) struct Cell {
    pub(super) vertex: Mutex<Box<dyn Vertex>>,
    /// `None` if the vertex is neither watched nor receives anything.
    rare: Option<Box<Rare>>,
}

struct Rare {
    place: Place,
    /// The number of the member that waits for the vertex's events; 0 if there is none.
    member: AtomicU64,
    /// True if its events could not be taken because it was running.
    is_missed: AtomicBool,
    /// When it wants to run because of its events; `None` if they call for no run.
    due: Mutex<Option<Instant>>,
    /// True if it was due and has not been called since.
    is_hinted: AtomicBool,
    /// The values of its last successful run, by port.
    seen: Mutex<Vec<Value>>,
}

/// The number of a vertex that may be watched. A replacement changes it under the core's lock.
#[derive(Clone)]
pub(super) struct Place(Arc<Numbered>);

struct Numbered {
    vertex: AtomicU32,
    is_reversal: AtomicBool,
}

impl Place {
    pub(super) fn vertex(&self) -> Option<VertexId> {
        let at = self.0.vertex.load(Ordering::SeqCst);
        (at != NONE).then_some(VertexId(at))
    }

    /// True if its watch is useful: it is in the graph, and is not being reversed.
    pub(super) fn is_watching(&self) -> bool {
        self.vertex().is_some() && !self.0.is_reversal.load(Ordering::SeqCst)
    }
}

impl Cell {
    pub(super) fn new(vertex: Box<dyn Vertex>, declared: &VertexSpec, at: u32) -> Self {
        let is_rare = declared.watched || !declared.rare().receives.is_empty();
        let rare = is_rare.then(|| {
            let vertex = AtomicU32::new(at);
            Box::new(Rare {
                place: Place(Arc::new(Numbered { vertex, is_reversal: AtomicBool::new(false) })),
                member: AtomicU64::new(0),
                is_missed: AtomicBool::new(false),
                due: Mutex::default(),
                is_hinted: AtomicBool::new(false),
                seen: Mutex::default(),
            })
        });
        Cell { vertex: Mutex::new(vertex), rare }
    }

    /// Returns its place; `None` if it is never watched.
    pub(super) fn place(&self) -> Option<&Place> {
        self.rare.as_ref().map(|it| &it.place)
    }

    /// Returns its number; `None` if it is never watched or not in the graph.
    pub(super) fn vertex_id(&self) -> Option<VertexId> {
        self.place()?.vertex()
    }

    /// Sets its number; `None` if it is no longer in the graph. A reversal's watch is not used.
    pub(super) fn set_place(&self, vertex: Option<u32>, is_reversal: bool) {
        if let Some(Place(numbered)) = self.place() {
            numbered.vertex.store(vertex.unwrap_or(NONE), Ordering::SeqCst);
            numbered.is_reversal.fetch_or(is_reversal, Ordering::SeqCst);
        }
    }

    /// Sets the member that waits for its events, and returns the previous one's number.
    pub(super) fn set_member(&self, number: u64) -> u64 {
        self.rare.as_ref().map_or(0, |it| it.member.swap(number, Ordering::SeqCst))
    }

    pub(super) fn set_missed(&self, is_missed: bool) {
        if let Some(rare) = &self.rare {
            rare.is_missed.store(is_missed, Ordering::SeqCst);
        }
    }

    /// Returns the member that missed events during the vertex's call, and forgets it; `None` if no
    /// event was missed.
    pub(super) fn take_missed(&self) -> Option<u64> {
        let rare = self.rare.as_ref()?;
        let is_missed = rare.is_missed.swap(false, Ordering::SeqCst);
        is_missed.then(|| rare.member.load(Ordering::SeqCst))
    }

    /// Sets the time of its next run because of events.
    pub(super) fn set_due(&self, at: Option<Instant>) {
        if let Some(rare) = &self.rare {
            *lock(&rare.due) = at;
        }
    }

    /// Notes that the vertex is called: this covers all earlier events.
    pub(super) fn begin(&self) {
        if let Some(rare) = &self.rare {
            *lock(&rare.due) = None;
            rare.is_hinted.store(false, Ordering::SeqCst);
        }
    }

    /// True if it is due, for the first time since its last call.
    pub(super) fn take_due(&self, now: Instant) -> bool {
        self.rare.as_ref().is_some_and(|it| {
            lock(&it.due).is_some_and(|at| at <= now) && !it.is_hinted.swap(true, Ordering::SeqCst)
        })
    }

    pub(super) fn seen(&self) -> Vec<Value> {
        let seen = self.rare.as_ref().map(|it| lock(&it.seen).clone());
        seen.unwrap_or_default()
    }

    /// Stores the received values, and returns the previous ones.
    pub(super) fn replace_seen(&self, received: Vec<Value>) -> Vec<Value> {
        match &self.rare {
            Some(rare) => std::mem::replace(&mut *lock(&rare.seen), received),
            None => received,
        }
    }
}

/// Calls a vertex's code. A panic becomes a failure of class `Unknown`.
pub(crate) fn catch<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| {
        let text = match (payload.downcast_ref::<&str>(), payload.downcast_ref()) {
            (Some(text), _) => (*text).to_owned(),
            (None, Some(text)) => String::clone(text),
            (None, None) => "without a message".to_owned(),
        };
        // Dropping the payload may panic, too.
        std::mem::forget(payload);
        let message = format!("the vertex panicked: {text}; this is a fault of its code");
        Err(Failure::new(ErrorClass::Unknown, message))
    })
}

/// Drops a vertex's value; ignores a panic in its drop.
pub(crate) fn discard<T>(value: T) {
    // No caller could handle this failure.
    let _ = catch(|| {
        drop(value);
        Ok(())
    });
}

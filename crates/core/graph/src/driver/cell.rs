//! The vertex behind a number of the graph, and how its code is called.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Instant;

use trueup_reconcile::ErrorClass;

use crate::ports::Value;
use crate::sync::{Mutex, lock};
use crate::{Failure, Vertex, VertexId, VertexSpec};

/// The number of a cell that is in the graph no more.
const NONE: u32 = u32::MAX;

/// There is one of each vertex, so it is small.
pub(super) struct Cell {
    pub(super) vertex: Mutex<Box<dyn Vertex>>,
    /// `None` if the vertex is neither watched nor receives anything.
    rare: Option<Box<Rare>>,
}

struct Rare {
    place: Place,
    /// The number of the member that waits for its events; 0: there is none.
    member: AtomicU64,
    /// Its events could not be taken while it was called.
    is_missed: AtomicBool,
    /// When it is to run because of its events, as it has said last.
    due: Mutex<Option<Instant>>,
    /// It was due, and has not been called since.
    is_hinted: AtomicBool,
    /// What it received in its last successful run, by each port.
    seen: Mutex<Vec<Value>>,
}

/// The number of a vertex that may be watched. A replacement changes it under the lock of the core.
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

    /// True if its watch is of use: it is in the graph, and is not reversed.
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

    /// Returns its place, if the vertex may be watched.
    pub(super) fn place(&self) -> Option<&Place> {
        self.rare.as_ref().map(|it| &it.place)
    }

    /// Returns its number, if it may be watched and is in the graph.
    pub(super) fn vertex_id(&self) -> Option<VertexId> {
        self.place()?.vertex()
    }

    /// Sets its number, or that it is in the graph no more. The watch of one that is reversed is of
    /// no use.
    pub(super) fn set_place(&self, vertex: Option<u32>, is_reversal: bool) {
        if let Some(Place(numbered)) = self.place() {
            numbered.vertex.store(vertex.unwrap_or(NONE), Ordering::SeqCst);
            numbered.is_reversal.fetch_or(is_reversal, Ordering::SeqCst);
        }
    }

    /// Sets which member waits for its events, and returns the one before.
    pub(super) fn set_member(&self, number: u64) -> u64 {
        self.rare.as_ref().map_or(0, |it| it.member.swap(number, Ordering::SeqCst))
    }

    pub(super) fn set_missed(&self, is_missed: bool) {
        if let Some(rare) = &self.rare {
            rare.is_missed.store(is_missed, Ordering::SeqCst);
        }
    }

    /// Returns the member that has missed events while the vertex was called, if it has.
    pub(super) fn take_missed(&self) -> Option<u64> {
        let rare = self.rare.as_ref()?;
        let is_missed = rare.is_missed.swap(false, Ordering::SeqCst);
        is_missed.then(|| rare.member.load(Ordering::SeqCst))
    }

    /// Sets when it is to run because of its events.
    pub(super) fn set_due(&self, at: Option<Instant>) {
        if let Some(rare) = &self.rare {
            *lock(&rare.due) = at;
        }
    }

    /// Takes note that it is called: that counts for all events before.
    pub(super) fn begin(&self) {
        if let Some(rare) = &self.rare {
            *lock(&rare.due) = None;
            rare.is_hinted.store(false, Ordering::SeqCst);
        }
    }

    /// True if it is due, the first time since it was called.
    pub(super) fn take_due(&self, now: Instant) -> bool {
        self.rare.as_ref().is_some_and(|it| {
            lock(&it.due).is_some_and(|at| at <= now) && !it.is_hinted.swap(true, Ordering::SeqCst)
        })
    }

    pub(super) fn seen(&self) -> Vec<Value> {
        let seen = self.rare.as_ref().map(|it| lock(&it.seen).clone());
        seen.unwrap_or_default()
    }

    /// Keeps what was received, and returns what was before.
    pub(super) fn replace_seen(&self, received: Vec<Value>) -> Vec<Value> {
        match &self.rare {
            Some(rare) => std::mem::replace(&mut *lock(&rare.seen), received),
            None => received,
        }
    }
}

/// Calls a vertex. Its panic is a failure of class `Unknown`.
pub(crate) fn catch<T>(call: impl FnOnce() -> Result<T, Failure>) -> Result<T, Failure> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| {
        let text = match (payload.downcast_ref::<&str>(), payload.downcast_ref()) {
            (Some(text), _) => (*text).to_owned(),
            (None, Some(text)) => String::clone(text),
            (None, None) => "without a message".to_owned(),
        };
        // Its own drop may panic.
        std::mem::forget(payload);
        let message = format!("the vertex panicked: {text}; this is a fault of its code");
        Err(Failure::new(ErrorClass::Unknown, message))
    })
}

/// Drops a value of a vertex.
pub(crate) fn discard<T>(value: T) {
    // There is no other place for the failure to go.
    let _ = catch(|| {
        drop(value);
        Ok(())
    });
}

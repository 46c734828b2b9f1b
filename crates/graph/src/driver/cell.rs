//! The vertex behind a number of the graph.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use super::replacing::Behaviour;
use crate::ports::Value;
use crate::sync::Mutex;
use crate::{Failure, Vertex, VertexId};

/// The number of a cell that is in the graph no more.
const NONE: u32 = u32::MAX;

pub(super) struct Cell {
    pub(super) vertex: Mutex<Box<dyn Vertex>>,
    pub(super) place: Place,
    /// It gives records of what it makes.
    pub(super) has_records: bool,
    /// False once its watch is of no use.
    pub(super) is_watching: AtomicBool,
    /// What it received in its last successful run, by each port.
    pub(super) seen: Mutex<Vec<Value>>,
    /// Why it failed last.
    pub(super) failure: Mutex<Option<Failure>>,
}

/// The number of a cell, which a replacement changes under the lock of the core.
#[derive(Clone)]
pub(super) struct Place(Arc<AtomicU32>);

impl Place {
    pub(super) fn vertex(&self) -> Option<VertexId> {
        let at = self.0.load(Ordering::SeqCst);
        (at != NONE).then_some(VertexId(at))
    }

    pub(super) fn set(&self, vertex: Option<u32>) {
        self.0.store(vertex.unwrap_or(NONE), Ordering::SeqCst);
    }
}

impl Cell {
    pub(super) fn new((vertex, has_records): Behaviour, at: u32) -> Self {
        Cell {
            has_records,
            vertex: Mutex::new(vertex),
            place: Place(Arc::new(AtomicU32::new(at))),
            is_watching: AtomicBool::new(true),
            seen: Mutex::default(),
            failure: Mutex::new(None),
        }
    }
}

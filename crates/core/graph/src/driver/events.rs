//! The vertices' watches, and the events that they wait for.

use std::sync::Arc;

use trueup_reconcile::Hints;

use super::cell::{Cell, Place, catch, discard};
use super::shared::{Core, Shared};
use crate::Failure;
use crate::runner::{Due, Member, Turn};
use crate::sync::{MutexGuard, lock, now, try_lock};

impl Shared {
    /// Takes the events of the due vertices, and returns the vertices to run. It reads all events
    /// that arrived together before one of the vertices runs, so that the vertices run in order;
    /// until then it keeps `due`.
    pub(super) fn events(&self, due: &mut Due<'_>) -> Vec<Place> {
        let mut hinted = Vec::new();
        for turn in due {
            let watched = lock(&self.core).watched.get(&turn.number()).map(|it| Arc::clone(&it.0));
            if let Some(cell) = watched {
                if self.is_due(&cell, turn) {
                    hinted.extend(cell.place().cloned());
                }
                discard(cell);
            }
        }
        hinted
    }

    /// True if the vertex should run because of its events.
    fn is_due(&self, cell: &Cell, turn: Turn<'_>) -> bool {
        // The thread that is calling the vertex repeats this afterwards.
        cell.set_missed(true);
        let Some(mut vertex) = try_lock(&cell.vertex) else {
            return false;
        };
        cell.set_missed(false);
        if turn.is_timed() && cell.take_due(now()) {
            // Nothing has happened since the vertex asked to run. It continues with its events
            // meanwhile.
            turn.again();
            return true;
        }
        let number = turn.number();
        let events = catch(|| vertex.events(turn));
        cell.set_due(events.as_ref().copied().unwrap_or_default());
        drop(vertex);
        match events {
            Ok(_) => cell.take_due(now()),
            Err(failure) => {
                let mut core = lock(&self.core);
                let watched = core.watched.remove(&number);
                core.unwatched(cell, failure);
                self.wake(&mut core);
                drop(core);
                discard(watched);
                false
            }
        }
    }

    /// Begins a vertex's watch.
    pub(super) fn watch(self: &Arc<Shared>, cell: &Arc<Cell>) -> MutexGuard<'_, Core> {
        let weak = Arc::downgrade(self);
        let place = cell.place().cloned();
        let hints = Hints::new(move || {
            if let Some((shared, place)) = weak.upgrade().zip(place.clone()) {
                let mut core = lock(&shared.core);
                core.hint(&[place]);
                shared.wake(&mut core);
            }
        });
        let mut core = lock(&self.core);
        let Some(member) = core.member_of(cell) else {
            return core;
        };
        drop(core);
        let watched = {
            let mut vertex = lock(&cell.vertex);
            catch(|| vertex.watch(hints, member.waker()))
        };
        core = lock(&self.core);
        match watched {
            Err(failure) => core.unwatched(cell, failure),
            Ok(has_events) => {
                if let Some(vertex) = cell.vertex_id() {
                    core.state.handle_ready(now(), vertex);
                }
                if has_events && cell.place().is_some_and(Place::is_watching) {
                    member.wake();
                    core.watched.remove(&cell.set_member(member.number()));
                    core.watched.insert(member.number(), (Arc::clone(cell), member));
                }
            }
        }
        core
    }
}

impl Core {
    /// Handles a hint for each of these vertices.
    pub(super) fn hint(&mut self, places: &[Place]) {
        for vertex in places.iter().filter_map(Place::vertex) {
            self.state.handle_event(now(), vertex);
        }
    }

    /// Creates the member by which a vertex waits for events, on its own thread if it has one.
    /// `None` if the driver is stopping.
    fn member_of(&self, cell: &Cell) -> Option<Member> {
        let vertex = cell.vertex_id();
        let thread = vertex.and_then(|it| {
            self.named.get(self.state.graph().vertices[it.0 as usize].rare().thread.as_ref()?)
        });
        let first = thread.map_or(self.waker.member(), |it| Some(&it.member));
        first.map(Member::another)
    }

    /// Notes that a vertex's watch failed or ended.
    fn unwatched(&mut self, cell: &Cell, failure: Failure) {
        if let Some(vertex) = cell.vertex_id() {
            self.messages.insert(vertex, failure.message.clone());
            let delay = self.state.graph().vertices[vertex.0 as usize].delay;
            self.state.handle_unwatched(now(), vertex, delay);
        }
    }
}

//! What vertices report: their watches, and the events that they wait for.

use std::ops::ControlFlow;
use std::sync::Arc;

use trueup_reconcile::{Drained, Hints};

use super::cell::{Cell, Place, catch, discard};
use super::shared::{Core, Shared};
use crate::runner::{Due, Member, Task, Turn};
use crate::sync::{MutexGuard, lock, now, try_lock};
use crate::{Failure, Watch};

/// The task whose members are the vertices that wait for events.
pub(super) struct Events(pub(super) Arc<Shared>);

impl Task for Events {
    fn turn(&self, due: Due<'_>) -> ControlFlow<()> {
        self.0.events(due);
        ControlFlow::Continue(())
    }

    fn stop(&self) {
        self.0.begin_stop();
    }
}

impl Shared {
    /// Takes the events of the vertices that are due. Those that came together are all known before
    /// one of the vertices runs, so that they run in order.
    pub(super) fn events<'a>(&self, due: impl Iterator<Item = Turn<'a>>) {
        let mut hinted = Vec::new();
        for turn in due {
            let watched = lock(&self.core).watched.get(&turn.number()).map(|it| Arc::clone(&it.0));
            if let Some(cell) = watched {
                if self.has_event(&cell, turn) { hinted.push(cell) } else { discard(cell) }
            }
        }
        if !hinted.is_empty() {
            self.hint(hinted.iter().filter_map(|cell| cell.place()));
            hinted.into_iter().for_each(discard);
        }
    }

    fn has_event(&self, cell: &Cell, turn: Turn<'_>) -> bool {
        // The thread that calls it repeats this afterwards.
        cell.set_missed(true);
        let Some(mut vertex) = try_lock(&cell.vertex) else {
            return false;
        };
        cell.set_missed(false);
        let number = turn.number();
        let events = catch(|| vertex.events(turn));
        drop(vertex);
        match events {
            Ok(Drained::Nothing) => false,
            Ok(Drained::Hint | Drained::Lost) => true,
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

    /// Takes a hint of each of these vertices.
    fn hint<'a>(&self, places: impl IntoIterator<Item = &'a Place>) {
        let mut core = lock(&self.core);
        for vertex in places.into_iter().filter_map(Place::vertex) {
            core.state.handle_event(now(), vertex);
        }
        self.wake(&mut core);
    }

    /// Begins the watch of a vertex.
    pub(super) fn watch(self: &Arc<Shared>, cell: &Arc<Cell>) -> MutexGuard<'_, Core> {
        let weak = Arc::downgrade(self);
        let place = cell.place().cloned();
        let hints = Hints::new(move || {
            if let Some((shared, place)) = weak.upgrade().zip(place.as_ref()) {
                shared.hint([place]);
            }
        });
        let mut core = lock(&self.core);
        let Some(member) = core.member_of(cell) else {
            return core;
        };
        drop(core);
        let watch = {
            let mut vertex = lock(&cell.vertex);
            catch(|| vertex.watch(hints, member.waker()))
        };
        core = lock(&self.core);
        match watch {
            Err(failure) => core.unwatched(cell, failure),
            Ok(watch) => {
                if let Some(vertex) = cell.vertex_id() {
                    core.state.handle_ready(now(), vertex);
                }
                if watch == Watch::Events && cell.place().is_some_and(Place::is_watching) {
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
    /// Makes what a vertex waits with, on its own thread if it is declared to run on one. `None` if
    /// the driver ends.
    fn member_of(&self, cell: &Cell) -> Option<Member> {
        let vertex = cell.vertex_id();
        let thread = vertex.and_then(|it| {
            self.named.get(self.state.graph().vertices[it.0 as usize].rare().thread.as_ref()?)
        });
        let first = thread.map_or(self.events.as_ref(), |it| Some(&it.member));
        first.map(Member::another)
    }

    /// Takes note that a vertex is not watched, or no longer.
    fn unwatched(&mut self, cell: &Cell, failure: Failure) {
        if let Some(vertex) = cell.vertex_id() {
            self.messages.insert(vertex, failure.message.clone());
            let delay = self.state.graph().vertices[vertex.0 as usize].delay;
            self.state.handle_unwatched(now(), vertex, delay);
        }
    }
}

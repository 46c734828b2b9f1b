//! States that differ only in numbers of runs and tickets, or in what is past, are one.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::time::Instant;

use super::world::World;

impl World<'_> {
    pub(super) fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        let state = &self.state;
        let in_future = |at: Option<Instant>| {
            at.filter(|at| *at > self.now)
                .map(|at| at.duration_since(self.now))
        };
        for slot in &state.slots {
            (
                slot.dirty,
                slot.running,
                slot.halted,
                slot.watched,
                slot.gone,
            )
                .hash(&mut hasher);
            (&slot.intent, slot.doubt, slot.granted, slot.blocked).hash(&mut hasher);
            (slot.pending, slot.attempts).hash(&mut hasher);
            (in_future(slot.timer), in_future(slot.not_before)).hash(&mut hasher);
        }
        for run in &state.runs {
            let is_waiting = state.waiting.contains(&run.id);
            let is_writing = state.writing.iter().any(|it| it.1.contains(&run.id));
            let context = (
                run.context.apply,
                run.context.refreshes,
                run.context.reverse,
            );
            (run.vertex, run.stage, context, run.stale).hash(&mut hasher);
            (is_waiting, is_writing, &run.semaphores, &run.undo).hash(&mut hasher);
        }
        state.ready.values().collect::<Vec<_>>().hash(&mut hasher);
        state.semaphores.hash_order(&mut hasher);
        (&state.unsaved, in_future(state.persist_at)).hash(&mut hasher);
        (&self.journal, &self.writing, self.paused, self.budget).hash(&mut hasher);
        (
            self.revisions,
            self.present,
            self.things,
            &state.made,
            self.model.vertices,
            self.model.runs(),
        )
            .hash(&mut hasher);
        hasher.finish()
    }
}

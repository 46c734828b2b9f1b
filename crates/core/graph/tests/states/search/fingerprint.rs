//! Fingerprints of states. States that differ only in the numbers of runs and tickets, or in past
//! events, have the same one.

use std::hash::{Hash, Hasher};
use std::time::Instant;

use super::world::World;

/// Two hashes of 64 bits, mixed in different ways. In a search of a billion states, two states
/// collide with a probability of 1 in 10^20.
struct Mixer(u64, u64);

impl Mixer {
    fn mix(&mut self, word: u64) {
        let product = |one: u64, other: u64| {
            let product = u128::from(one) * u128::from(other);
            (product >> 64) as u64 ^ product as u64
        };
        self.0 = product(self.0 ^ word ^ 0x9e37_79b9_7f4a_7c15, 0xa076_1d64_78bd_642f);
        self.1 = product(self.1.rotate_left(23) ^ word, 0xe703_7ed1_a0b4_28db) ^ word;
    }
}

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.mix(u64::from_le_bytes(word));
        }
        self.mix(bytes.len() as u64);
    }

    fn write_u8(&mut self, word: u8) {
        self.mix(u64::from(word));
    }

    fn write_u32(&mut self, word: u32) {
        self.mix(u64::from(word));
    }

    fn write_u64(&mut self, word: u64) {
        self.mix(word);
    }

    fn write_usize(&mut self, word: usize) {
        self.mix(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl World<'_> {
    pub(super) fn fingerprint(&self) -> u128 {
        let mut hasher = Mixer(1, 2);
        let state = &self.state;
        let in_future = |at: Option<Instant>| {
            at.filter(|at| *at > self.now).map(|at| at.duration_since(self.now).as_millis() as u64)
        };
        for slot in &state.slots {
            let flags = [
                slot.dirty,
                slot.running,
                slot.halted,
                slot.watched,
                slot.gone,
                slot.granted,
                slot.held,
            ];
            let flags = flags.into_iter().fold(0, |all, it| 2 * all + u32::from(it));
            let doubt = slot.rare.as_ref().map(|it| &it.doubt).filter(|it| !it.is_empty());
            (flags, slot.intent(), doubt, slot.blocked).hash(&mut hasher);
            (slot.pending, slot.attempts).hash(&mut hasher);
            (in_future(slot.timer()), in_future(slot.not_before())).hash(&mut hasher);
        }
        for run in &state.runs {
            let is_waiting = state.waiting.contains(&run.id);
            let is_writing = state.writing.iter().any(|it| it.1.contains(&run.id));
            let context = (run.context.apply, run.context.refreshes, run.context.reverse);
            (run.vertex, run.stage, context, run.stale).hash(&mut hasher);
            (is_waiting, is_writing, &run.semaphores, run.group).hash(&mut hasher);
            (&run.kinds, &run.undo).hash(&mut hasher);
        }
        state.ready.len().hash(&mut hasher);
        state.ready.values().for_each(|it| it.hash(&mut hasher));
        for group in &state.groups {
            (group.running, group.waiting.values().collect::<Vec<_>>()).hash(&mut hasher);
        }
        for semaphore in &state.semaphores.0 {
            let waiting = semaphore.waiting.values().collect::<Vec<_>>();
            (semaphore.free, waiting).hash(&mut hasher);
        }
        (&state.unsaved, in_future(state.persist_at)).hash(&mut hasher);
        (&self.journal, &self.writing, self.paused, self.budget).hash(&mut hasher);
        (self.revisions, self.present, self.things).hash(&mut hasher);
        (&state.made, &state.values).hash(&mut hasher);
        self.model.vertices.hash(&mut hasher);
        u128::from(hasher.0) << 64 | u128::from(hasher.1)
    }
}

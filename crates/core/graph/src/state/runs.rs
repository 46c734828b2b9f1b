//! A run from its start to its end, with the records on the way.
//!
//! A vertex that refreshes no other and has no records applies at once. Any other vertex first
//! *checks*. If it would change something, its *intent* is recorded before it *applies*.
//! Afterwards, one transaction, the *commit*, withdraws the intent and counts the refreshes of the
//! affected vertices. After a crash between the two, the intent is still there, and the next run
//! refreshes them in any case.

use std::sync::Arc;
use std::time::Instant;

use trueup_reconcile::ErrorClass;

use super::{Cause, Context, RunId, State, Verdict};
use crate::edge::Kinds;
use crate::{Records, VertexId};

#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) id: RunId,
    pub(crate) vertex: u32,
    pub(crate) stage: Stage,
    pub(crate) context: Context,
    /// True if the vertex was replaced or left since the run began.
    pub(crate) stale: bool,
    pub(crate) verdict: Verdict,
    /// The kinds of the run's changes; `None` if it named none.
    pub(crate) kinds: Option<Kinds>,
    /// The record of the run's work; `None` if the vertex has not given one.
    pub(crate) undo: Option<Option<Arc<[u8]>>>,
    pub(crate) semaphores: Vec<u32>,
    /// The group that it runs with.
    pub(crate) group: Option<usize>,
}

/// The content of [`Action::Run`].
pub(super) type Call = (RunId, VertexId, Context);

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// Checks if something differs.
    Check,
    /// Waits for the record of its intent.
    Intent,
    Apply,
    /// Applies, and waits for the record of its announcement.
    Announced,
    /// Waits for the record of the refreshes it caused.
    Commit,
}

impl State {
    /// Begins the run of a vertex that was taken out of the queue. `None` if its intent must be
    /// recorded first.
    pub(super) fn start(&mut self, now: Instant, vertex: u32) -> Option<Call> {
        self.take_token(now, vertex);
        let declared = &self.graph.vertices[vertex as usize];
        let slot = &mut self.slots[vertex as usize];
        debug_assert!(!slot.held, "what may run is not held");
        (slot.dirty, slot.running) = (false, true);
        (slot.ticket, slot.granted) = (0, false);
        slot.set_not_before(None);
        let reverse = vertex as usize >= self.graph.own;
        let refreshes = if reverse { 0 } else { slot.pending };
        let must_check = !reverse
            && match declared.records {
                Records::None => false,
                Records::Varying => true,
                Records::Constant => !self.made.contains_key(&declared.name),
            };
        let is_intended = declared.announces || self.is_intended(vertex);
        let (stage, apply) = match (declared.noop || must_check, is_intended, refreshes) {
            (true, ..) => (Stage::Check, false),
            (_, true, _) => (Stage::Apply, true),
            (_, _, 0) => (Stage::Check, false),
            _ => (Stage::Intent, true),
        };
        self.last_run += 1;
        let id = RunId(self.last_run);
        let context = Context { apply, refreshes, reverse };
        let group = self.take_worker(vertex);
        self.runs.push(Run {
            id,
            vertex,
            stage,
            context,
            stale: false,
            verdict: Verdict::InPlace,
            kinds: None,
            undo: None,
            semaphores: self.graph.holds.of(vertex).to_vec(),
            group,
        });
        if stage == Stage::Intent {
            self.record_intent(self.runs.len() - 1);
            return None;
        }
        Some((id, VertexId(vertex), context))
    }

    fn record_intent(&mut self, index: usize) {
        let run = &mut self.runs[index];
        run.stage = Stage::Intent;
        let (id, vertex) = (run.id, run.vertex);
        let announces = self.graph.vertices[vertex as usize].announces;
        let is_extended = !announces && self.extend_intent(vertex, &Kinds::All);
        let must_save = is_extended | self.record_plan(index);
        if must_save {
            self.waiting.push(id);
        } else {
            // The journal knows the whole intent, or no vertex is refreshed any longer.
            self.to_apply.push_back(id);
        }
    }

    /// True if a run that has waited may still apply. If not, it begins anew later.
    fn may_apply(&self, run: &Run) -> bool {
        let slot = &self.slots[run.vertex as usize];
        // A run that was already called continues if only the order puts another vertex before it.
        let is_called = run.stage != Stage::Intent || !run.context.apply;
        let is_in_turn = slot.blocked == 0 || !slot.dirty && is_called;
        !self.paused && !run.stale && is_in_turn
    }

    /// Begins to apply; `None` if the run must not.
    pub(super) fn apply(&mut self, now: Instant, id: RunId) -> Option<Call> {
        let index = self.place(id)?;
        if !self.may_apply(&self.runs[index]) {
            self.give_up(now, id);
            return None;
        }
        let run = &mut self.runs[index];
        // It sees everything that has happened up to now.
        let slot = &mut self.slots[run.vertex as usize];
        slot.dirty = false;
        run.context.refreshes = slot.pending;
        (run.stage, run.kinds) = (Stage::Apply, None);
        run.context.apply = true;
        Some((id, VertexId(run.vertex), run.context))
    }

    /// Handles the result of a run that checked or applied.
    pub(crate) fn finish(
        &mut self,
        now: Instant,
        index: usize,
        result: Result<Verdict, ErrorClass>,
    ) {
        let Run { vertex, stage, context, .. } = self.runs[index];
        let is_noop = self.graph.vertices[vertex as usize].noop && !context.apply;
        let verdict = match result {
            Ok(verdict) => verdict,
            Err(ErrorClass::DoneAlready) => Verdict::InPlace,
            Err(class) => {
                self.doubt(index);
                return self.fail(now, index, class);
            }
        };
        self.runs[index].verdict = verdict;
        // A refreshed vertex must act in any case, once its record is known.
        let is_asked = match stage {
            Stage::Check => verdict == Verdict::WouldChange || context.refreshes > 0,
            // It would make more than was recorded.
            _ => verdict == Verdict::WouldChange && self.is_new_plan(index),
        };
        match (stage, verdict) {
            (Stage::Check, _) if is_noop => self.complete(now, index),
            _ if is_asked && !self.may_apply(&self.runs[index]) => {
                let id = self.runs[index].id;
                self.give_up(now, id);
            }
            _ if is_asked => self.record_intent(index),
            // The run was to apply, and did not.
            (_, Verdict::WouldChange) => self.fail(now, index, ErrorClass::StoredOtherwise),
            _ => self.commit(now, index),
        }
    }

    /// Notes that a run which did not end well may have changed something.
    pub(crate) fn doubt(&mut self, index: usize) {
        let Run { vertex, stage, ref kinds, .. } = self.runs[index];
        let announces = self.graph.vertices[vertex as usize].announces;
        if matches!(stage, Stage::Apply | Stage::Announced) {
            let unsaid = if announces { Kinds::default() } else { Kinds::All };
            self.slots[vertex as usize].add_doubt(kinds.clone().unwrap_or(unsaid));
        }
    }

    /// Records the consequences of a successful run.
    fn commit(&mut self, now: Instant, index: usize) {
        let run = &self.runs[index];
        let (id, vertex) = (run.id, run.vertex);
        let slot = &mut self.slots[vertex as usize];
        let mut changed = slot.take_doubt();
        if run.verdict == Verdict::Changed {
            changed.add(run.kinds.clone().unwrap_or(Kinds::All));
        }
        let intent = slot.take_intent();
        if run.context.reverse {
            slot.pending = 0;
        }
        let mut must_save = intent.is_some() || run.context.refreshes > 0;
        slot.pending -= run.context.refreshes.min(slot.pending);
        must_save |= self.record_outcome(index);
        if must_save {
            self.save(vertex);
        }
        must_save |= self.notify(now, vertex, intent, &changed);
        if must_save {
            match std::mem::replace(&mut self.runs[index].stage, Stage::Commit) {
                Stage::Announced => self.wait_again(id),
                _ => self.waiting.push(id),
            }
        } else {
            self.complete(now, index);
        }
    }

    /// Continues a run that waited for records.
    pub(crate) fn recorded(&mut self, now: Instant, id: RunId) {
        let Some(index) = self.place(id) else {
            return;
        };
        match self.runs[index].stage {
            Stage::Intent => self.to_apply.push_back(id),
            Stage::Announced => self.runs[index].stage = Stage::Apply,
            Stage::Commit => self.complete(now, index),
            Stage::Check | Stage::Apply => {}
        }
    }

    fn complete(&mut self, now: Instant, index: usize) {
        let run = self.remove(index);
        let slot = &mut self.slots[run.vertex as usize];
        slot.last = Some(Ok(run.verdict));
        slot.attempts = 0;
        if run.context.reverse {
            self.end_reversal(run.vertex);
            if run.stage != Stage::Commit {
                self.save(run.vertex);
            }
        }
        if self.slots[run.vertex as usize].dirty {
            self.renew_children(now, run.vertex);
            self.enqueue(now, run.vertex);
        } else {
            self.settle(now, run.vertex);
        }
    }

    fn fail(&mut self, now: Instant, index: usize, class: ErrorClass) {
        let run = self.remove(index);
        if run.context.reverse && self.is_taken_over(run.vertex) {
            // A vertex of that name is back, and makes again what could not be undone.
            self.end_reversal(run.vertex);
            return self.settle(now, run.vertex);
        }
        let (retries, delay) = self.graph.vertices[run.vertex as usize].retry(class);
        let slot = &mut self.slots[run.vertex as usize];
        slot.last = Some(Err(class));
        slot.attempts = slot.attempts.saturating_add(1);
        let is_over = slot.attempts > retries && retries < u32::MAX;
        if slot.dirty {
            // An event came meanwhile and makes a new beginning, but the delay stays.
            slot.attempts = 1;
        } else {
            slot.halted = is_over;
            slot.dirty = true;
            slot.cause = Cause::Retry;
        }
        let is_halted = slot.halted;
        let not_before = now.checked_add(delay);
        slot.set_not_before(not_before.filter(|_| !is_halted));
        if is_halted && let Some(interval) = self.poll(run.vertex) {
            self.set_timer(run.vertex, now.checked_add(interval.max(delay)));
        }
        self.close_intent(now, run.vertex);
        self.enqueue(now, run.vertex);
    }

    /// Ends a run that was to apply and no longer may.
    pub(crate) fn give_up(&mut self, now: Instant, id: RunId) {
        if let Some(index) = self.place(id) {
            let vertex = self.remove(index).vertex;
            let slot = &mut self.slots[vertex as usize];
            slot.dirty = true;
            slot.cause = Cause::Interrupted;
            self.close_intent(now, vertex);
            self.enqueue(now, vertex);
        }
    }

    fn remove(&mut self, index: usize) -> Run {
        let run = self.runs.remove(index);
        self.slots[run.vertex as usize].running = false;
        self.semaphores.release(&run.semaphores);
        self.grant(run.semaphores.clone());
        self.release_worker(run.group);
        run
    }

    /// Returns a run's index. Runs are sorted by number.
    pub(super) fn place(&self, id: RunId) -> Option<usize> {
        self.runs.binary_search_by_key(&id, |run| run.id).ok()
    }

    /// Returns the index of a run that is being called and waits for no record.
    pub(super) fn called(&self, id: RunId) -> Option<usize> {
        let at = self.place(id)?;
        matches!(self.runs[at].stage, Stage::Check | Stage::Apply | Stage::Announced).then_some(at)
    }
}

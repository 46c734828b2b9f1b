//! The effect of events and ended runs on the promises.

use trueup_reconcile::ErrorClass;

use super::super::Edge;
use super::super::world::verdict;
use super::{Kinds, Model, Phase, Run};
use crate::state::{RunId, State, Verdict};

impl Model<'_> {
    /// Returns the verdict of a run that ends, and its work, done or planned.
    pub(in super::super) fn succeed(
        &mut self,
        at: usize,
        reverse: bool,
    ) -> (RunId, Verdict, Option<u8>) {
        let notified = self.notified(at);
        let kinds = self.vertices[at].run.map_or(0, |run| self.changes(at, &run));
        let promise = &mut self.vertices[at];
        if let (true, Some(id)) = (reverse, promise.reversal.take()) {
            (promise.leaving, promise.refused, promise.made) = (false, false, None);
            promise.begun = false;
            if promise.present {
                return (id, Verdict::Changed, None);
            }
            // A vertex that comes again is made anew, so no refresh is due.
            for run in self.vertices.iter_mut().filter_map(|it| it.run.as_mut()) {
                if let Phase::Succeeded(_, notified) = &mut run.phase {
                    notified[at] = 0;
                }
            }
            return (id, Verdict::Changed, None);
        }
        let run = promise.run.as_mut().unwrap();
        let drifted = run.drifted_before.unwrap_or(promise.drifted);
        let thing = run.thing;
        let is_recorded = self.shape.budget.recorded[at];
        // A refreshed vertex must act once its planned work is recorded; no work is done without a
        // record.
        let acts = drifted || is_recorded && run.context.refreshes > 0;
        let is_planned = run.is_planned || promise.made == Some(thing);
        let is_known = !is_recorded || !drifted || is_planned;
        if !run.context.apply && acts || !is_known {
            (run.phase, run.is_planned) = (Phase::Between, drifted);
            let made = if drifted { Some(thing) } else { promise.made };
            return (run.id, verdict_of_check(drifted), made);
        }
        let acts = run.context.apply && (drifted || run.context.refreshes > 0);
        let changed = if acts { kinds } else { 0 };
        run.phase = Phase::Succeeded(changed, notified);
        let (id, is_former) = (run.id, run.is_former);
        if run.context.apply && drifted {
            promise.made = Some(thing).filter(|_| is_recorded);
        }
        let made = promise.made;
        promise.drifted &= run.drifted_before.is_some();
        if !is_former {
            (promise.failures, promise.halted) = (0, false);
        }
        if !promise.present || is_former {
            self.notify_by_intent(at, changed);
        }
        (id, verdict(changed), made)
    }

    pub(in super::super) fn fail(
        &mut self,
        at: usize,
        reverse: bool,
        class: ErrorClass,
        effect: bool,
    ) -> RunId {
        let promise = &mut self.vertices[at];
        if let (true, Some(id)) = (reverse, promise.reversal.take()) {
            promise.reversal_halted |= class.is_permanent();
            // The vertex that is back makes again what could not be undone.
            promise.leaving &= !promise.present || promise.refused;
            return id;
        }
        let run = promise.run.take().unwrap();
        let kinds = self.changes(at, &run);
        let promise = &mut self.vertices[at];
        if run.context.apply {
            promise.unnotified.1 |= kinds;
        }
        if effect {
            promise.act(&run, self.shape.budget.recorded[at], kinds);
        }
        if run.is_former {
            self.notify_by_intent(at, 0);
            return run.id;
        }
        promise.failures += 1;
        promise.halted = !promise.due && (class.is_permanent() || promise.failures > 1);
        if promise.due {
            promise.failures = 1;
        }
        promise.due |= promise.present;
        if !promise.present {
            self.notify_by_intent(at, 0);
        }
        run.id
    }

    pub(in super::super) fn drift(&mut self, at: usize) {
        self.vertices[at].drifted = true;
        self.touch(at);
    }

    /// Declares a vertex anew.
    pub(in super::super) fn change(&mut self, at: usize) {
        self.vertices[at].drifted = true;
        self.renew(at);
    }

    fn renew(&mut self, at: usize) {
        let promise = &mut self.vertices[at];
        (promise.failures, promise.halted) = (0, false);
        self.touch(at);
    }

    /// Makes a vertex run, and the vertices that run with it.
    fn make_due(&mut self, at: usize) {
        let others: Vec<_> = self.led(at).collect();
        for it in [at].into_iter().chain(others) {
            self.vertices[it].due = true;
        }
    }

    fn touch(&mut self, at: usize) {
        self.make_due(at);
        let promise = &mut self.vertices[at];
        (promise.failures, promise.halted) = match promise.run {
            Some(_) => (promise.failures, promise.halted),
            None => (if promise.halted { 0 } else { promise.failures }, false),
        };
    }

    /// Handles a vertex that leaves or comes: its receivers are declared anew.
    pub(in super::super) fn change_receivers(&mut self, at: usize) {
        let receivers = self.shape.edges.iter();
        let receivers = receivers.filter(|it| it.0 == at && it.2 == Edge::Order);
        let receivers: Vec<_> = receivers.map(|it| it.1).collect();
        for it in receivers {
            if self.shape.budget.ports && self.vertices[it].present {
                self.renew(it);
            }
        }
    }

    /// Handles a replacement: running reversals continue without an order.
    pub(in super::super) fn replace(&mut self) {
        for it in &mut self.vertices {
            it.begun |= it.reversal.is_some();
        }
    }

    /// Removes a vertex. A vertex that waits for its own reversal has never run.
    pub(in super::super) fn remove(&mut self, at: usize, has_run: bool) {
        if let Some(run) = &mut self.vertices[at].run
            && let Phase::Succeeded(changed, notified) = run.phase
            && !run.is_former
        {
            // No vertex waits for its record any longer.
            run.phase = Phase::Succeeded(0, [0; 4]);
            self.notify(at, changed, notified);
        }
        let promise = &mut self.vertices[at];
        (promise.present, promise.due) = (false, false);
        promise.leaving |= has_run;
        promise.has_sent = false;
        promise.begun = false;
        promise.reversal_halted &= std::mem::take(&mut promise.refused);
        promise.halted = false;
        if promise.run.is_none() {
            self.notify_by_intent(at, 0);
        }
    }

    /// Counts the refreshes that a vertex which has left owes to others.
    fn notify_by_intent(&mut self, at: usize, changed: Kinds) {
        let notified = changed | self.vertices[at].unnotified.1;
        let targets = self.vertices[at].targets;
        let is_there = |it: usize| self.vertices[it].present;
        let targets = std::array::from_fn(|it| if is_there(it) { targets[it] } else { 0 });
        self.notify(at, changed, targets);
        for it in (0..4).filter(|&it| notified & targets[it] != 0) {
            self.touch(it);
        }
    }

    pub(in super::super) fn add(&mut self, at: usize) {
        let promise = &mut self.vertices[at];
        promise.present = true;
        promise.reversal_halted = false;
        promise.leaving = promise.reversal.is_some();
        // It may already be gone, with its refreshes, or not yet.
        promise.owed.0 = 0;
        promise.unnotified.0 = 0;
        self.change(at);
    }

    /// Handles runs that have ended in the state machine.
    pub(in super::super) fn follow(&mut self, state: &State) {
        for at in 0..4 {
            let Some(run) = self.vertices[at].run else {
                continue;
            };
            if run.phase == Phase::Announcing && state.is_announced(run.id) {
                self.vertices[at].run = Some(Run { phase: Phase::Running, ..run });
            }
            let is_called = matches!(run.phase, Phase::Running | Phase::Announcing);
            if is_called || state.runs.iter().any(|it| it.id == run.id) {
                continue;
            }
            self.vertices[at].run = None;
            let Phase::Succeeded(changed, notified) = run.phase else {
                // The state machine gave it up.
                let promise = &mut self.vertices[at];
                promise.due = promise.present;
                if !promise.present || run.is_former {
                    self.notify_by_intent(at, 0);
                }
                continue;
            };
            let owed = &mut self.vertices[at].owed;
            owed.0 = owed.0.saturating_sub(run.owed.0);
            if run.is_former {
                // The vertex that is back may have to act on them, too.
                continue;
            }
            owed.1 -= run.owed.1;
            if run.thing == self.vertices[at].thing {
                self.vertices[at].needs = std::array::from_fn(|_| false);
                self.note_needs(at);
            }
            if self.vertices[at].present {
                self.notify(at, changed, notified);
            }
            let led = self.edges().filter(|it| it.0 == at && it.2 != Edge::Tried);
            let led: Vec<_> = led.collect();
            for (_, child, _) in led {
                let promise = &mut self.vertices[child];
                if std::mem::take(&mut promise.halted) {
                    promise.failures = 0;
                }
            }
        }
    }

    /// Counts the refreshes caused by a success, or by an intent.
    fn notify(&mut self, at: usize, changed: Kinds, notified: [Kinds; 4]) {
        self.vertices[at].targets = [0; 4];
        let unnotified = std::mem::take(&mut self.vertices[at].unnotified);
        let least = changed | unnotified.0;
        for (child, passed) in notified.into_iter().enumerate() {
            let is_notified = |kinds: Kinds| u32::from(kinds & passed != 0);
            let owed = &mut self.vertices[child].owed;
            *owed = (owed.0 + is_notified(least), owed.1 + is_notified(least | unnotified.1));
        }
    }
}

fn verdict_of_check(drifted: bool) -> Verdict {
    match drifted {
        true => Verdict::WouldChange,
        false => Verdict::InPlace,
    }
}

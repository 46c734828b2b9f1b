//! What events and the ends of runs change of the promises.

use std::collections::BTreeMap;
use std::sync::Arc;

use trueup_reconcile::ErrorClass;

use super::super::Edge;
use super::super::world::{NAMES, verdict};
use super::{Model, Phase};
use crate::state::{Record, RunId, State, Verdict};

impl Model {
    pub(in super::super) fn succeed(&mut self, at: usize, reverse: bool) -> (RunId, Verdict) {
        let notified = self.edges().filter(|it| it.0 == at && it.2 == Edge::Notify);
        let notified: Vec<_> = notified.map(|it| it.1).collect();
        let promise = &mut self.vertices[at];
        if let (true, Some(id)) = (reverse, promise.reversal.take()) {
            promise.leaving = false;
            if promise.present {
                return (id, Verdict::Changed);
            }
            // It is made anew if it comes again: nothing is to be refreshed.
            for run in self.vertices.iter_mut().filter_map(|it| it.run.as_mut()) {
                if let Phase::Succeeded(_, notified) = &mut run.phase {
                    notified[at] = false;
                }
            }
            return (id, Verdict::Changed);
        }
        let drifted = promise.drifted;
        let told = std::array::from_fn(|it| notified.contains(&it));
        let run = promise.run.as_mut().unwrap();
        if !run.context.apply && drifted {
            run.phase = Phase::Between;
            return (run.id, Verdict::WouldChange);
        }
        let changed = run.context.apply && (drifted || run.context.refreshes > 0);
        run.phase = Phase::Succeeded(changed, told);
        (promise.drifted, promise.failures, promise.halted) = (false, 0, false);
        (promise.run.unwrap().id, verdict(changed))
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
            // What is back makes again what could not be undone.
            promise.leaving &= !promise.present;
            return id;
        }
        let run = promise.run.take().unwrap();
        if run.context.apply {
            promise.untold.1 = true;
        }
        if effect {
            promise.untold.0 |= promise.drifted || run.context.refreshes > 0;
            promise.drifted = false;
        }
        promise.failures += 1;
        promise.halted = !promise.due && (class.is_permanent() || promise.failures > 1);
        if promise.due {
            promise.failures = 1;
        }
        promise.due |= promise.present;
        run.id
    }

    pub(in super::super) fn drift(&mut self, at: usize) {
        self.vertices[at].drifted = true;
        self.touch(at);
    }

    fn touch(&mut self, at: usize) {
        let descendants: Vec<_> = self.descendants(at).collect();
        for it in [at].into_iter().chain(descendants) {
            self.vertices[it].due = true;
        }
        let promise = &mut self.vertices[at];
        (promise.failures, promise.halted) = match promise.run {
            Some(_) => (promise.failures, promise.halted),
            None => (if promise.halted { 0 } else { promise.failures }, false),
        };
    }

    pub(in super::super) fn remove(&mut self, at: usize) {
        if let Some(run) = &mut self.vertices[at].run
            && let Phase::Succeeded(changed, notified) = run.phase
        {
            // Nobody waits for its record any more. A kill before it is written loses it.
            run.phase = Phase::Succeeded(false, [false; 4]);
            self.vertices[at].unsafely_told = notified;
            self.tell(at, changed, notified);
        }
        let promise = &mut self.vertices[at];
        (promise.present, promise.due, promise.leaving) = (false, false, true);
        (promise.halted, promise.reversal_halted) = (false, false);
    }

    pub(in super::super) fn add(&mut self, at: usize) {
        let promise = &mut self.vertices[at];
        promise.present = true;
        promise.reversal_halted = false;
        promise.leaving = promise.reversal.is_some();
        // It may be gone, with its refreshes, or not yet.
        promise.owed.0 = 0;
        promise.untold.0 = false;
        self.drift(at);
    }

    /// Takes note of runs that have ended in the state machine.
    pub(in super::super) fn follow(&mut self, state: &State) {
        for at in 0..4 {
            let Some(run) = self.vertices[at].run else {
                continue;
            };
            if run.phase == Phase::Running || state.runs.iter().any(|it| it.id == run.id) {
                continue;
            }
            self.vertices[at].run = None;
            self.vertices[at].unsafely_told = [false; 4];
            let Phase::Succeeded(changed, notified) = run.phase else {
                // It was given up.
                let promise = &mut self.vertices[at];
                promise.due = promise.present;
                continue;
            };
            let owed = &mut self.vertices[at].owed;
            *owed = (owed.0.saturating_sub(run.owed.0), owed.1 - run.owed.1);
            self.tell(at, changed, notified);
            let children: Vec<_> = self.edges().filter(|it| it.0 == at).collect();
            for (_, child, _) in children {
                let promise = &mut self.vertices[child];
                if std::mem::take(&mut promise.halted) {
                    promise.failures = 0;
                }
            }
        }
    }

    /// Counts the refreshes that follow from a success.
    fn tell(&mut self, at: usize, changed: bool, notified: [bool; 4]) {
        let untold = std::mem::take(&mut self.vertices[at].untold);
        let told = changed || untold.0;
        for child in (0..4).filter(|&it| notified[it]) {
            let owed = &mut self.vertices[child].owed;
            *owed = (
                owed.0 + u32::from(told),
                owed.1 + u32::from(told || untold.1),
            );
        }
    }

    pub(in super::super) fn kill(&mut self, effects: bool, journal: &BTreeMap<Arc<str>, Record>) {
        for told in self.vertices.map(|it| it.unsafely_told) {
            for at in (0..4).filter(|&it| told[it]) {
                self.vertices[at].owed.0 = 0;
            }
        }
        for (at, promise) in self.vertices.iter_mut().enumerate() {
            promise.unsafely_told = [false; 4];
            if let Some(run) = promise.run.take() {
                let is_acting = run.phase == Phase::Running && run.context.apply;
                let acts = promise.drifted || run.context.refreshes > 0;
                match run.phase {
                    Phase::Succeeded(changed, _) => promise.untold.0 |= changed,
                    _ if is_acting && effects && acts => {
                        promise.untold.0 = true;
                        promise.drifted = false;
                    }
                    _ => {}
                }
            }
            promise.untold.1 |= journal.get(NAMES[at]).is_some_and(|it| it.intent);
            (promise.reversal, promise.leaving) = (None, false);
            (promise.failures, promise.halted) = (0, false);
            promise.due = promise.present;
        }
    }
}

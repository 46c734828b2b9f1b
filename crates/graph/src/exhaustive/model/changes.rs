//! What events and the ends of runs change of the promises.

use std::collections::BTreeMap;
use std::sync::Arc;

use trueup_reconcile::ErrorClass;

use super::super::world::{NAMES, verdict};
use super::{Model, Phase};
use crate::state::{Record, RunId, State, Verdict};

impl Model {
    pub(in super::super) fn succeed(&mut self, at: usize, reverse: bool) -> (RunId, Verdict) {
        let mut notified: [bool; 4] = std::array::from_fn(|_| false);
        self.notified(at).for_each(|it| notified[it] = true);
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
        let run = promise.run.as_mut().unwrap();
        if !run.context.apply && drifted {
            run.phase = Phase::Between;
            return (run.id, Verdict::WouldChange);
        }
        let changed = run.context.apply && (drifted || run.context.refreshes > 0);
        run.phase = Phase::Succeeded(changed, notified);
        let id = run.id;
        (promise.drifted, promise.failures, promise.halted) = (false, 0, false);
        if !promise.present {
            self.notify_by_intent(at, changed);
        }
        (id, verdict(changed))
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
            promise.unnotified.1 = true;
        }
        if effect {
            promise.unnotified.0 |= promise.drifted || run.context.refreshes > 0;
            promise.drifted = false;
        }
        promise.failures += 1;
        promise.halted = !promise.due && (class.is_permanent() || promise.failures > 1);
        if promise.due {
            promise.failures = 1;
        }
        promise.due |= promise.present;
        if !promise.present {
            self.notify_by_intent(at, false);
        }
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
            // No vertex waits for its record any more.
            run.phase = Phase::Succeeded(false, [false; 4]);
            self.notify(at, changed, notified);
        }
        let promise = &mut self.vertices[at];
        (promise.present, promise.due, promise.leaving) = (false, false, true);
        (promise.halted, promise.reversal_halted) = (false, false);
        if promise.run.is_none() {
            self.notify_by_intent(at, false);
        }
    }

    /// Counts the refreshes of a vertex that has left.
    fn notify_by_intent(&mut self, at: usize, changed: bool) {
        let is_notified = changed || self.vertices[at].unnotified.1;
        let targets = self.vertices[at].targets;
        let targets = std::array::from_fn(|it| targets[it] && self.vertices[it].present);
        self.notify(at, changed, targets);
        for it in (0..4).filter(|&it| is_notified && targets[it]) {
            self.touch(it);
        }
    }

    pub(in super::super) fn add(&mut self, at: usize) {
        let promise = &mut self.vertices[at];
        promise.present = true;
        promise.reversal_halted = false;
        promise.leaving = promise.reversal.is_some();
        // It may be gone, with its refreshes, or not yet.
        promise.owed.0 = 0;
        promise.unnotified.0 = false;
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
            let Phase::Succeeded(changed, notified) = run.phase else {
                // It was given up.
                let promise = &mut self.vertices[at];
                promise.due = promise.present;
                if !promise.present {
                    self.notify_by_intent(at, false);
                }
                continue;
            };
            let owed = &mut self.vertices[at].owed;
            *owed = (owed.0.saturating_sub(run.owed.0), owed.1 - run.owed.1);
            if self.vertices[at].present {
                self.notify(at, changed, notified);
            }
            let children: Vec<_> = self.edges().filter(|it| it.0 == at).collect();
            for (_, child, _) in children {
                let promise = &mut self.vertices[child];
                if std::mem::take(&mut promise.halted) {
                    promise.failures = 0;
                }
            }
        }
    }

    /// Counts the refreshes that follow from a success, or from an intent.
    fn notify(&mut self, at: usize, changed: bool, notified: [bool; 4]) {
        self.vertices[at].targets = [false; 4];
        let unnotified = std::mem::take(&mut self.vertices[at].unnotified);
        let is_due = changed || unnotified.0;
        for child in (0..4).filter(|&it| notified[it]) {
            let owed = &mut self.vertices[child].owed;
            *owed = (
                owed.0 + u32::from(is_due),
                owed.1 + u32::from(is_due || unnotified.1),
            );
        }
    }

    pub(in super::super) fn kill(&mut self, effects: bool, journal: &BTreeMap<Arc<str>, Record>) {
        for (at, name) in NAMES.iter().enumerate() {
            let record = journal.get(*name);
            let promise = &mut self.vertices[at];
            if let Some(run) = promise.run.take() {
                let is_acting = run.phase == Phase::Running && run.context.apply;
                let acts = promise.drifted || run.context.refreshes > 0;
                match run.phase {
                    Phase::Succeeded(changed, _) => promise.unnotified.0 |= changed,
                    _ if is_acting && effects && acts => {
                        promise.unnotified.0 = true;
                        promise.drifted = false;
                    }
                    _ => {}
                }
            }
            (promise.reversal, promise.leaving) = (None, false);
            (promise.failures, promise.halted) = (0, false);
            promise.due = promise.present;
            // All that the intent names are notified.
            let is_changed = std::mem::take(&mut promise.unnotified).0;
            let targets = std::mem::take(&mut promise.targets);
            for (it, name) in NAMES.iter().enumerate() {
                let is_named =
                    record.is_some_and(|record| record.intent.iter().any(|it| **it == **name));
                let owed = &mut self.vertices[it].owed;
                *owed = (
                    owed.0 + u32::from(is_changed && targets[it]),
                    owed.1 + u32::from(is_named || is_changed && targets[it]),
                );
            }
        }
    }
}

//! The effect on the promises of a kill, and of another thing under a name.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::world::NAMES;
use super::{Kinds, Model, Phase, Promise, Run};
use crate::state::Record;

impl Promise {
    /// Applies the effect of a run that does not end well.
    pub(super) fn act(&mut self, run: &Run, is_recorded: bool, kinds: Kinds) {
        let drifted = run.drifted_before.unwrap_or(self.drifted);
        let is_planned = run.is_planned || self.made == Some(run.thing);
        let makes = drifted && (is_planned || !is_recorded);
        if makes || run.context.refreshes > 0 {
            self.unnotified.0 |= kinds;
        }
        if makes {
            self.made = Some(run.thing).filter(|_| is_recorded);
            self.drifted &= run.drifted_before.is_some();
        }
    }
}

impl Model<'_> {
    /// Declares another thing under a vertex's name.
    pub(in super::super) fn exchange(&mut self, at: usize, is_refused: bool) {
        let was_refused = self.vertices[at].refused;
        let Promise { owed, drifted, .. } = self.vertices[at];
        if let Some(run) = &mut self.vertices[at].run {
            run.drifted_before.get_or_insert(drifted);
        }
        if is_refused && !was_refused {
            self.remove(at, true);
            if let Some(run) = &mut self.vertices[at].run {
                run.is_former = true;
            }
            self.add(at);
            let promise = &mut self.vertices[at];
            (promise.leaving, promise.refused, promise.owed) = (true, true, owed);
            promise.renewed = true;
        } else {
            self.change(at);
        }
        self.vertices[at].thing += 1;
    }

    pub(in super::super) fn kill(
        &mut self,
        effects: bool,
        left: [bool; 4],
        journal: &BTreeMap<Arc<str>, Record>,
    ) {
        for (at, name) in NAMES.iter().enumerate() {
            let record = journal.get(*name);
            let is_recorded = self.shape.budget.recorded[at];
            let run = self.vertices[at].run;
            let kinds = run.map_or(0, |run| self.changes(at, &run));
            let may_act = self.may_act(at);
            let promise = &mut self.vertices[at];
            promise.present &= !left[at];
            promise.has_sent = false;
            if let Some(run) = promise.run.take() {
                let is_acting = run.phase == Phase::Running && run.context.apply;
                match run.phase {
                    Phase::Succeeded(changed, _) => promise.unnotified.0 |= changed,
                    _ if is_acting && effects && may_act => promise.act(&run, is_recorded, kinds),
                    _ => {}
                }
            }
            let recorded = record.and_then(|it| it.made.as_ref());
            promise.restored =
                recorded.is_some_and(|it| !promise.present || *it.undo != [promise.thing]);
            promise.refused = promise.restored && promise.present;
            (promise.reversal, promise.leaving) = (None, promise.restored);
            promise.reversal_halted = false;
            if recorded.is_none() {
                promise.needs = [false; 4];
            }
            (promise.failures, promise.halted) = (0, false);
            promise.due = promise.present;
            // All vertices in the intent are refreshed.
            let changed = std::mem::take(&mut promise.unnotified).0;
            let targets = std::mem::take(&mut promise.targets);
            for (it, name) in NAMES.iter().enumerate() {
                let is_named =
                    record.is_some_and(|record| record.intent.iter().any(|it| **it == **name));
                let is_owed = changed & targets[it] != 0;
                let owed = &mut self.vertices[it].owed;
                *owed = (owed.0 + u32::from(is_owed), owed.1 + u32::from(is_named || is_owed));
            }
        }
    }
}

//! Checks of the journal's content.

use std::time::Duration;

use super::{NAMES, World};

impl World<'_> {
    /// Checks that all work is in the journal. At rest, the journal must have nothing else, unless
    /// a vertex is held.
    pub(super) fn check_records(&self, is_rest: bool) {
        for (at, name) in NAMES.iter().enumerate().filter(|it| self.budget.recorded[it.0]) {
            let made = self.model.made(at);
            let record = self.journal.get(*name).and_then(|it| it.made.as_ref());
            let known = record.map(|it| it.undo[0]);
            assert!(made.is_none() || known == made, "{name}: made, without a record");
            let is_held = self.model.is_held(at) || self.model.is_kept(at);
            assert!(!is_rest || is_held || known == made, "{name}: a record of nothing");
        }
    }

    /// Checks the final state, once nothing more happens by itself.
    pub(super) fn check_rest(&self) {
        self.model.check_rest();
        self.check_records(true);
        for (name, record) in &self.journal {
            let at = NAMES.iter().position(|it| **it == **name).unwrap();
            let is_held = !self.present[at] || self.model.is_held(at);
            let is_over = is_held || record.refreshes == 0 && record.intent.is_empty();
            assert!(is_over, "{name}: {record:?} stays in the journal");
        }
        let is_held = (0..self.shape.vertices).any(|at| self.model.is_held(at));
        let later = self.now + Duration::from_secs(1);
        let is_settled = self.model.is_settled();
        assert_eq!(self.state.is_converged(later), is_settled, "held: {is_held}");
    }
}

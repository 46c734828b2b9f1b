//! The options of a pass.

use std::collections::BTreeSet;

use crate::Key;

/// Options of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    revert: bool,
    shown: BTreeSet<Key>,
}

impl Options {
    /// Sets whether a key that is no longer declared gets its original value back, if it still has
    /// ours. By default it keeps ours.
    #[must_use]
    pub fn with_revert(self, revert: bool) -> Options {
        Options { revert, ..self }
    }

    /// Sets the keys that [`observe`](trueup_reconcile::Source::observe) returns besides those of
    /// the last pass.
    #[must_use]
    pub fn with_shown(self, keys: impl IntoIterator<Item = Key>) -> Options {
        Options { shown: keys.into_iter().collect(), ..self }
    }

    /// True if keys that are no longer declared are reverted.
    pub fn revert(&self) -> bool {
        self.revert
    }

    /// Returns the keys that `observe` returns besides those of the last pass.
    pub fn shown(&self) -> &BTreeSet<Key> {
        &self.shown
    }
}

//! How a pass goes about it.

use std::collections::BTreeSet;

use crate::Key;

/// Options of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    revert: bool,
    shown: BTreeSet<Key>,
}

impl Options {
    /// Whether a key that is no longer declared gets the value back that it had before us, if it still has ours. It keeps ours
    /// unless said so.
    #[must_use]
    pub fn with_revert(self, revert: bool) -> Options {
        Options { revert, ..self }
    }

    /// Which keys [`observe`](trueup_reconcile::Source::observe) shows besides those of the last pass.
    #[must_use]
    pub fn with_shown(self, keys: impl IntoIterator<Item = Key>) -> Options {
        Options {
            shown: keys.into_iter().collect(),
            ..self
        }
    }

    /// Whether what is no longer declared is reverted.
    pub fn revert(&self) -> bool {
        self.revert
    }

    /// The keys that are shown besides those of the last pass.
    pub fn shown(&self) -> &BTreeSet<Key> {
        &self.shown
    }
}

//! A ledger whose writes a test sees, counts or fails. The tests of `trueup-loop` use it too.

use std::collections::BTreeMap;

use trueup_reconcile::{Claim, Ledger, LedgerError};

pub(crate) type Claims = BTreeMap<Vec<u8>, Claim>;

/// Passes all on to a ledger, but for outcomes: they go to a function with that ledger.
pub(crate) struct Through<L, F>(pub(crate) L, pub(crate) F);

impl<L, F> Ledger for Through<L, F>
where
    L: Ledger,
    F: FnMut(&mut L, Claims) -> Result<(), LedgerError>,
{
    fn owned(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, LedgerError> {
        self.0.owned()
    }

    fn open_intents(&self) -> Result<Claims, LedgerError> {
        self.0.open_intents()
    }

    fn begin(&mut self, intents: Claims) -> Result<(), LedgerError> {
        self.0.begin(intents)
    }

    fn commit_outcomes(&mut self, claims: Claims) -> Result<(), LedgerError> {
        (self.1)(&mut self.0, claims)
    }
}

//! [`InterceptedLedger`]: a ledger whose writes a test sees, counts or fails.

use std::collections::BTreeMap;

use trueup_reconcile::{Claim, Ledger, LedgerError};

/// The claims written to a ledger, by key.
pub type Claims = BTreeMap<Vec<u8>, Claim>;

/// A ledger that passes each write of outcomes to a function, together with the ledger below, and
/// forwards all other calls.
///
/// ```
/// use std::collections::BTreeMap;
/// use trueup_reconcile::{Claim, Ledger as _, LedgerError, MemoryLedger};
/// use trueup_testkit::{Claims, InterceptedLedger};
///
/// let refuse = |_: &mut MemoryLedger, _: Claims| Err(LedgerError::new("disk full"));
/// let mut ledger = InterceptedLedger::new(MemoryLedger::default(), refuse);
/// let outcome = BTreeMap::from([(b"a".to_vec(), Claim::NotOurs)]);
/// assert!(ledger.commit_outcomes(outcome).is_err());
/// ```
#[derive(Debug)]
pub struct InterceptedLedger<L, F> {
    ledger: L,
    commit: F,
}

impl<L, F> InterceptedLedger<L, F>
where
    L: Ledger,
    F: FnMut(&mut L, Claims) -> Result<(), LedgerError>,
{
    /// Makes a ledger over `ledger`. `commit` is called instead of
    /// [`commit_outcomes`](Ledger::commit_outcomes), and dropped with the ledger.
    pub fn new(ledger: L, commit: F) -> Self {
        InterceptedLedger { ledger, commit }
    }
}

impl<L, F> Ledger for InterceptedLedger<L, F>
where
    L: Ledger,
    F: FnMut(&mut L, Claims) -> Result<(), LedgerError>,
{
    fn owned(&self) -> Result<BTreeMap<Vec<u8>, Vec<u8>>, LedgerError> {
        self.ledger.owned()
    }

    fn open_intents(&self) -> Result<Claims, LedgerError> {
        self.ledger.open_intents()
    }

    fn begin(&mut self, intents: Claims) -> Result<(), LedgerError> {
        self.ledger.begin(intents)
    }

    fn commit_outcomes(&mut self, claims: Claims) -> Result<(), LedgerError> {
        (self.commit)(&mut self.ledger, claims)
    }
}

//! Scopes of ledgers, and a ledger in memory.

use std::collections::BTreeMap;

use trueup_reconcile::{Claim, Ledger as _, LedgerScope, MemoryLedger};

fn one(key: &[u8], claim: Claim) -> BTreeMap<Vec<u8>, Claim> {
    BTreeMap::from([(key.to_vec(), claim)])
}

#[test]
fn a_scope_has_the_names_that_it_is_made_from() {
    let scope = LedgerScope::new("blue", "first");
    assert_eq!((scope.namespace(), scope.boot()), ("blue", "first"));
}

#[test]
fn an_intent_is_open_until_its_outcome_is_committed() {
    let mut ledger = MemoryLedger::default();
    let intended = Claim::Ours(b"1".to_vec());
    ledger.begin(one(b"k", intended.clone())).unwrap();
    assert!(ledger.begin(one(b"k", Claim::NotOurs)).is_err());
    assert!(ledger.owned().unwrap().is_empty());
    assert_eq!(ledger.open_intents().unwrap(), one(b"k", intended));
    // The outcome differs from the intent.
    ledger.commit_outcomes(one(b"k", Claim::Ours(b"2".to_vec()))).unwrap();
    assert!(ledger.open_intents().unwrap().is_empty());
    assert_eq!(ledger.owned().unwrap()[&b"k"[..]], b"2");
    ledger.commit_outcomes(one(b"k", Claim::NotOurs)).unwrap();
    assert!(ledger.owned().unwrap().is_empty());
}

//! A source that implements only the required methods.

use std::collections::BTreeMap;

use trueup_reconcile::{
    Claim, Drained, Hints, Ledger as _, LedgerError, MemoryLedger, PassInput, Report, Source,
    Subscribed,
};

/// Adds one in each pass until the desired number is reached.
struct Counter;

struct Counted {
    converged: bool,
}

impl Report for Counted {
    fn converged(&self) -> bool {
        self.converged
    }
}

impl Source for Counter {
    type Scope = ();
    type Desired = u8;
    type Options = ();
    type Report = Counted;
    type Observed = ();
    type Error = LedgerError;

    fn reconcile(&mut self, input: PassInput<'_, Self>) -> Result<Counted, LedgerError> {
        let PassInput { desired, ledger, .. } = input;
        let last = ledger.owned()?.get(&b"at"[..]).map_or(0, |at| at[0]);
        let at = *desired.min(&(last + 1));
        ledger.commit_outcomes(BTreeMap::from([(b"at".to_vec(), Claim::Ours(vec![at]))]))?;
        Ok(Counted { converged: at == *desired })
    }
}

#[test]
fn what_is_optional_says_unsupported() {
    let mut source = Counter;
    let nothing = source.observe(&(), &()).unwrap();
    assert_eq!(nothing, None);
    let answer = source.subscribe(&(), Hints::new(|| {}));
    assert!(matches!(answer, Subscribed::Unsupported));
    assert!(!answer.is_active() && source.descriptor().is_none());
    assert_eq!(source.drain().unwrap(), Drained::Nothing);
}

#[test]
fn a_source_goes_on_from_what_is_in_the_ledger() {
    fn until_converged(source: &mut Counter) -> u32 {
        let mut ledger = MemoryLedger::default();
        for pass in 1..=10 {
            let report = source.reconcile(PassInput::new(&(), &3, &mut ledger, &())).unwrap();
            if report.converged() {
                return pass;
            }
        }
        panic!("never converged");
    }

    let mut source = Counter;
    assert_eq!(until_converged(&mut source), 3);
    // The source itself keeps no state: with an empty ledger it starts over.
    assert_eq!(until_converged(&mut source), 3);
}

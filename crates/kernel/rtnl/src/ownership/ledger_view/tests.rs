use super::*;
use trueup_net::{Family, Rule, RuleAction};
use trueup_reconcile::MemoryLedger;

fn ledger(key: &str, record: &str) -> MemoryLedger {
    let mut ledger = MemoryLedger::default();
    let claims = [(key.into(), Claim::Ours(record.into()))];
    ledger.commit_outcomes(claims.into()).unwrap();
    ledger
}

fn key(rule: &Rule) -> String {
    String::from_utf8(encode(&RecordKey::Rule(Box::new(rule.key())))).unwrap()
}

#[test]
fn a_record_that_this_version_does_not_write_is_an_error() {
    let rule = Rule::new(Family::Inet, 77, RuleAction::Lookup(5));
    let record = Record { object: rule.clone().into(), former: None };
    let record = String::from_utf8(record.encode()).unwrap();
    assert!(LedgerView::read(&ledger(&key(&rule), &record), |_| true).is_ok());
    let other = Rule::new(Family::Inet, 78, RuleAction::Lookup(5));
    let later = record.replacen('{', "{\"until\":5,", 1);
    for (key, record) in [
        (key(&other), record.clone()),
        (key(&rule), later),
        (key(&rule) + " ", record.clone()),
        (key(&rule), String::new()),
        (String::new(), record),
    ] {
        let read = LedgerView::read(&ledger(&key, &record), |_| true);
        assert!(read.is_err(), "{key}: {record}");
    }
}

use trueup_net::{Family, Rule, RuleAction};

use super::*;

#[test]
fn a_failure_has_both_forms_of_what_is_stored_otherwise() {
    let rule = |table| Object::from(Rule::new(Family::Inet, 5, RuleAction::Lookup(table)));
    let (desired, stored) = (rule(7), rule(9));
    let forms = |stored| {
        let failure = stored_otherwise(&desired, stored, &Devices::default());
        assert_eq!(failure.class, ErrorClass::StoredOtherwise);
        failure.detail.unwrap()
    };
    let both = forms(Some(&stored));
    assert!(both.desired.contains("table 7"), "{both:?}");
    assert!(both.stored.unwrap().contains("table 9"));
    assert_eq!(forms(None).stored, None);
}

use super::*;
use trueup_apply::stored_otherwise;
use trueup_net::{Desired, Family, Kinds, Observed, Owned, Rule, RuleAction};

fn plan(rules: Vec<Rule>) -> Plan {
    let desired = Desired::default().with_rules(rules);
    let observed = Observed::default().with_complete(Kinds::ALL);
    trueup_net::plan(&desired, &observed, &Owned::default(), 116).unwrap()
}

#[test]
fn what_is_as_desired_leaves_the_report_and_what_waited_for_it_is_due() {
    let plan = plan(
        (1..7).map(|priority| Rule::new(Family::Inet, priority, RuleAction::Lookup(100))).collect(),
    );
    let failure = stored_otherwise(&plan.ops[0].object, None, &Devices::default());
    let refused = Outcome::Failed(Box::new(failure));
    fn needs(at: usize) -> Outcome {
        Outcome::Pending(Wait::Needs(at).into())
    }
    let left = [1, 3, 4].map(|at: usize| object_id(&plan.ops[at].object, &plan.devices));
    let before = plan.ops.clone();
    let mut outcomes = Outcomes::default();
    outcomes.outcomes =
        vec![refused.clone(), needs(0), Outcome::Applied, refused.clone(), needs(3), needs(0)];
    let mut round = Round { plan, outcomes };
    round.settle(|id| left.contains(id));
    assert_eq!(round.plan.ops, before[1..=4]);
    let due = Outcome::Pending(Pending::Cut);
    assert_eq!(round.outcomes.outcomes, [due, Outcome::Applied, refused, needs(2)]);
}

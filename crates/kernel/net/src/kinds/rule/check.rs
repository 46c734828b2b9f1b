//! Checks of a desired rule: what the kernel would refuse whatever the state, and what it would
//! store as something else, so that no pass could converge.

use super::{NumberRange, Rule, RuleAction};
use crate::check::{Check, must};
use crate::values::{Family, Prefix};

impl Check for Rule {
    fn check(&self) -> Result<(), &'static str> {
        must(self.priority != 0, "a rule needs a priority of 1 or more: 0 is the local table's")?;
        must(!self.unmodelled, "an observed rule of unknown selectors cannot be desired")?;
        for network in [self.from, self.to].into_iter().flatten() {
            must(
                Family::of(network.ip()) == self.family,
                "a prefix of the rule is of another family than the rule",
            )?;
            must(
                Prefix::try_from(network).is_ok(),
                "a prefix of the rule has bits set behind its length",
            )?;
        }
        match self.action {
            RuleAction::Lookup(0) => must(self.l3mdev, "table 0 is unspecified: use 254 for main")?,
            RuleAction::Lookup(_) => must(!self.l3mdev, "l3mdev takes the table from the device")?,
            RuleAction::Goto(target) => {
                must(target > self.priority, "goto leads only to a later rule")?;
            }
            _ => {}
        }
        let range =
            |ports: NumberRange<u16>| (1..=ports.end).contains(&ports.start) && ports.end < 65535;
        must(
            self.sport.is_none_or(range) && self.dport.is_none_or(range),
            "a range of ports runs from the lower to the higher, within 1 to 65534",
        )?;
        must(
            self.uidrange.is_none_or(|uids| uids.start <= uids.end),
            "a range of users runs from the lower to the higher",
        )
    }
}

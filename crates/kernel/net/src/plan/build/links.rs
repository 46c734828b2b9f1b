//! Finds the ops on links. Some links are not ours to create, the ends of a pair come and go
//! together, and a new link is created first and set up after.

use std::collections::{BTreeMap, BTreeSet};

use trueup_diff::{Found, Verdict, decide};

use super::{ConflictPolicy, Find, Findings};
use crate::error::DesiredError;
use crate::kinds::Action;
use crate::kinds::{Canonical, Kind, Link, walk};
use crate::op::{Hold, Reason};
use crate::resolve::undesired;
use crate::values::IfName;

impl Find for Link {
    fn find(
        found: &mut Findings,
        wanted: Canonical<&[Link]>,
        observed: Canonical<&[Link]>,
        policy: ConflictPolicy<'_>,
    ) -> Result<(), DesiredError> {
        let undesired = if policy.complete.contains(Kind::Link) {
            undesired(wanted.iter(), &observed, policy.proof)
        } else {
            BTreeSet::new()
        };
        let recreated = &policy.desired.recreated;
        let present: BTreeMap<IfName, &Link> =
            observed.iter().map(|link| (link.name, link)).collect();
        let mut makers = makers(&wanted);
        // An existing end makes no other.
        makers.retain(|_, maker| {
            present.get(maker).is_none_or(|link| recreated.contains(&link.index))
        });
        walk(wanted, observed, |wanted, links| {
            let (gone, there) = match links.items().next() {
                Some(link) if recreated.contains(&link.index) => (Some(link), None),
                link => (None, link),
            };
            if let Some(gone) = gone {
                let other = gone.peer().filter(|peer| *peer < gone.name);
                let first = other.and_then(|peer| present.get(&peer));
                if !first.is_some_and(|link| recreated.contains(&link.index)) {
                    found.op(Action::Delete, Link::clone(&gone).into(), Reason::Recreated);
                }
            }
            match (wanted, there) {
                (Some(wanted), Some(there)) => existing(found, wanted, there, policy),
                (Some(wanted), None) => {
                    let end = wanted.peer().and_then(|peer| present.get(&peer)).filter(|end| {
                        !recreated.contains(&end.index) && !undesired.contains(&end.index)
                    });
                    missing(found, &wanted, makers.contains_key(&wanted.name), || {
                        let hold = policy.device_check.hold(&Link::clone(&wanted).into());
                        hold.or(end.map(|end| Hold::NameTaken(end.name)))
                    });
                }
                (None, Some(there)) if policy.proof.may_change(&there) => {
                    found.restore(&*there, policy);
                }
                (None, _) => {}
            }
        })
        .map_err(|duplicate| DesiredError::duplicate(Kind::Link, duplicate))?;
        for link in present.values().filter(|link| undesired.contains(&link.index)) {
            // Deleting either end of a pair deletes the other. The first by name stands for both.
            let other = link.peer().and_then(|name| present.get(&name));
            if !other.is_some_and(|o| o.name < link.name && undesired.contains(&o.index)) {
                found.op(Action::Delete, (*link).clone().into(), Reason::Undesired);
            }
        }
        Ok(())
    }
}

/// Returns the links that come into being as the other end of a pair, each with the pair's maker.
/// If two links name each other, the first makes the second.
pub(crate) fn makers(wanted: &[Link]) -> BTreeMap<IfName, IfName> {
    let mut pairs: Vec<(IfName, IfName)> =
        wanted.iter().filter_map(|link| Some((link.name, link.peer()?))).collect();
    pairs.sort_unstable();
    let mut makers = BTreeMap::new();
    for (name, peer) in pairs {
        if !makers.contains_key(&name) {
            makers.insert(peer, name);
        }
    }
    makers
}

fn existing(
    found: &mut Findings,
    wanted: Canonical<&Link>,
    there: Canonical<&Link>,
    policy: ConflictPolicy<'_>,
) {
    let differences = wanted.differences(there);
    let is_as_desired = differences.is_empty();
    let keeps = differences.iter().all(|difference| difference.in_place);
    // A link that we cannot create is ours to set up as declared.
    let is_ours = policy.proof.may_change(&there) || !wanted.is_creatable();
    let (found_ours, foreign) = if is_ours {
        (Found::item(is_as_desired), Found::Nothing)
    } else {
        (Found::Nothing, Found::item(is_as_desired))
    };
    match decide(true, found_ours, foreign) {
        Verdict::Satisfied => found.adopt(wanted, there, policy),
        Verdict::Change if keeps => {
            let (wanted, was) = (Link::clone(&wanted).into(), Link::clone(&there).into());
            found.update(wanted, was, Reason::Differs);
        }
        Verdict::Change | Verdict::Conflict => match policy.desired.held.get(&there.index) {
            Some(hold) => {
                let op = found.op(Action::Delete, Link::clone(&there).into(), Reason::Recreated);
                op.hold = Some(hold.clone());
            }
            None => found.contest(&*wanted, &*there, keeps, policy),
        },
        Verdict::Keep | Verdict::Leave | Verdict::Create | Verdict::Delete => {}
    }
}

/// Plans for a missing link. `hold` finds a reason for a creatable one to wait, such as an existing
/// link with the other end's name. If the other link went before the kernel made the pair, the new
/// end's index would be neither chosen nor recorded by us.
fn missing(
    found: &mut Findings,
    wanted: &Link,
    comes_with_peer: bool,
    hold: impl FnOnce() -> Option<Hold>,
) {
    let creatable = wanted.is_creatable();
    if !comes_with_peer {
        let op = found.op(Action::Create, wanted.clone().into(), Reason::Missing);
        op.hold = if creatable { hold() } else { Some(Hold::NotCreatable) };
        if op.hold.is_some() {
            return;
        }
    }
    // The kernel ignores an alias in the message that creates a link, and brings a new link up
    // before it makes it a port. So these follow in a second message.
    let later = wanted.up == Some(true)
        || wanted.master.flatten().is_some()
        || wanted.alias.as_deref().is_some_and(|alias| !alias.is_empty());
    let at_once = wanted.mtu.is_some() || wanted.address.is_some() || wanted.group.is_some();
    if comes_with_peer && (later || at_once) {
        found.op(Action::Update, wanted.clone().into(), Reason::Missing);
    } else if later {
        // For some kinds the kernel refuses to set some attributes again.
        let rest = Link { kind: None, mtu: None, address: None, group: None, ..wanted.clone() };
        found.op(Action::Update, rest.into(), Reason::Missing);
    }
}

//! Declared addresses that need memory: duplicates on other hosts, and addresses of other programs
//! on this host.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use trueup_net::{
    Action, Address, AddressKey, Desired, DuplicateDetection, Hold, Notice, Object, ObjectKey,
    ObjectKind as _, Observed, Op, Plan, Reason,
};

use crate::key::{ObjectId, key_id, object_id};

/// An attempt takes the kernel one to two seconds (`addrconf_dad_kick`).
const FIRST_DELAY: Duration = Duration::from_secs(4);
const LAST_DELAY: Duration = Duration::from_secs(60);

/// Addresses whose duplicate address detection failed. They are retried with growing delays.
#[derive(Clone, Debug, Default)]
pub(super) struct Duplicates(HashMap<ObjectId, Tries>);

#[derive(Clone, Debug)]
struct Tries {
    count: u32,
    next: Instant,
}

impl Duplicates {
    /// Holds the ops that make such an address anew until they are due. While the detection runs
    /// again, a held op shows that the address is not in place yet.
    pub(super) fn hold(&mut self, plan: &mut Plan, observed: &Observed, now: Instant) {
        let running = self.follow(plan, observed);
        plan.ops.extend(running);
        let failed: Vec<ObjectId> = plan
            .ops
            .iter()
            .filter(|op| (op.action, op.reason) == (Action::Delete, Reason::Recreated))
            .filter(|op| {
                matches!(&op.object, Object::Address(address)
                    if address.duplicates == DuplicateDetection::Failed)
            })
            .map(|op| object_id(&op.object, &plan.devices))
            .collect();
        for id in failed {
            let tries = self.0.entry(id).or_insert(Tries { count: 0, next: now });
            let left = tries.next.saturating_duration_since(now);
            if left.is_zero() {
                let delay = FIRST_DELAY.saturating_mul(1 << tries.count.min(16));
                tries.next = now + delay.min(LAST_DELAY);
                tries.count += 1;
                continue;
            }
            let Plan { ops, devices, .. } = &mut *plan;
            for op in ops.iter_mut() {
                if object_id(&op.object, devices) == id {
                    op.hold.get_or_insert(Hold::Duplicate { left });
                }
            }
        }
    }

    /// Forgets addresses that became usable. Returns an op for each address whose retry is running.
    fn follow(&mut self, plan: &Plan, observed: &Observed) -> Vec<Op> {
        let mut running = Vec::new();
        if self.0.is_empty() {
            return running;
        }
        for address in &observed.addresses {
            let id = key_id(ObjectKey::Address(address.key()), &plan.devices);
            match address.duplicates {
                DuplicateDetection::Passed => drop(self.0.remove(&id)),
                DuplicateDetection::Pending if self.0.contains_key(&id) => {
                    let mut ops = plan.ops.iter();
                    if !ops.any(|op| object_id(&op.object, &plan.devices) == id) {
                        running.push(
                            Op::new(Action::Update, address.clone(), Reason::Differs)
                                .with_was(Object::from(address.clone()))
                                .with_hold(Hold::Duplicate { left: Duration::ZERO }),
                        );
                    }
                }
                _ => {}
            }
        }
        running
    }
}

/// Addresses that another program made at some time, as it made them, by key.
#[derive(Clone, Debug, Default)]
pub(super) struct AnothersAddresses(BTreeMap<AddressKey, Box<Address>>);

impl AnothersAddresses {
    /// Records the addresses that a plan's notices report. Adds notices for recorded addresses that
    /// are now missing or ours, since the other program may move them.
    pub(super) fn note(&mut self, plan: &mut Plan, desired: &Desired) {
        let found: BTreeMap<_, _> = plan
            .notices
            .iter()
            .filter_map(|notice| match notice {
                Notice::AnothersAddress { address } => Some((address.key(), address.clone())),
                _ => None,
            })
            .collect();
        if found.is_empty() && self.0.is_empty() {
            return;
        }
        let declared: HashSet<_> = desired
            .addresses
            .iter()
            .flatten()
            .filter_map(|it| Some((it.address, plan.devices.dev(&it.dev)?)))
            .collect();
        self.0.retain(|_, it| declared.contains(&(it.address, it.dev)));
        plan.notices.extend(
            self.0
                .iter()
                .filter(|(key, _)| !found.contains_key(key))
                .map(|(_, address)| Notice::AnothersAddress { address: address.clone() }),
        );
        self.0.extend(found);
    }
}

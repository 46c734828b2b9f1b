//! What is remembered of declared addresses: which of them another host has, and which another
//! program on this host has made.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::time::{Duration, Instant};

use trueup_net::{
    Action, Address, AddressKey, Desired, DuplicateDetection, Hold, Notice, Object, ObjectKey,
    ObjectKind as _, Observed, Op, Plan, Reason,
};

use crate::key::{ObjectId, key_id, object_id};

/// A try takes the kernel one to two seconds (`addrconf_dad_kick`).
const FIRST_DELAY: Duration = Duration::from_secs(4);
const LAST_DELAY: Duration = Duration::from_secs(60);

/// The addresses whose duplicate address detection has failed: they are tried again with growing
/// delays.
#[derive(Clone, Debug, Default)]
pub(super) struct Duplicates(HashMap<ObjectId, Tries>);

#[derive(Clone, Debug)]
struct Tries {
    count: u32,
    next: Instant,
}

impl Duplicates {
    /// Holds the ops that make such an address anew until it is their turn. While the detection
    /// runs again, an op that is held stands for it: the address is not in place yet.
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

    /// Forgets what has become usable. Returns an op for each address that is being tried again.
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

/// The addresses that another program has made at some time, as it made them, by their keys.
#[derive(Clone, Debug, Default)]
pub(super) struct AnothersAddresses(BTreeMap<AddressKey, Box<Address>>);

impl AnothersAddresses {
    /// Notes the addresses of which a plan says so, and has it say so of those that are missing or
    /// ours by now: the other program may move them.
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

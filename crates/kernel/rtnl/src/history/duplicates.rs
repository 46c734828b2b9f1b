//! Addresses that another host has: tried again with growing delays.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use trueup_net::{
    Action, Address, Devices, DuplicateDetection, Hold, Item as _, Object, ObjectKey, Observed, Op,
    Plan, Reason,
};

use crate::object_id::{ObjectId, key_id, object_id};

/// A try takes the kernel one to two seconds (`addrconf_dad_kick`).
const FIRST_DELAY: Duration = Duration::from_secs(4);
const LAST_DELAY: Duration = Duration::from_secs(60);

/// The addresses whose duplicate address detection has failed.
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
        let is_failed = |op: &&Op| {
            let is_delete = (op.action, op.reason) == (Action::Delete, Reason::Recreated);
            let failed = |it: &Address| it.duplicates == DuplicateDetection::Failed;
            is_delete && matches!(&op.object, Object::Address(address) if failed(address))
        };
        let failed = plan.ops.iter().filter(is_failed);
        let failed: Vec<ObjectId> = failed.map(|op| object_id(&op.object, &plan.devices)).collect();
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
        let id = |address: &Address, devices: &Devices| {
            key_id(ObjectKey::Address(address.key()), devices)
        };
        for address in &observed.addresses {
            let id = id(address, &plan.devices);
            match address.duplicates {
                DuplicateDetection::Passed => drop(self.0.remove(&id)),
                DuplicateDetection::Pending if self.0.contains_key(&id) => {
                    let is_it = |op: &Op| object_id(&op.object, &plan.devices) == id;
                    if !plan.ops.iter().any(is_it) {
                        let left = Duration::ZERO;
                        let op = Op::new(Action::Update, address.clone(), Reason::Differs);
                        let op = op.with_was(Object::from(address.clone()));
                        running.push(op.with_hold(Hold::Duplicate { left }));
                    }
                }
                _ => {}
            }
        }
        running
    }
}

//! Which actions of a plan may begin now, and what each of the others waits for.

use std::collections::BTreeSet;

use super::approvals::ApprovalRequest;
use super::changed;
use super::ops::Ops;
use super::pass::{Pass, Ready};
use crate::report::op_key;
use crate::{Action, Backend, Class, Error, Objects, Pending, Wait};

impl<B: Backend> Pass<'_, B> {
    /// Clears the backoff of each object that is desired otherwise than in the last pass.
    pub(super) fn clear_backoffs(&self, desired: &Objects) -> Result<(), Error> {
        let Some(last) = self.last_desired else {
            return Ok(());
        };
        for key in changed(last, desired) {
            let name = self.shared.name(key);
            let cleared = self.shared.backoffs.clear(name.as_bytes());
            cleared.map_err(Error::journal)?;
        }
        Ok(())
    }

    /// Selects the actions that may begin now. Each of the others gets the reason why it waits.
    pub(super) fn select(
        &self,
        actions: Vec<Action>,
        observed: &Objects,
        ops: &mut Ops,
    ) -> Result<Vec<Ready>, Error> {
        let shared = self.shared;
        let now = shared.config.now();
        let approval_time = shared.approval_time()?;
        let backoffs = shared.backoffs.all().map_err(Error::journal)?;
        let mut ready: Vec<Ready> = Vec::new();
        let mut waiting = Vec::new();
        let in_flight: BTreeSet<String> = shared.state().flights.keys().cloned().collect();
        for action in actions {
            if in_flight.contains(&action.key) || ops.has_failed(&action.key) {
                // The op of what is in flight, or has ended, stands for the object.
                continue;
            }
            let backoff = backoffs.get(shared.name(&action.key).as_bytes());
            let failed_before = match backoff {
                Some(_) => shared.last_failure(&action.key)?,
                None => None,
            };
            let pend = |action, pending| ops.pend_retry(action, pending, failed_before);
            let pending = if ready.last().is_some_and(|(first, _)| first.key == action.key)
                || waiting.last().is_some_and(|it: &ApprovalRequest| it.action.key == action.key)
            {
                Wait::After.into()
            } else {
                let object = observed.get(&action.key);
                let approval = match shared.class(&action, object) {
                    Class::Benign => None,
                    // It can be approved while it waits for its backoff, too.
                    Class::Destructive => {
                        let hash = shared.config.gate.hash(&action, object);
                        let journal = shared.journal_id()?;
                        waiting.push(ApprovalRequest::new(hash, journal, action.clone()));
                        let approvals = &shared.state().approvals;
                        match approvals.find(hash, approval_time) {
                            Some(approval) => Some(approval),
                            None => {
                                let refused = approvals.refused(hash);
                                pend(action, Wait::Approval { hash, refused }.into());
                                continue;
                            }
                        }
                    }
                };
                if let Some(backoff) = backoff.filter(|backoff| backoff.next > now) {
                    pend(action, Wait::Retry(backoff.next).into());
                    continue;
                }
                // The loop puts off what it may try and what is not tried, such as an action that
                // waited for its approval.
                let backoff = self.limits.backoff(op_key(&action.key));
                if let Some(left) = backoff.filter(|_| approval.is_none()) {
                    pend(action, Pending::Backoff(left));
                    continue;
                }
                let is_cut = ready.len() as u64 >= self.limits.ops();
                if !is_cut && self.limits.should_continue() {
                    ready.push((action, approval));
                    continue;
                }
                Pending::Cut
            };
            pend(action, pending);
        }
        shared.state().approvals.set_waiting(waiting, approval_time);
        Ok(ready)
    }
}

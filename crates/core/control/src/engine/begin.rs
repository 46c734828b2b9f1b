//! The start of the actions of a pass, and what the backend answers in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use trueup_queue::Ticket;

use super::ops::Ops;
use super::pass::{Pass, Ready};
use super::start::StartOutcome;
use crate::{Backend, Error, Pending, Wait};

impl<B: Backend> Pass<'_, B> {
    /// Starts actions in the lanes of their objects, and waits until the backend has answered. It
    /// does not wait for tasks.
    pub(super) fn start(&mut self, ready: Vec<Ready>, ops: &mut Ops) -> Result<(), Error> {
        self.begin_creates(ready.iter().map(|(action, _)| action))?;
        // A start that the pass did not wait for requests another one.
        let is_late = Arc::new(AtomicBool::new(false));
        let mut tickets: Vec<(Ready, Option<Ticket<StartOutcome>>)> = Vec::new();
        for (action, approval) in ready {
            let (shared, it) = (Arc::clone(self.shared), (action.clone(), approval.clone()));
            let is_late = Arc::clone(&is_late);
            let job = move || {
                let outcome = shared.start(it.0, it.1.as_ref(), None);
                if is_late.load(Ordering::Relaxed) {
                    shared.request_pass();
                }
                outcome
            };
            let lane = self.shared.lane(&action.key);
            let ticket = self.shared.queue.submit(lane, job).ok();
            tickets.push(((action, approval), ticket));
        }
        let until = Instant::now() + self.shared.config.start_wait;
        for ((action, approval), ticket) in tickets {
            let left = until.saturating_duration_since(Instant::now());
            let outcome = match ticket.as_ref().map(|ticket| ticket.wait(left)) {
                Some(Ok(outcome)) => outcome.done(),
                // Not answered yet: it is in flight. If it has not begun, a later pass begins it.
                _ => {
                    is_late.store(true, Ordering::Relaxed);
                    None
                }
            };
            let is_begun = ticket.is_some_and(|ticket| outcome.is_none() && !ticket.cancel());
            if let (Some(_), Some(approval)) = (&outcome, &approval) {
                let refused = match &outcome {
                    Some(StartOutcome::NotApproved(why)) => Some(Some(why.clone())),
                    Some(StartOutcome::InFlight | StartOutcome::Refused(..)) => Some(None),
                    _ => None,
                };
                if let Some(refused) = refused {
                    let mut state = self.shared.state();
                    state.approvals.remove(approval.hash(), refused);
                }
            }
            match outcome {
                // Its op comes from its end, or from what is in flight.
                Some(StartOutcome::InFlight) => {}
                Some(StartOutcome::Refused(class, message)) => {
                    self.release(&action);
                    ops.fail(action, class, message);
                }
                Some(StartOutcome::NotApproved(why)) => {
                    self.release(&action);
                    let hash = approval.map(|approval| approval.hash());
                    let pending = hash
                        .map_or(Wait::After, |hash| Wait::Approval { hash, refused: Some(why) });
                    ops.pend(action, pending.into());
                }
                Some(StartOutcome::NotRecorded(error)) => {
                    ops.trouble = Some(error.to_string());
                    ops.pend(action, Pending::Unrecorded);
                }
                Some(StartOutcome::Busy | StartOutcome::Repeated) => {
                    ops.pend(action, Wait::After.into());
                }
                None if is_begun => {}
                None => {
                    self.release(&action);
                    ops.pend(action, Wait::After.into());
                }
            }
        }
        Ok(())
    }
}

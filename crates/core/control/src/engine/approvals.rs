//! The agent's approvals, and the actions that wait for one.

use std::collections::BTreeMap;
use std::time::SystemTime;

use crate::{Action, ActionHash, Approval, Error, ErrorKind, JournalId};

/// An action that waits for an approval.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// The hash that the approval must contain.
    pub hash: ActionHash,
    /// The journal that the approval must name.
    pub journal: JournalId,
    /// The action to approve, with the reason why it is due.
    pub action: Action,
    /// The reason why the last token for it was refused; `None` if there was none.
    pub refused: Option<String>,
}

/// The most actions of jobs that wait at a time. Older ones are dropped, and asked for again.
const MAX_JOBS: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Approvals {
    given: BTreeMap<ActionHash, Approval>,
    /// The actions of the last pass's plan.
    waiting: BTreeMap<ActionHash, ApprovalRequest>,
    /// The actions of jobs, oldest first.
    jobs: Vec<ApprovalRequest>,
}

impl Approvals {
    /// Stores a checked token for the next pass or the job's next call.
    pub(super) fn give(&mut self, approval: Approval) -> Result<(), Error> {
        let hash = approval.hash();
        if !self.waiting().any(|request| request.hash == hash) {
            let message = "no action of this agent waits for this token: its object is in \
                           another state by now, or the token is for another agent; approve the \
                           action anew";
            return Err(Error::new(ErrorKind::NotWaiting, message));
        }
        self.given.insert(hash, approval);
        Ok(())
    }

    /// Returns an action's approval; `None` if there is none, or it has expired.
    pub(super) fn find(&self, hash: ActionHash, now: SystemTime) -> Option<Approval> {
        let found = self.given.get(&hash)?;
        (found.expires() > now).then(|| found.clone())
    }

    /// Returns the reason why the last token for an action was refused.
    pub(super) fn refused(&self, hash: ActionHash) -> Option<String> {
        let known = self.waiting().find(|request| request.hash == hash)?;
        known.refused.clone()
    }

    /// Removes an approval because it was used, or `refused`.
    pub(super) fn remove(&mut self, hash: ActionHash, refused: Option<String>) {
        self.given.remove(&hash);
        let jobs = self.jobs.iter_mut();
        let waiting = self.waiting.values_mut().chain(jobs);
        for request in waiting.filter(|request| request.hash == hash) {
            request.refused.clone_from(&refused);
        }
        if refused.is_none() {
            self.waiting.remove(&hash);
            self.jobs.retain(|request| request.hash != hash);
        }
    }

    /// Replaces the waiting actions of plans. Drops approvals that expired, and ones for no waiting
    /// action.
    pub(super) fn set_waiting(&mut self, waiting: Vec<ApprovalRequest>, now: SystemTime) {
        let before = std::mem::take(&mut self.waiting);
        for mut request in waiting {
            let known = before.get(&request.hash);
            request.refused = known.and_then(|known| known.refused.clone());
            self.waiting.insert(request.hash, request);
        }
        let (waiting, jobs) = (&self.waiting, &self.jobs);
        self.given.retain(|hash, approval| {
            let is_waited_for =
                waiting.contains_key(hash) || jobs.iter().any(|request| request.hash == *hash);
            is_waited_for && approval.expires() > now
        });
    }

    /// Adds a job's request, unless there is one already. Returns the stored one.
    pub(super) fn add_job(&mut self, request: ApprovalRequest) -> ApprovalRequest {
        let mut known = self.jobs.iter();
        if let Some(known) = known.find(|known| known.hash == request.hash) {
            return known.clone();
        }
        if self.jobs.len() >= MAX_JOBS {
            self.jobs.remove(0);
        }
        self.jobs.push(request.clone());
        request
    }

    /// Returns the waiting actions.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &ApprovalRequest> {
        let jobs = self.jobs.iter().filter(|request| !self.waiting.contains_key(&request.hash));
        self.waiting.values().chain(jobs)
    }
}

impl ApprovalRequest {
    pub(super) fn new(hash: ActionHash, journal: JournalId, action: Action) -> ApprovalRequest {
        ApprovalRequest { hash, journal, action, refused: None }
    }
}

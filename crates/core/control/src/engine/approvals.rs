//! The approvals that the agent was given, and the actions that wait for one.

use std::collections::BTreeMap;
use std::time::SystemTime;

use crate::{Action, ActionHash, Approval, Error, ErrorKind, JournalId};

/// An action that waits for an approval.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ApprovalRequest {
    /// What the approval has to be over.
    pub hash: ActionHash,
    /// The journal that it has to be for.
    pub journal: JournalId,
    /// The action.
    pub action: Action,
    /// Why the last token for it was not accepted, if there was one.
    pub refused: Option<String>,
}

/// More actions of jobs do not wait at a time: the oldest are forgotten, and asked for again.
const MAX_JOBS: usize = 1024;

#[derive(Debug, Default)]
pub(super) struct Approvals {
    given: BTreeMap<ActionHash, Approval>,
    /// Those of the last pass.
    waiting: BTreeMap<ActionHash, ApprovalRequest>,
    /// Those of jobs, the oldest first.
    jobs: Vec<ApprovalRequest>,
}

impl Approvals {
    /// Takes a token that was checked, for the next pass or the next call of the job.
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

    /// Returns the approval of an action, unless it has expired.
    pub(super) fn find(&self, hash: ActionHash, now: SystemTime) -> Option<Approval> {
        let found = self.given.get(&hash)?;
        (found.expires() > now).then(|| found.clone())
    }

    /// Returns why the last token for an action was not accepted.
    pub(super) fn refused(&self, hash: ActionHash) -> Option<String> {
        let known = self.waiting().find(|request| request.hash == hash)?;
        known.refused.clone()
    }

    /// Removes an approval: it was used, or `refused`.
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

    /// Replaces the actions of plans that wait, and forgets approvals that expired or that are for
    /// none of the actions that wait.
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

    /// Adds the request of a job, unless it is known, and returns the known one.
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

    /// Returns the actions that wait.
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

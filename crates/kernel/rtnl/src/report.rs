//! The report of a pass.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use trueup_apply::{Failure, Outcome, Pending, Wait};
use trueup_net::{Action, Conflict, Devices, Hold, Notice, Object, Op, Plan, Reason};
use trueup_observe::Incomplete;
use trueup_reconcile::{EventCoverage, OpKey, ReportedOp, Status};

use crate::history::StatusChanges;
use crate::key::object_id;
use crate::round::Round;

/// The report of a pass. Every op of the pass has exactly one outcome in it; an op that was refused
/// or not sent, and whose object is as desired all the same, was none.
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub(crate) converged: bool,
    pub(crate) rounds: Vec<Round>,
    pub(crate) conflicts: Vec<Conflict>,
    pub(crate) devices: Devices,
    pub(crate) notices: Vec<Notice>,
    pub(crate) doubts: Vec<Incomplete>,
    pub(crate) trouble: Option<String>,
    /// Whether the last change was followed by an observation.
    pub(crate) seen: bool,
    pub(crate) adopted: Vec<Object>,
    pub(crate) overwritten: Vec<Object>,
    pub(crate) statuses: StatusChanges,
    /// Whether the subscription reports what changes in the namespace from now on.
    pub(crate) is_covered: bool,
    pub(crate) requeue_after: Option<Duration>,
}

/// An op with its outcome.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct OpOutcome<'a> {
    /// The op.
    pub op: &'a Op,
    /// What became of it.
    pub outcome: &'a Outcome,
    /// The devices that the op refers to.
    pub devices: &'a Devices,
    pub(crate) plan: &'a Plan,
}

impl<'a> OpOutcome<'a> {
    /// The op that this one waits for, where it does.
    pub fn waits_for(&self) -> Option<&'a Op> {
        match self.outcome {
            Outcome::Pending(Pending::Own(Wait::Needs(at))) => self.plan.ops.get(*at),
            _ => None,
        }
    }
}

impl Report {
    /// Every op of the pass, in the order in which they were due.
    pub fn ops(&self) -> impl Iterator<Item = OpOutcome<'_>> {
        self.rounds.iter().flat_map(Round::ops)
    }

    /// The ops that were carried out.
    pub fn applied(&self) -> impl Iterator<Item = OpOutcome<'_>> {
        self.ops().filter(|done| done.outcome.is_applied())
    }

    /// The ops that were refused, or whose answer was lost, and why. Of an object that is as desired
    /// all the same there is none, and what is only offered is [declined](Self::declined): where
    /// there is one, the pass has not converged.
    pub fn failed(&self) -> impl Iterator<Item = (OpOutcome<'_>, &Failure)> {
        self.ops().filter_map(|done| match done.outcome {
            Outcome::Failed(failure) => Some((done, &**failure)),
            _ => None,
        })
    }

    /// The ops on routes that other hosts only offer ([`Routes::offer`]), and that the kernel
    /// refused. They keep nothing from being converged.
    ///
    /// [`Routes::offer`]: trueup_net::Routes::offer
    pub fn declined(&self) -> impl Iterator<Item = (OpOutcome<'_>, &Failure)> {
        self.ops().filter_map(|done| match done.outcome {
            Outcome::Declined(failure) => Some((done, &**failure)),
            _ => None,
        })
    }

    /// The ops that were not tried, and why.
    pub fn pending(&self) -> impl Iterator<Item = (OpOutcome<'_>, &Pending)> {
        self.ops().filter_map(|done| Some((done, done.outcome.pending()?)))
    }

    /// Foreign objects on desired keys, as of the last observation.
    pub fn conflicts(&self) -> &[Conflict] {
        &self.conflicts
    }

    /// The devices that [`conflicts`](Self::conflicts) refer to.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// What the author of the declaration should know of, and that no op says: as of the last
    /// observation, and of the objects that went along with ops that were carried out.
    pub fn notices(&self) -> impl Iterator<Item = (&Notice, &Devices)> {
        let went = self.rounds.iter().flat_map(|round| {
            let went = move |notice: &&Notice| match notice {
                Notice::GoesAlong { with, .. } => {
                    let mut ops = round.ops().filter(|done| done.outcome.is_applied());
                    ops.any(|done| done.op.object.key() == **with)
                }
                _ => false,
            };
            let devices = &round.plan.devices;
            let notices = round.plan.notices.iter().filter(went);
            notices.map(move |notice| (notice, devices))
        });
        let is_of_state = |notice: &&Notice| !matches!(notice, Notice::GoesAlong { .. });
        let of_state = self.notices.iter().filter(is_of_state);
        went.chain(of_state.map(|notice| (notice, &self.devices)))
    }

    /// What could not be read whole in the last observation.
    pub fn doubts(&self) -> &[Incomplete] {
        &self.doubts
    }

    /// Whose objects have become, or are left alone, in the order in which it came up.
    pub fn findings(&self) -> impl Iterator<Item = Finding<'_>> {
        let of_ops = self.ops().filter_map(|done| {
            let OpOutcome { op, devices, .. } = done;
            let applied = done.outcome.is_applied();
            let rule = match (&op.hold, op.reason) {
                (Some(Hold::Grace(left)), _) => OwnershipRule::Grace { left: *left },
                (Some(Hold::Contention { times, by, left }), _) => {
                    OwnershipRule::Contention { times: *times, by: *by, left: *left }
                }
                (_, Reason::Orphan) if applied => OwnershipRule::Orphan,
                (_, Reason::Overridden) if applied => OwnershipRule::Overridden,
                (_, Reason::Restored) if applied && op.action != Action::Delete => {
                    OwnershipRule::Restored
                }
                _ => return None,
            };
            let object = &op.object;
            Some(Finding { rule, object, devices })
        });
        let of = |rule, object| Finding { rule, object, devices: &self.devices };
        let overwritten = self.overwritten.iter();
        let overwritten = overwritten.map(move |object| {
            let by = object.protocol();
            of(OwnershipRule::Overwritten { by }, object)
        });
        let adopted = self.adopted.iter();
        let adopted = adopted.map(move |object| of(OwnershipRule::Adopted, object));
        overwritten.chain(adopted).chain(of_ops)
    }

    /// Why the pass could not read after its last change, or not record what is ours, if so.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }
}

impl trueup_reconcile::Report for Report {
    fn converged(&self) -> bool {
        self.converged && self.failed().next().is_none()
    }

    fn outcomes(&self, tell: &mut dyn FnMut(ReportedOp<'_>)) {
        for done in self.ops() {
            let outcome = done.outcome.classified(|failure| failure.class);
            let key = || OpKey(object_id(&done.op.object, done.devices));
            tell(ReportedOp::new(done.op.object.kind().name(), outcome, &key));
        }
    }

    fn statuses(&self, visit: &mut dyn FnMut(OpKey, Option<&Arc<Status>>)) {
        for (key, status) in &self.statuses {
            visit(*key, status.as_ref());
        }
    }

    fn is_truncated(&self) -> bool {
        self.pending().any(|(_, why)| *why == Pending::Cut)
    }

    /// Returns true if all was read after the last change. If not, an op that is not in the report
    /// may be due all the same. A ledger that could not be written is no reason.
    fn is_seen_whole(&self) -> bool {
        self.seen && self.doubts.is_empty()
    }

    fn requeue_after(&self) -> Option<Duration> {
        let left = self.findings().filter_map(|finding| match finding.rule {
            OwnershipRule::Grace { left } | OwnershipRule::Contention { left, .. } => Some(left),
            _ => None,
        });
        let pending = self.pending().filter_map(|(_, why)| match why {
            Pending::Own(Wait::Held(Hold::Duplicate { left })) if !left.is_zero() => Some(*left),
            _ => None,
        });
        left.chain(pending).chain(self.requeue_after).min()
    }

    /// No event reports that the namespace is gone, or that another has its name: a dirty pass
    /// finds that.
    fn coverage(&self) -> EventCoverage {
        if self.is_covered { EventCoverage::Part } else { EventCoverage::Nothing }
    }

    fn contended(&self) -> usize {
        self.findings()
            .filter(|finding| matches!(finding.rule, OwnershipRule::Contention { .. }))
            .count()
    }
}

/// A rule of ownership that applied to an object.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Finding<'a> {
    /// The rule.
    pub rule: OwnershipRule,
    /// The object: as it is now, or as it is to be.
    pub object: &'a Object,
    /// The devices that the object refers to.
    pub devices: &'a Devices,
}

/// The rules of ownership.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OwnershipRule {
    /// A foreign object that was as desired is ours from now on.
    Adopted,
    /// It overrides a foreign object, whose former value is recorded.
    Overridden,
    /// It was overridden, is no longer desired, and is again what it was.
    Restored,
    /// It was ours, and another writer has rewritten it: it is not ours to delete any more.
    Overwritten {
        /// The protocol that it bears now.
        by: u8,
    },
    /// It bore our marker, was not known to be declared, and was deleted.
    Orphan,
    /// It bears our marker and was never declared: it is left alone for a time.
    Grace {
        /// For how long.
        left: Duration,
    },
    /// Another writer removes or rewrites it repeatedly: it is left alone for a time, longer each
    /// time.
    Contention {
        /// The number of losses within the window.
        times: u32,
        /// The protocol that it bore in the other writer's hands, if it was observed.
        by: Option<u8>,
        /// For how long.
        left: Duration,
    },
}

impl fmt::Display for OwnershipRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = |left: &Duration| left.as_millis().div_ceil(1000);
        match self {
            OwnershipRule::Adopted => f.write_str("adopted"),
            OwnershipRule::Overridden => f.write_str("overridden"),
            OwnershipRule::Restored => f.write_str("restored"),
            OwnershipRule::Overwritten { by: 0 } => f.write_str("overwritten"),
            OwnershipRule::Overwritten { by } => write!(f, "overwritten, now of protocol {by}"),
            OwnershipRule::Orphan => f.write_str("orphan"),
            OwnershipRule::Grace { left } => write!(f, "grace for {} s", seconds(left)),
            OwnershipRule::Contention { times, by, left } => {
                write!(f, "contention, {times} times")?;
                if let Some(by) = by {
                    write!(f, " by protocol {by}")?;
                }
                write!(f, ", left alone for {} s", seconds(left))
            }
        }
    }
}

//! The report of a pass.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use trueup_apply::{Failure, Outcome, Pending, Wait};
use trueup_net::{Action, Conflict, Devices, Hold, Notice, Object, Reason};
use trueup_observe::Incomplete;
use trueup_reconcile::{EventCoverage, OpKey, ReportedOp, Status};

use crate::round::{OpOutcome, Round};
use crate::status::StatusChanges;

/// The result of a pass. It has exactly one outcome for each op. An op that was refused or not sent
/// is left out if its object is still as desired.
///
/// ```
/// use trueup_net::Desired;
/// use trueup_reconcile::{PassInput, Report as _, Source as _};
/// use trueup_rtnl::{MemoryLedger, Namespace, Options, Rtnl};
///
/// let (desired, options) = (Desired::default(), Options::default());
/// let mut ledger = MemoryLedger::default();
/// let here = Namespace::current();
/// # let here = trueup_testkit::model::Kernel::new().namespace();
/// let input = PassInput::new(&here, &desired, &mut ledger, &options);
/// let report = Rtnl::new().reconcile(input)?;
/// println!("{} applied, converged: {}", report.applied().count(), report.converged());
/// # Ok::<(), trueup_rtnl::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Report {
    pub(crate) converged: bool,
    pub(crate) rounds: Vec<Round>,
    pub(crate) conflicts: Vec<Conflict>,
    pub(crate) devices: Devices,
    pub(crate) notices: Vec<Notice>,
    pub(crate) doubts: Vec<Incomplete>,
    pub(crate) trouble: Option<String>,
    /// True if an observation followed the last change.
    pub(crate) seen: bool,
    pub(crate) adopted: Vec<Object>,
    pub(crate) overwritten: Vec<Object>,
    pub(crate) statuses: StatusChanges,
    /// True if the subscription reports changes in the namespace from now on.
    pub(crate) is_covered: bool,
    pub(crate) requeue_after: Option<Duration>,
}

impl Report {
    /// Returns every op of the pass, in the order in which they were due.
    pub fn ops(&self) -> impl Iterator<Item = OpOutcome<'_>> {
        self.rounds.iter().flat_map(Round::ops)
    }

    /// Returns the ops that were carried out.
    pub fn applied(&self) -> impl Iterator<Item = OpOutcome<'_>> {
        self.ops().filter(|done| done.outcome.is_applied())
    }

    /// Returns the ops that were refused, or whose answer was lost, with the failure. If there is
    /// one, the pass has not converged. Refused offers are [declined](Self::declined).
    pub fn failed(&self) -> impl Iterator<Item = (OpOutcome<'_>, &Failure)> {
        self.ops().filter_map(|done| match done.outcome {
            Outcome::Failed(failure) => Some((done, &**failure)),
            _ => None,
        })
    }

    /// Returns the ops that the kernel refused on routes offered by other hosts
    /// ([`Routes::offer`]). The pass converges despite them.
    ///
    /// [`Routes::offer`]: trueup_net::Routes::offer
    pub fn declined(&self) -> impl Iterator<Item = (OpOutcome<'_>, &Failure)> {
        self.ops().filter_map(|done| match done.outcome {
            Outcome::Declined(failure) => Some((done, &**failure)),
            _ => None,
        })
    }

    /// Returns the ops that were not tried, with the reason.
    pub fn pending(&self) -> impl Iterator<Item = (OpOutcome<'_>, &Pending)> {
        self.ops().filter_map(|done| Some((done, done.outcome.pending()?)))
    }

    /// Returns foreign objects on desired keys, from the last observation.
    pub fn conflicts(&self) -> &[Conflict] {
        &self.conflicts
    }

    /// Returns the devices to which [`conflicts`](Self::conflicts) refer.
    pub fn devices(&self) -> &Devices {
        &self.devices
    }

    /// Returns the facts for the declaration's author that no op shows: from the last observation,
    /// and about objects that went along with applied ops.
    pub fn notices(&self) -> impl Iterator<Item = (&Notice, &Devices)> {
        let went = self.rounds.iter().flat_map(|round| {
            round
                .plan
                .notices
                .iter()
                .filter(move |notice| match notice {
                    Notice::GoesAlong { with, .. } => round
                        .ops()
                        .any(|done| done.outcome.is_applied() && done.op.object.key() == **with),
                    _ => false,
                })
                .map(|notice| (notice, &round.plan.devices))
        });
        let of_state = self
            .notices
            .iter()
            .filter(|notice| !matches!(notice, Notice::GoesAlong { .. }))
            .map(|notice| (notice, &self.devices));
        went.chain(of_state)
    }

    /// Returns the kinds that the last observation could not read whole, with the reasons.
    pub fn doubts(&self) -> &[Incomplete] {
        &self.doubts
    }

    /// Returns the rules of ownership that applied, each with the object (as it is or is to be) and
    /// its devices.
    pub fn findings(&self) -> impl Iterator<Item = (OwnershipRule, &Object, &Devices)> {
        let of_ops = self.ops().filter_map(|OpOutcome { op, outcome, devices, .. }| {
            let applied = outcome.is_applied();
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
            Some((rule, &op.object, devices))
        });
        self.overwritten
            .iter()
            .map(|object| (OwnershipRule::Overwritten { by: object.protocol() }, object))
            .chain(self.adopted.iter().map(|object| (OwnershipRule::Adopted, object)))
            .map(|(rule, object)| (rule, object, &self.devices))
            .chain(of_ops)
    }

    /// Returns the reason why the pass could not read after its last change, or not record our
    /// objects.
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
            let kind = done.op.object.kind().name();
            tell(ReportedOp::new(kind, outcome, &|| OpKey(done.object_id())));
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

    /// Returns true if all was read after the last change. If false, ops may be due that the report
    /// lacks. A failure to write the ledger does not matter.
    fn is_seen_whole(&self) -> bool {
        self.seen && self.doubts.is_empty()
    }

    fn requeue_after(&self) -> Option<Duration> {
        let left = self.findings().filter_map(|(rule, ..)| match rule {
            OwnershipRule::Grace { left } | OwnershipRule::Contention { left, .. } => Some(left),
            _ => None,
        });
        let pending = self.pending().filter_map(|(_, why)| match why {
            Pending::Own(Wait::Held(Hold::Duplicate { left })) if !left.is_zero() => Some(*left),
            _ => None,
        });
        left.chain(pending).chain(self.requeue_after).min()
    }

    /// No event reports that the namespace is gone or another has its name. A pass over dirty
    /// objects does.
    fn coverage(&self) -> EventCoverage {
        if self.is_covered { EventCoverage::Part } else { EventCoverage::Nothing }
    }

    fn contended(&self) -> usize {
        self.findings()
            .filter(|(rule, ..)| matches!(rule, OwnershipRule::Contention { .. }))
            .count()
    }
}

/// The rules of ownership that a pass applied to objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OwnershipRule {
    /// A foreign object as desired is ours from now on.
    Adopted,
    /// A foreign object is overridden, and its former value recorded.
    Overridden,
    /// An overridden object is no longer desired, and is in its former state again.
    Restored,
    /// Another writer has rewritten an object of ours, which is no longer ours to delete.
    Overwritten {
        /// The protocol of its new writer.
        by: u8,
    },
    /// An object with our marker, not known to be declared, was deleted.
    Orphan,
    /// An object with our marker, never declared, is left alone for a time.
    Grace {
        /// The time for which the object is still left alone.
        left: Duration,
    },
    /// Another writer removes or rewrites an object repeatedly. It is left alone for a time, longer
    /// each time.
    Contention {
        /// The number of losses within the window.
        times: u32,
        /// The protocol that the other writer gave it, if observed.
        by: Option<u8>,
        /// The time for which the object is still left alone.
        left: Duration,
    },
}

impl fmt::Display for OwnershipRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OwnershipRule::Adopted => f.write_str("adopted"),
            OwnershipRule::Overridden => f.write_str("overridden"),
            OwnershipRule::Restored => f.write_str("restored"),
            OwnershipRule::Overwritten { by: 0 } => f.write_str("overwritten"),
            OwnershipRule::Overwritten { by } => write!(f, "overwritten, now of protocol {by}"),
            OwnershipRule::Orphan => f.write_str("orphan"),
            OwnershipRule::Grace { left } => {
                write!(f, "grace for {} s", left.as_millis().div_ceil(1000))
            }
            OwnershipRule::Contention { times, by, left } => {
                write!(f, "contention, {times} times")?;
                if let Some(by) = by {
                    write!(f, " by protocol {by}")?;
                }
                write!(f, ", left alone for {} s", left.as_millis().div_ceil(1000))
            }
        }
    }
}

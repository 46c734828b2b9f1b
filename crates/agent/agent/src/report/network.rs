//! The report of a pass over the network as text, alone and together with sysctls.

use trueup_apply::Outcome as NetworkOutcome;
use trueup_net::{Action, Devices, Hold, Notice, Object};
use trueup_reconcile::{OrderedError, OrderedReport, Outcome, ReportedOp};
use trueup_rtnl::{self as rtnl, OpOutcome, OwnershipRule, Pending, Wait};
use trueup_sysctl as sysctl;

use super::{ConflictRecord, FailureRecord, OpText, OwnershipRecord, PassReport};

/// An op on a netlink object.
struct NetworkOp<'a>(OpOutcome<'a>);

fn name(action: Action) -> &'static str {
    match action {
        Action::Create => "create",
        Action::Update => "update",
        Action::Delete => "delete",
    }
}

impl OpText for NetworkOp<'_> {
    fn action(&self) -> &'static str {
        name(self.0.op.action)
    }

    fn kind(&self) -> &'static str {
        self.0.op.object.kind().name()
    }

    fn outcome(&self) -> Outcome {
        self.0.outcome.classified(|why| why.class)
    }

    fn command(&self) -> String {
        self.0.op.command(self.0.devices)
    }

    fn reason(&self) -> String {
        self.0.op.reason_text(self.0.devices)
    }

    fn why(&self) -> String {
        match self.0.outcome {
            NetworkOutcome::Applied => String::new(),
            NetworkOutcome::Failed(why) | NetworkOutcome::Declined(why) => why.to_string(),
            NetworkOutcome::Pending(why) => pending_cause(&self.0, why),
        }
    }

    fn text(&self) -> String {
        self.0.op.text(self.0.devices).to_string()
    }

    fn batch(&self) -> String {
        self.0.op.batch(self.0.devices).to_string()
    }

    fn failure(&self) -> Option<FailureRecord> {
        let why = self.0.outcome.failure()?;
        let forms = why.detail.as_ref();
        Some(FailureRecord {
            errno: why.errno,
            message: why.to_string(),
            class: why.class,
            desired: forms.map(|forms| forms.desired.clone()),
            stored: forms.map(|forms| forms.stored.clone()),
        })
    }
}

/// Returns why an op was not tried.
fn pending_cause(pending: &OpOutcome<'_>, why: &Pending) -> String {
    if let Some(awaited) = pending.waits_for() {
        return format!("waits for: {}", awaited.command(pending.devices));
    }
    match why {
        Pending::Own(Wait::Held(Hold::Collateral(foreign))) => format!(
            "would take along what is not to go: {} {}",
            foreign.kind(),
            foreign.spec(pending.devices)
        ),
        Pending::Own(Wait::Held(Hold::Forwarding(entry))) => {
            match pending.devices.name(entry.dev) {
                Some(name) => format!("{why} dev {name}"),
                None => why.to_string(),
            }
        }
        _ => why.to_string(),
    }
}

fn ownership(applied: OwnershipRule, object: &Object, devices: &Devices) -> OwnershipRecord {
    let (object, kind) = (object.spec(devices), object.kind().name());
    let (rule, meaning) = match applied {
        OwnershipRule::Adopted => ("adopted", Some("it existed before, and is ours from now on")),
        OwnershipRule::Overwritten { .. } => {
            ("overwritten", Some("another writer changed it, and it is not ours any more"))
        }
        OwnershipRule::Overridden => ("overridden", None),
        OwnershipRule::Restored => ("restored", None),
        OwnershipRule::Orphan => ("orphan", None),
        OwnershipRule::Grace { .. } => ("grace", None),
        OwnershipRule::Contention { .. } => ("contention", None),
        _ => ("other", None),
    };
    let line = meaning.map(|meaning| format!("* {kind} {object}   ({applied}: {meaning})"));
    let lasts = matches!(rule, "grace" | "contention");
    OwnershipRecord { rule, kind, object, detail: applied.to_string(), line, lasts }
}

impl PassReport for rtnl::Report {
    fn ops(&self, visit: &mut dyn FnMut(&dyn OpText)) {
        self.applied().for_each(|done| visit(&NetworkOp(done)));
        self.failed().for_each(|(done, _)| visit(&NetworkOp(done)));
        self.declined().for_each(|(done, _)| visit(&NetworkOp(done)));
        self.pending().for_each(|(done, _)| visit(&NetworkOp(done)));
    }

    fn ownership(&self, visit: &mut dyn FnMut(OwnershipRecord)) {
        for (rule, object, devices) in self.findings() {
            visit(ownership(rule, object, devices));
        }
    }

    fn conflicts(&self) -> Vec<ConflictRecord> {
        let conflicts = rtnl::Report::conflicts(self).iter();
        conflicts.map(|it| ConflictRecord::new(it, rtnl::Report::devices(self))).collect()
    }

    fn notices(&self) -> Vec<String> {
        rtnl::Report::notices(self).map(|(notice, devices)| notice.text(devices)).collect()
    }

    fn errors(&self) -> Vec<String> {
        let doubts = self.doubts().iter().map(ToString::to_string);
        doubts.chain(self.trouble().map(unended)).collect()
    }

    fn devices(&self) -> Option<&Devices> {
        Some(rtnl::Report::devices(self))
    }
}

/// Returns why a pass could not end.
pub(super) fn unended(trouble: &str) -> String {
    format!("the pass could not be ended: {trouble}")
}

/// The report of a pass over a part of the namespace: the network, sysctls, or both.
pub(crate) type NamespaceReport = OrderedReport<rtnl::Report, sysctl::Report, NamespaceError>;

/// The reason why a pass over a part of the namespace could not run.
pub(crate) type NamespaceError = OrderedError<rtnl::Error, sysctl::Error>;

impl PassReport for NamespaceReport {
    fn ops(&self, visit: &mut dyn FnMut(&dyn OpText)) {
        self.members().iter().for_each(|it| it.ops(visit));
    }

    fn errors(&self) -> Vec<String> {
        let error = self.error.iter().map(|error| match error {
            OrderedError::Second(why) => format!("the sysctls could not be handled: {why}"),
            error => format!("the network could not be handled: {error}"),
        });
        self.members().into_iter().flat_map(PassReport::errors).chain(error).collect()
    }

    fn members(&self) -> Vec<&dyn PassReport> {
        let first = self.first.iter().map(|it| it as &dyn PassReport);
        first.chain(self.second.iter().map(|it| it as &dyn PassReport)).collect()
    }
}

/// A pass over links before one over the whole network. Its changes count, but only the later pass
/// decides about convergence.
pub(crate) struct Preliminary(pub(crate) NamespaceReport);

impl trueup_reconcile::Report for Preliminary {
    fn converged(&self) -> bool {
        true
    }

    fn outcomes(&self, visit: &mut dyn FnMut(ReportedOp<'_>)) {
        self.0.outcomes(&mut |op| {
            if op.outcome == Outcome::Applied {
                visit(op);
            }
        });
    }
}

impl PassReport for Preliminary {
    fn ops(&self, visit: &mut dyn FnMut(&dyn OpText)) {
        self.0.first.iter().flat_map(rtnl::Report::applied).for_each(|it| visit(&NetworkOp(it)));
    }

    fn ownership(&self, visit: &mut dyn FnMut(OwnershipRecord)) {
        self.0.ownership(&mut |change| {
            if !change.lasts {
                visit(change);
            }
        });
    }

    fn notices(&self) -> Vec<String> {
        let notices = self.0.first.iter().flat_map(rtnl::Report::notices);
        let gone = notices.filter(|(notice, _)| matches!(notice, Notice::GoesAlong { .. }));
        gone.map(|(notice, devices)| notice.text(devices)).collect()
    }

    fn errors(&self) -> Vec<String> {
        self.0.first.iter().filter_map(rtnl::Report::trouble).map(unended).collect()
    }
}

impl ConflictRecord {
    /// Makes the record of a plan's conflict. `devices` has the names of the devices.
    pub fn new(conflict: &trueup_net::Conflict, devices: &Devices) -> ConflictRecord {
        ConflictRecord {
            kind: conflict.desired.kind().name(),
            desired: conflict.desired.spec(devices),
            foreign: conflict.foreign.spec(devices),
            differs: conflict.differences().iter().map(|it| it.field).collect(),
            why: conflict.foreign_text(devices),
        }
    }
}

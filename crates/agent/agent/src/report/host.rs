//! The report of a pass over a part of the namespace, in words.

use trueup_apply::Outcome as NetworkOutcome;
use trueup_net::{Action, Hold};
use trueup_reconcile::Outcome;
use trueup_rtnl::{Finding, OpOutcome, OwnershipRule, Pending};

use super::setting::{self, Setting};
use super::{ConflictRecord, FailureRecord, FormsRecord, OpText, OwnershipRecord, PassReport};
use crate::host::Report;

/// An op on an object of the network.
struct NetworkOp<'a> {
    done: OpOutcome<'a>,
    /// Another host only offers what it is on.
    is_declined: bool,
}

fn name(action: Action) -> &'static str {
    match action {
        Action::Create => "create",
        Action::Update => "update",
        Action::Delete => "delete",
    }
}

impl OpText for NetworkOp<'_> {
    fn action(&self) -> &'static str {
        name(self.done.op.action)
    }

    fn kind(&self) -> &'static str {
        self.done.op.object.kind().name()
    }

    fn outcome(&self) -> Outcome {
        match self.done.outcome {
            NetworkOutcome::Applied => Outcome::Applied,
            NetworkOutcome::Failed(why) if self.is_declined => Outcome::Declined(why.class()),
            NetworkOutcome::Failed(why) => Outcome::Failed(why.class()),
            NetworkOutcome::Pending(_) => Outcome::Pending,
        }
    }

    fn command(&self) -> String {
        self.done.op.command(self.done.devices)
    }

    fn reason(&self) -> String {
        self.done.op.reason_text(self.done.devices)
    }

    fn why(&self) -> String {
        match self.done.outcome {
            NetworkOutcome::Applied => String::new(),
            NetworkOutcome::Failed(why) => why.to_string(),
            NetworkOutcome::Pending(why) => pending_cause(&self.done, why),
        }
    }

    fn text(&self) -> String {
        self.done.op.text(self.done.devices).to_string()
    }

    fn batch(&self) -> String {
        self.done.op.batch(self.done.devices).to_string()
    }

    fn failure(&self) -> Option<FailureRecord> {
        let NetworkOutcome::Failed(why) = self.done.outcome else {
            return None;
        };
        let forms = why.forms().map(|forms| FormsRecord {
            desired: forms.desired.clone(),
            stored: forms.stored.clone(),
        });
        let message = why.to_string();
        Some(FailureRecord { errno: why.errno(), message, class: why.class(), forms })
    }
}

/// Returns why an op was not tried.
fn pending_cause(pending: &OpOutcome<'_>, why: &Pending) -> String {
    if let Some(awaited) = pending.waits_for() {
        return format!("waits for: {}", awaited.command(pending.devices));
    }
    match why {
        Pending::Held(Hold::Collateral(foreign)) => format!(
            "would take along what is not to go: {} {}",
            foreign.kind(),
            foreign.spec(pending.devices)
        ),
        Pending::Held(Hold::Forwarding(entry)) => match pending.devices.name(entry.dev) {
            Some(name) => format!("{why} dev {name}"),
            None => why.to_string(),
        },
        _ => why.to_string(),
    }
}

fn ownership(finding: &Finding<'_>) -> OwnershipRecord {
    let (object, kind) = (finding.object.spec(finding.devices), finding.object.kind().name());
    let (rule, meaning) = match finding.rule {
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
    let line = meaning.map(|meaning| format!("* {kind} {object}   ({}: {meaning})", finding.rule));
    let lasts = matches!(rule, "grace" | "contention");
    OwnershipRecord { rule, kind, object, detail: finding.rule.to_string(), line, lasts }
}

impl PassReport for Report {
    fn ops(&self, visit: &mut dyn FnMut(&dyn OpText)) {
        let op = |done| NetworkOp { done, is_declined: false };
        self.set().for_each(|set| visit(&Setting(set)));
        self.applied().for_each(|done| visit(&op(done)));
        self.settings_failed().for_each(|(op, _)| visit(&Setting(op)));
        self.settings_pending().for_each(|(op, _)| visit(&Setting(op)));
        self.failed().for_each(|(done, _)| visit(&op(done)));
        self.declined().for_each(|(done, _)| visit(&NetworkOp { done, is_declined: true }));
        self.pending().for_each(|(done, _)| visit(&op(done)));
    }

    fn ownership(&self, visit: &mut dyn FnMut(OwnershipRecord)) {
        self.settings_findings().for_each(|finding| visit(setting::ownership(finding)));
        self.findings().for_each(|finding| visit(ownership(&finding)));
    }

    fn conflicts(&self) -> Vec<ConflictRecord> {
        let conflicts = Report::conflicts(self).map(|(conflict, devices)| {
            let record = trueup_net::render::ConflictRecord::new(conflict, devices);
            ConflictRecord::from(record)
        });
        conflicts.collect()
    }

    fn notices(&self) -> Vec<String> {
        Report::notices(self).map(|(notice, devices)| notice.text(devices)).collect()
    }

    fn errors(&self) -> Vec<String> {
        Report::errors(self)
    }
}

impl From<trueup_net::render::ConflictRecord> for ConflictRecord {
    fn from(of: trueup_net::render::ConflictRecord) -> ConflictRecord {
        let trueup_net::render::ConflictRecord { kind, desired, foreign, differs, why, .. } = of;
        ConflictRecord { kind: kind.name(), desired, foreign, differs, why }
    }
}

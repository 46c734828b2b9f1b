//! The report of a pass over a part of the namespace, in words.

use trueup_apply::Outcome as NetworkOutcome;
use trueup_net::{Action, Hold};
use trueup_reconcile::Outcome;
use trueup_rtnl::{Finding, OpOutcome, OwnershipRule, Pending, Wait};

use super::setting::{self, Setting};
use super::{ConflictRecord, FailureRecord, FormsRecord, OpText, OwnershipRecord, PassReport};
use crate::host::Report;

/// An op on an object of the network.
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
        let forms = why.detail.as_ref().map(|forms| FormsRecord {
            desired: forms.desired.clone(),
            stored: forms.stored.clone(),
        });
        let message = why.to_string();
        Some(FailureRecord { errno: why.errno, message, class: why.class, forms })
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
        self.set().for_each(|set| visit(&Setting(set)));
        self.applied().for_each(|done| visit(&NetworkOp(done)));
        self.settings_failed().for_each(|(op, _)| visit(&Setting(op)));
        self.settings_pending().for_each(|(op, _)| visit(&Setting(op)));
        self.failed().for_each(|(done, _)| visit(&NetworkOp(done)));
        self.declined().for_each(|(done, _)| visit(&NetworkOp(done)));
        self.pending().for_each(|(done, _)| visit(&NetworkOp(done)));
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

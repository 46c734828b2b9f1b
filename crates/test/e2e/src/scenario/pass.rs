//! An agent's plans and passes, with reports in the form of a scenario's lines.

use std::time::Duration;

use trueup_net::{Notice, Reason};
use trueup_netlink::Namespace;
use trueup_reconcile::{
    Condition, Drained, Extent, PassInput, PassLimits, Report as _, Source as _, Status,
};
use trueup_rtnl::{OwnershipRule, Pending, Report, Wait};

use super::agent::{Agent, Host};
use super::errno;
use super::text::Expected;

/// Makes a report line from its text.
fn line(text: String) -> Expected {
    Expected::parse(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

impl Agent {
    /// Returns the lines of a plan: its ops, or the error.
    pub(super) fn plan(&mut self, host: &Host, namespace: &Namespace) -> Vec<Expected> {
        let ledger = match self.ledger(host, namespace) {
            Ok(ledger) => ledger,
            Err(error) => return vec![line(format!("error {error}"))],
        };
        let planned = self.source.plan(namespace, &self.desired, &ledger, &self.options);
        let (plan, observed) = match planned {
            Ok(planned) => planned,
            Err(error) => return vec![line(format!("error {error}"))],
        };
        let mut lines = Vec::new();
        for op in &plan.ops {
            let reason = op.reason_text(&plan.devices);
            lines.push(line(format!("{} ({reason})", op.command(&plan.devices))));
        }
        for conflict in &plan.conflicts {
            lines.push(line(conflict_line(conflict, &plan.devices)));
        }
        lines.extend(observed.incomplete.iter().map(|doubt| line(format!("incomplete {doubt}"))));
        if lines.is_empty() {
            lines.push(line("nothing".to_owned()));
        }
        lines
    }

    /// Drains the subscription.
    ///
    /// # Errors
    ///
    /// If the subscription has ended.
    pub(super) fn drain(&mut self) -> Result<Drained, String> {
        if self.source.descriptor().is_none() {
            return Err("the agent is not subscribed: write `listen` first".to_owned());
        }
        self.source.drain().map_err(|error| error.to_string())
    }

    /// Makes a pass as a driver would after a drain: over the dirty keys, or over everything after
    /// a loss. If the source asks for another pass at once, makes it too. Returns the lines and the
    /// number of ops.
    pub(super) fn pass_after_drain(
        &mut self,
        host: &Host,
        namespace: &Namespace,
        drained: Drained,
    ) -> (Vec<Expected>, usize) {
        let (mut lines, extent) = match drained {
            Drained::Nothing => return (vec![line("nothing".to_owned())], 0),
            Drained::Hint => (Vec::new(), Extent::Dirty),
            Drained::Lost => (vec![line("lost".to_owned())], Extent::Everything),
        };
        let (report, mut ops, again) = self.pass_over(host, namespace, extent);
        lines.extend(report);
        if again {
            let (report, more, _) = self.pass_over(host, namespace, Extent::Everything);
            lines.extend(report);
            ops += more;
        }
        (lines, ops)
    }

    /// Makes one pass over everything, and returns its lines and the number of ops.
    pub(super) fn pass(&mut self, host: &Host, namespace: &Namespace) -> (Vec<Expected>, usize) {
        let (lines, ops, _) = self.pass_over(host, namespace, Extent::Everything);
        (lines, ops)
    }

    /// Makes one pass. The flag is true if another is due at once.
    fn pass_over(
        &mut self,
        host: &Host,
        namespace: &Namespace,
        extent: Extent,
    ) -> (Vec<Expected>, usize, bool) {
        let mut ledger = match self.ledger(host, namespace) {
            Ok(ledger) => ledger,
            Err(error) => return (vec![line(format!("error {error}"))], 0, false),
        };
        let limits = PassLimits::default().with_extent(extent);
        let report = self.source.reconcile(
            PassInput::new(namespace, &self.desired, &mut ledger, &self.options)
                .with_limits(limits),
        );
        let report = match report {
            Ok(report) => report,
            Err(error) => return (vec![line(format!("error {error}"))], 0, false),
        };
        for (rule, object, _) in report.findings() {
            if matches!(rule, OwnershipRule::Adopted | OwnershipRule::Overridden) {
                self.record_adopted(&object.kind().to_string());
            }
        }
        // Objects that the report lists as going along go by right, and so do excluded ones.
        for (notice, _) in report.notices() {
            if let Notice::GoesAlong { object, .. } = notice {
                self.record_adopted(&object.kind().to_string());
            }
        }
        for done in report.applied().filter(|done| done.op.reason == Reason::Excluded) {
            self.record_adopted(&done.op.object.kind().to_string());
        }
        report.statuses(&mut |key, status| match status {
            Some(status) => drop(self.statuses.insert(key, status.clone())),
            None => drop(self.statuses.remove(&key)),
        });
        let again = report.requeue_after() == Some(Duration::ZERO);
        (report_lines(&report), report.ops().count(), again)
    }

    /// Returns a line for each object that is not in place, in the objects' order.
    pub(super) fn status_lines(&self) -> Vec<Expected> {
        let mut all: Vec<_> = self.statuses.values().collect();
        all.sort_by(|one, other| (one.kind, &one.object).cmp(&(other.kind, &other.object)));
        all.into_iter().map(|status| status_line(status)).collect()
    }
}

fn status_line(status: &Status) -> Expected {
    let Status { kind, object, condition, .. } = status;
    let (word, why) = match condition {
        Condition::Failed { errno: Some(code), .. } => ("failed", errno::name(*code)),
        Condition::Failed { class, message, .. } => ("failed", format!("{class} {message}")),
        Condition::Pending { why } => ("pending", why.clone()),
        Condition::Conflict { foreign } => ("conflict", foreign.clone()),
        Condition::Contended { why } => ("contended", why.clone()),
        Condition::StoredOtherwise { stored } => {
            ("stored", stored.clone().unwrap_or_else(|| "nothing".to_owned()))
        }
        other => panic!("{other:?} has no word"),
    };
    let text = format!("{word} {kind} {object}: {why}");
    Expected::status(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn conflict_line(conflict: &trueup_net::Conflict, devices: &trueup_net::Devices) -> String {
    let [desired, foreign] =
        [&conflict.desired, &conflict.foreign].map(|object| object.spec(devices));
    format!("conflict {} {desired}: {foreign}", conflict.desired.kind())
}

fn report_lines(report: &Report) -> Vec<Expected> {
    let mut lines = Vec::new();
    for done in report.ops() {
        use trueup_apply::Outcome;
        let command = done.op.command(done.devices);
        let finding = report
            .findings()
            .find(|(_, object, _)| std::ptr::eq(*object, &raw const done.op.object));
        lines.push(line(match done.outcome {
            Outcome::Applied => match finding {
                Some((rule, ..)) => format!("applied {command}: {rule}"),
                None => format!("applied {command}"),
            },
            Outcome::Failed(failure) | Outcome::Declined(failure) => {
                let why = match failure.errno {
                    Some(code) => errno::name(code),
                    None => format!("{} {failure}", failure.class),
                };
                format!("failed {command}: {why}")
            }
            Outcome::Pending(pending) => {
                let why = match (done.waits_for(), pending) {
                    (Some(awaited), _) => format!("waits for {}", awaited.command(done.devices)),
                    (None, Pending::Own(Wait::Needs(_))) => "waits".to_owned(),
                    (None, other) => other.to_string(),
                };
                format!("pending {command}: {why}")
            }
        }));
    }
    for (rule, object, devices) in report.findings() {
        let (verdict, details) = match rule {
            OwnershipRule::Adopted => ("adopted", String::new()),
            OwnershipRule::Overwritten { by } => ("overwritten", format!(": to protocol {by}")),
            // The line of the op has it.
            _ => continue,
        };
        let (kind, object) = (object.kind(), object.spec(devices));
        lines.push(line(format!("{verdict} {kind} {object}{details}")));
    }
    for conflict in report.conflicts() {
        lines.push(line(conflict_line(conflict, report.devices())));
    }
    let notices = report.notices();
    lines.extend(notices.map(|(it, devices)| line(format!("notice {}", it.text(devices)))));
    lines.extend(report.doubts().iter().map(|doubt| line(format!("incomplete {doubt}"))));
    lines.extend(report.trouble().map(|trouble| line(format!("trouble {trouble}"))));
    lines.push(line(if report.converged() { "converged" } else { "not converged" }.to_owned()));
    lines
}

//! trueup's part of a scenario: a plan, a pass, and what they tell, each as the lines that a scenario would expect.

use std::time::Duration;

use trueup_diff::render::ConflictRecord;
use trueup_netlink::Namespace;
use trueup_reconcile::{Drained, Extent, PassLimits, Report as _, Source as _, Subscription as _};
use trueup_rtnl::{Finding, Pending, Report, Rule};

use super::agent::{Agent, House};
use super::errno;
use super::text::Expected;

/// A line that a pass told.
fn told(line: String) -> Expected {
    Expected::parse(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

impl Agent {
    /// What a pass would do.
    pub(super) fn plan(&mut self, house: &House, namespace: &Namespace) -> Vec<Expected> {
        let ledger = match self.ledger(house, namespace) {
            Ok(ledger) => ledger,
            Err(error) => return vec![told(format!("error {error}"))],
        };
        let planned = self
            .source
            .plan(namespace, &self.desired, &ledger, &self.options);
        let planned = match planned {
            Ok(planned) => planned,
            Err(error) => return vec![told(format!("error {error}"))],
        };
        let plan = &planned.plan;
        let mut lines = Vec::new();
        for op in &plan.ops {
            let reason = op.reason_text(&plan.devices);
            lines.push(told(format!("{} ({reason})", op.command(&plan.devices))));
        }
        for conflict in &plan.conflicts {
            lines.push(told(conflict_line(conflict, &plan.devices)));
        }
        lines.extend(
            planned
                .doubts
                .iter()
                .map(|doubt| told(format!("doubt {doubt}"))),
        );
        if lines.is_empty() {
            lines.push(told("nothing".to_owned()));
        }
        lines
    }

    /// Takes in what was heard.
    ///
    /// # Errors
    ///
    /// When nothing more will be heard.
    pub(super) fn drain(&mut self) -> Result<Drained, String> {
        let ears = self
            .ears
            .as_mut()
            .ok_or("it does not listen: write `listen` first")?;
        ears.subscription.drain().map_err(|error| error.to_string())
    }

    /// What a driver does once something was heard: a pass over what is doubtful, or over the whole after a loss; and one more
    /// at once where the source asks for it. Also how many ops they had.
    pub(super) fn answer(
        &mut self,
        house: &House,
        namespace: &Namespace,
        heard: Drained,
    ) -> (Vec<Expected>, usize) {
        let (mut lines, extent) = match heard {
            Drained::Nothing => return (vec![told("nothing".to_owned())], 0),
            Drained::Hint => (Vec::new(), Extent::Dirty),
            Drained::Lost => (vec![told("lost".to_owned())], Extent::Everything),
        };
        let (report, mut ops, again) = self.pass_over(house, namespace, extent);
        lines.extend(report);
        if again {
            let (report, more, _) = self.pass_over(house, namespace, Extent::Everything);
            lines.extend(report);
            ops += more;
        }
        (lines, ops)
    }

    /// One pass. Also how many ops it had.
    pub(super) fn pass(&mut self, house: &House, namespace: &Namespace) -> (Vec<Expected>, usize) {
        let (lines, ops, _) = self.pass_over(house, namespace, Extent::Everything);
        (lines, ops)
    }

    /// Also whether another is due at once.
    fn pass_over(
        &mut self,
        house: &House,
        namespace: &Namespace,
        extent: Extent,
    ) -> (Vec<Expected>, usize, bool) {
        let mut ledger = match self.ledger(house, namespace) {
            Ok(ledger) => ledger,
            Err(error) => return (vec![told(format!("error {error}"))], 0, false),
        };
        let limits = PassLimits::default().with_extent(extent);
        let report = self.source.reconcile_within(
            namespace,
            &self.desired,
            &mut ledger,
            &self.options,
            &limits,
        );
        let report = match report {
            Ok(report) => report,
            Err(error) => return (vec![told(format!("error {error}"))], 0, false),
        };
        for finding in report.findings() {
            if matches!(finding.rule, Rule::Adopted | Rule::Taken) {
                self.note_adopted(&finding.object.kind().to_string());
            }
        }
        let again = report.requeue_after() == Some(Duration::ZERO);
        (report_lines(&report), report.ops().count(), again)
    }
}

fn conflict_line(conflict: &trueup_diff::Conflict, devices: &trueup_diff::Devices) -> String {
    let record = ConflictRecord::new(conflict, devices);
    format!(
        "conflict {} {}: {}",
        record.kind, record.desired, record.foreign
    )
}

fn report_lines(report: &Report) -> Vec<Expected> {
    let mut lines = Vec::new();
    for done in report.ops() {
        use trueup_apply::Outcome;
        let command = done.op.command(done.devices);
        let of_op = |finding: &Finding<'_>| std::ptr::eq(finding.object, &raw const done.op.object);
        let finding = report.findings().find(of_op);
        lines.push(told(match done.outcome {
            Outcome::Applied => match finding {
                Some(finding) => format!("applied {command}: {}", finding.rule),
                None => format!("applied {command}"),
            },
            Outcome::Failed(failure) => {
                let why = match failure.errno() {
                    Some(code) => errno::name(code),
                    None => format!("{} {failure}", failure.class()),
                };
                format!("failed {command}: {why}")
            }
            Outcome::Pending(pending) => {
                let why = match (done.waits_for(), pending) {
                    (Some(awaited), _) => format!("waits for {}", awaited.command(done.devices)),
                    (None, Pending::Needs(_)) => "waits".to_owned(),
                    (None, other) => other.to_string(),
                };
                format!("pending {command}: {why}")
            }
        }));
    }
    for Finding {
        rule,
        object,
        devices,
    } in report.findings()
    {
        let (verdict, details) = match rule {
            Rule::Adopted => ("adopted", String::new()),
            Rule::Shed { by } => ("shed", format!(": to protocol {by}")),
            // Told with the op.
            _ => continue,
        };
        let (kind, object) = (object.kind(), object.spec(devices));
        lines.push(told(format!("{verdict} {kind} {object}{details}")));
    }
    for conflict in report.conflicts() {
        lines.push(told(conflict_line(conflict, report.devices())));
    }
    lines.extend(
        report
            .doubts()
            .iter()
            .map(|doubt| told(format!("doubt {doubt}"))),
    );
    lines.extend(
        report
            .trouble()
            .map(|trouble| told(format!("trouble {trouble}"))),
    );
    lines.push(told(
        if report.converged() {
            "converged"
        } else {
            "not converged"
        }
        .to_owned(),
    ));
    lines
}

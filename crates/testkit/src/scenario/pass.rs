//! trueup's part of a scenario: a plan, a pass, and what they tell, each as the lines that a scenario would expect.

use trueup_cli::file::{File, Tables};
use trueup_diff::Desired;
use trueup_diff::render::ConflictRecord;
use trueup_reconcile::{Report as _, Source as _};
use trueup_rtnl::{LastApplied, Namespace, Options, Pending, Report, Rtnl};

use super::errno;
use super::text::Expected;

/// What is desired, and what is remembered.
#[derive(Default)]
pub(super) struct Agent {
    desired: Desired,
    options: Options,
    last_applied: LastApplied,
}

/// A line that a pass told.
fn told(line: String) -> Expected {
    Expected::parse(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
}

impl Agent {
    /// Takes a desired-state file; `name` is what errors call it.
    pub(super) fn want(&mut self, name: &str, text: &str) -> Result<(), String> {
        let file = File::parse(name, text.as_bytes(), &Tables::default())
            .map_err(|error| error.to_string())?;
        let options = Options::default().with_protocol(file.protocol);
        self.options = options.map_err(|error| error.to_string())?;
        self.desired = file.desired;
        Ok(())
    }

    pub(super) fn marker(&self) -> u8 {
        self.options.protocol()
    }

    /// What a pass would do.
    pub(super) fn plan(&self, namespace: &Namespace) -> Vec<Expected> {
        let planned = match Rtnl.plan(namespace, &self.desired, &self.last_applied, &self.options) {
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

    /// One pass; what it remembers counts from here on. Also how many ops it had.
    pub(super) fn pass(&mut self, namespace: &Namespace) -> (Vec<Expected>, usize) {
        match Rtnl.reconcile(namespace, &self.desired, &self.last_applied, &self.options) {
            Ok(report) => {
                self.last_applied = report.last_applied().clone();
                (report_lines(&report), report.ops().count())
            }
            Err(error) => (vec![told(format!("error {error}"))], 0),
        }
    }

    /// As another process would remember it.
    pub(super) fn restart(&mut self) -> Result<(), String> {
        let written =
            serde_json::to_string(&self.last_applied).map_err(|error| error.to_string())?;
        self.last_applied = serde_json::from_str(&written).map_err(|error| error.to_string())?;
        Ok(())
    }

    pub(super) fn forget(&mut self) {
        self.last_applied = LastApplied::default();
    }

    /// The indexes of links that are remembered as ours.
    pub(super) fn links(&self) -> Vec<u32> {
        let ledger = serde_json::to_value(&self.last_applied).unwrap_or_default();
        let links = ledger.get("links").and_then(|links| links.as_array());
        let indexes = links
            .into_iter()
            .flatten()
            .filter_map(|index| index.as_u64());
        indexes
            .filter_map(|index| u32::try_from(index).ok())
            .collect()
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
        lines.push(told(match done.outcome {
            Outcome::Applied => format!("applied {command}"),
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

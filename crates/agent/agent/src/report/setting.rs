//! Sysctls in the words of `sysctl(8)`.

use trueup_reconcile::Outcome as OpOutcome;
use trueup_sysctl::{Finding, Outcome, Report, SysctlOp};

use super::network::unended;
use super::{FailureRecord, OpText, OwnershipRecord, PassReport};

/// The kind's name in JSON.
const KIND: &str = "sysctl";

impl PassReport for Report {
    fn ops(&self, visit: &mut dyn FnMut(&dyn OpText)) {
        self.applied().for_each(|op| visit(&Setting(op)));
        self.failed().for_each(|(op, _)| visit(&Setting(op)));
        self.pending().for_each(|(op, _)| visit(&Setting(op)));
    }

    fn ownership(&self, visit: &mut dyn FnMut(OwnershipRecord)) {
        self.findings().iter().for_each(|finding| visit(ownership(finding)));
    }

    fn errors(&self) -> Vec<String> {
        self.trouble().map(unended).into_iter().collect()
    }
}

/// An op on one sysctl.
struct Setting<'a>(&'a SysctlOp);

impl OpText for Setting<'_> {
    fn action(&self) -> &'static str {
        "update"
    }

    fn kind(&self) -> &'static str {
        KIND
    }

    fn outcome(&self) -> OpOutcome {
        self.0.outcome.classified(|why| why.class)
    }

    fn command(&self) -> String {
        let assignment = format!("{}={}", self.0.key, self.0.to);
        if assignment.chars().all(|c| c.is_ascii_alphanumeric() || "._-/=:,".contains(c)) {
            return format!("sysctl -w {assignment}");
        }
        // The shell's way to write a quote inside quotes.
        format!("sysctl -w '{}'", assignment.replace('\'', "'\\''"))
    }

    fn reason(&self) -> String {
        self.0.reason.to_string()
    }

    fn why(&self) -> String {
        match &self.0.outcome {
            Outcome::Applied => String::new(),
            Outcome::Failed(why) | Outcome::Declined(why) => format!("{why:#}"),
            Outcome::Pending(why) => why.to_string(),
        }
    }

    fn text(&self) -> String {
        let SysctlOp { key, to, from, reason, .. } = self.0;
        let was = from.as_ref().map(|from| format!(", was {from}"));
        format!("~ sysctl {key} = {to}   ({reason}{})", was.unwrap_or_default())
    }

    fn failure(&self) -> Option<FailureRecord> {
        let why = self.0.outcome.failure()?;
        let (errno, message, class) = (why.errno, why.message.clone(), why.class);
        Some(FailureRecord { errno, message, class, desired: None, stored: None })
    }
}

/// Returns a finding about a sysctl's ownership as a record.
fn ownership(finding: &Finding) -> OwnershipRecord {
    let (rule, object) = match finding {
        Finding::Left { key, .. } => ("overwritten", key.to_string()),
        Finding::Irreversible { key } => ("irreversible", key.to_string()),
        _ => ("other", String::new()),
    };
    OwnershipRecord {
        rule,
        kind: KIND,
        object,
        detail: finding.to_string(),
        line: Some(format!("* sysctl {finding}")),
        lasts: false,
    }
}

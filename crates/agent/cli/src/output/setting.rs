//! Sysctls in the words of `sysctl(8)`.

use serde::Serialize;
use trueup::reconcile::ErrorClass;
use trueup::sysctl::{Failure, Finding, Outcome, Pending, SysctlOp};

/// The name of the kind.
pub(super) const KIND: &str = "sysctl";

/// An op on a sysctl as JSON, in the form of any op.
#[derive(Serialize)]
pub(super) struct Setting {
    op: &'static str,
    kind: &'static str,
    command: String,
    reason: String,
    #[serde(flatten)]
    failure: Option<FailureRecord>,
}

#[derive(Serialize)]
struct FailureRecord {
    errno: Option<i32>,
    message: String,
    class: ErrorClass,
}

impl Setting {
    /// Returns the record of an applied op.
    pub(super) fn new(done: &SysctlOp) -> Setting {
        Setting {
            op: "update",
            kind: KIND,
            command: command(done),
            reason: done.reason.to_string(),
            failure: None,
        }
    }

    pub(super) fn failed(done: &SysctlOp, why: &Failure) -> Setting {
        let failure =
            FailureRecord { errno: why.errno, message: why.message.clone(), class: why.class };
        Setting { failure: Some(failure), ..Setting::new(done) }
    }

    pub(super) fn pending(done: &SysctlOp, why: &Pending) -> Setting {
        Setting { reason: why.to_string(), ..Setting::new(done) }
    }

    /// Returns the record of an op of a plan. An op that is not possible yet says why.
    pub(super) fn planned(done: &SysctlOp) -> Setting {
        match &done.outcome {
            Outcome::Failed(why) => Setting { reason: why.message.clone(), ..Setting::new(done) },
            _ => Setting::new(done),
        }
    }
}

/// A finding about the ownership of a sysctl, as JSON.
#[derive(Serialize)]
pub(super) struct Found {
    rule: &'static str,
    kind: &'static str,
    object: String,
    detail: String,
}

impl Found {
    pub(super) fn new(finding: &Finding) -> Found {
        let (rule, key) = match finding {
            Finding::Left { key, .. } => ("overwritten", key.to_string()),
            Finding::Irreversible { key } => ("irreversible", key.to_string()),
            _ => ("other", String::new()),
        };
        Found { rule, kind: KIND, object: key, detail: finding.to_string() }
    }
}

/// Returns the line of an op, with the reason.
pub(super) fn text(done: &SysctlOp) -> String {
    let SysctlOp { key, to, from, reason, .. } = done;
    let was = from.as_ref().map(|from| format!(", was {from}"));
    format!("~ sysctl {key} = {to}   ({reason}{})", was.unwrap_or_default())
}

/// Returns the line of an op that was not applied, with the reason.
pub(super) fn undone(done: &SysctlOp, why: &str) -> String {
    format!("! {}   ({why})", command(done))
}

/// Returns the command of an op.
pub(super) fn command(done: &SysctlOp) -> String {
    let assignment = format!("{}={}", done.key, done.to);
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/=:,".contains(c);
    if assignment.chars().all(plain) {
        return format!("sysctl -w {assignment}");
    }
    // The shell's own way to write a quote inside of quotes.
    format!("sysctl -w '{}'", assignment.replace('\'', "'\\''"))
}

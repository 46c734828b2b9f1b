//! What is new in a report, compared with the reports before it. A problem that stays, such as five
//! hundred routes that cannot be created, is reported when it begins and when it ends, and not in
//! every pass.

use std::collections::HashMap;
use std::io::{self, Write};

use serde::Serialize;
use trueup::apply::Pending;
use trueup::diff::Hold;
use trueup::rtnl::OwnershipRule;
use trueup::sysctl;

use super::lines::{
    Counts, Times, changes, command, conflict_text, conflicts, failed_text, pending_reason,
    pending_text, settings_failed_text, settings_pending_text, verdict_with, write_verdict,
};
use super::{clean, setting};
use crate::host::Report;

/// The problems of the reports so far: failed and pending ops, conflicts, and objects left alone
/// for a time.
#[derive(Default)]
pub(crate) struct Unresolved {
    known: HashMap<Issue, Reason>,
    /// Why the last report was not converged; `None` before the first.
    verdict: Option<Option<String>>,
    /// Another file came into force since.
    is_file_new: bool,
}

/// What a problem is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Issue {
    issue_kind: IssueKind,
    kind: &'static str,
    /// The command of an op; of other problems the object.
    object: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum IssueKind {
    Op,
    Conflict,
    Ownership,
}

/// Why it is unresolved, without times.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Reason {
    Failed(String),
    Pending(String),
    /// The op was not tried in this pass, because it failed before or the time was over. Its former
    /// reason still holds.
    NotTried(String),
    Conflict(String),
    Ownership(&'static str),
}

/// What is new in a report.
#[derive(Debug, Default)]
pub(crate) struct NewInReport {
    /// For each list of the report, in its order: which entries are new.
    pub(super) failed: Vec<bool>,
    pub(super) pending: Vec<bool>,
    pub(super) conflicts: Vec<bool>,
    pub(super) ownership: Vec<bool>,
    ended: Vec<(Issue, Reason)>,
    /// The counts of all problems, new or not.
    pub(super) counts: Counts,
    verdict: Option<String>,
    is_any: bool,
}

impl Unresolved {
    /// Notes that another file is in force. Problems that the next pass cannot read are then
    /// dropped: their objects may not be declared any more.
    pub(crate) fn file_replaced(&mut self) {
        self.is_file_new = true;
    }

    /// Compares a report with those before it, and remembers it.
    pub(crate) fn compare(&mut self, report: &Report) -> NewInReport {
        let mut comparison = Comparison {
            before: std::mem::take(&mut self.known),
            now: HashMap::new(),
        };
        let mut news = NewInReport::default();
        if !comparison.before.is_empty() {
            let set = report.set().map(Issue::setting);
            let applied = set.chain(report.applied().map(|done| Issue::op(&done)));
            let ended = applied.filter_map(|item| comparison.before.remove_entry(&item));
            // The op itself reports that it was tried.
            let ended = ended.filter(|(_, why)| !matches!(why, Reason::NotTried(_)));
            news.ended = ended.collect();
        }
        news.failed = (report.settings_failed())
            .map(|(done, why)| (Issue::setting(done), Reason::Failed(why.to_string())))
            .chain((report.failed()).map(|(done, why)| {
                let why = Reason::Failed(why.to_string());
                (Issue::op(&done), why)
            }))
            .map(|(item, why)| comparison.is_new(item, why))
            .collect();
        news.pending = (report.settings_pending())
            .map(|(done, why)| (Issue::setting(done), Reason::of_setting(why)))
            .chain((report.pending()).map(|(done, why)| {
                let reason = pending_reason(&done, why, Times::LeftOut);
                let why = match why {
                    Pending::Held(Hold::Backoff(_) | Hold::Cut) => Reason::NotTried(reason),
                    _ => Reason::Pending(reason),
                };
                (Issue::op(&done), why)
            }))
            .map(|(item, why)| comparison.is_new(item, why))
            .collect();
        news.conflicts = conflicts(report)
            .map(|conflict| {
                let kind = conflict.kind.name();
                let item = Issue::new(IssueKind::Conflict, kind, conflict.desired);
                comparison.is_new(item, Reason::Conflict(conflict.foreign))
            })
            .collect();
        // A change is new each time; an object that is left alone is new once.
        let of_settings = report.settings_findings().map(|_| true);
        let findings = report.findings().map(|finding| {
            let rule = match finding.rule {
                OwnershipRule::Grace { .. } => "grace",
                OwnershipRule::Contention { .. } => "contention",
                _ => return true,
            };
            let object = finding.object.spec(finding.devices);
            let item = Issue::new(IssueKind::Ownership, finding.object.kind().name(), object);
            comparison.is_new(item, Reason::Ownership(rule))
        });
        news.ownership = of_settings.chain(findings).collect();

        let Comparison { before, mut now } = comparison;
        let (network, settings) = (report.is_network_seen(), report.are_settings_seen());
        let is_seen = |(item, _): &(Issue, Reason)| match item.kind {
            setting::KIND => settings,
            _ => network,
        };
        let (ended, unseen): (Vec<_>, Vec<_>) = before.into_iter().partition(is_seen);
        let ended = ended.into_iter();
        let ended = ended.filter(|(item, _)| item.issue_kind != IssueKind::Ownership);
        let from = news.ended.len();
        news.ended.extend(ended);
        // A map has no order.
        news.ended[from..].sort_by(|(a, _), (b, _)| a.object.cmp(&b.object));
        // What could not be read counts as before.
        if !std::mem::take(&mut self.is_file_new) {
            now.extend(unseen);
        }
        for why in now.values() {
            *match why {
                Reason::Failed(_) => &mut news.counts.failed,
                Reason::Pending(_) | Reason::NotTried(_) => &mut news.counts.pending,
                Reason::Conflict(_) => &mut news.counts.conflicts,
                Reason::Ownership(_) => continue,
            } += 1;
        }
        self.known = now;
        news.verdict = verdict_with(report, news.counts);
        let flags = [
            &news.failed,
            &news.pending,
            &news.conflicts,
            &news.ownership,
        ];
        let is_changed = self.verdict.as_ref() != Some(&news.verdict);
        news.is_any = is_changed
            || !news.ended.is_empty()
            || flags.into_iter().flatten().any(|is_new| *is_new)
            || changes(report).next().is_some();
        self.verdict = Some(news.verdict.clone());
        news
    }
}

/// The problems before that are not in the new report, and those that are.
struct Comparison {
    before: HashMap<Issue, Reason>,
    now: HashMap<Issue, Reason>,
}

impl Comparison {
    /// Notes a problem of the new report, and returns true if it or its reason is new.
    fn is_new(&mut self, item: Issue, why: Reason) -> bool {
        let known = self.now.remove(&item).or_else(|| self.before.remove(&item));
        let (is_new, why) = match (known, why) {
            (Some(known), Reason::NotTried(_)) => (false, known),
            (known, why) => (known.as_ref() != Some(&why), why),
        };
        self.now.insert(item, why);
        is_new
    }
}

impl Issue {
    fn new(issue_kind: IssueKind, kind: &'static str, object: String) -> Issue {
        Issue {
            issue_kind,
            kind,
            object,
        }
    }

    fn op(done: &trueup::rtnl::OpOutcome<'_>) -> Issue {
        Issue::new(IssueKind::Op, done.op.object.kind().name(), command(done))
    }

    fn setting(done: &sysctl::SysctlOp) -> Issue {
        Issue::new(IssueKind::Op, setting::KIND, setting::command(done))
    }
}

impl Reason {
    fn of_setting(why: &sysctl::Pending) -> Reason {
        match why {
            sysctl::Pending::Held(_) | sysctl::Pending::Cut => Reason::NotTried(String::new()),
            why => Reason::Pending(why.to_string()),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Reason::Failed(_) => "failed",
            Reason::Pending(_) | Reason::NotTried(_) => "pending",
            Reason::Conflict(_) => "conflict",
            Reason::Ownership(rule) => rule,
        }
    }

    fn reason(&self) -> &str {
        match self {
            Reason::Failed(why)
            | Reason::Pending(why)
            | Reason::NotTried(why)
            | Reason::Conflict(why) => why,
            Reason::Ownership(_) => "",
        }
    }
}

impl NewInReport {
    /// Returns true if there is anything new.
    pub(crate) fn is_any(&self) -> bool {
        self.is_any
    }

    /// Returns why the state is not converged; `None` if it is.
    pub(crate) fn verdict(&self) -> Option<&str> {
        self.verdict.as_deref()
    }

    /// Writes what is new, as text.
    ///
    /// # Errors
    ///
    /// When it cannot be written.
    pub(crate) fn write(&self, out: &mut dyn Write, report: &Report) -> io::Result<()> {
        for change in changes(report) {
            writeln!(out, "{}", clean(&change))?;
        }
        let failed = settings_failed_text(report).chain(report.failed().map(failed_text));
        let pending = report.pending();
        let pending = pending.map(|pending| pending_text(&pending, Times::Shown));
        let pending = settings_pending_text(report).chain(pending);
        let conflicts = conflicts(report).map(conflict_text);
        let began = new(failed, Some(&self.failed))
            .chain(new(pending, Some(&self.pending)))
            .chain(new(conflicts, Some(&self.conflicts)));
        for line in began {
            writeln!(out, "{}", clean(&line))?;
        }
        for (item, why) in &self.ended {
            let Issue {
                issue_kind,
                kind,
                object,
            } = item;
            let what = match issue_kind {
                IssueKind::Op => object.clone(),
                IssueKind::Conflict | IssueKind::Ownership => format!("{kind} {object}"),
            };
            let line = format!("= {what}   (no longer {}: {})", why.name(), why.reason());
            writeln!(out, "{}", clean(&line))?;
        }
        write_verdict(out, self.verdict())
    }

    /// Returns the problems that ended, as JSON.
    pub(super) fn ended(&self) -> impl Iterator<Item = EndedRecord<'_>> {
        self.ended.iter().map(|(item, why)| EndedRecord {
            was: why.name(),
            kind: item.kind,
            object: &item.object,
            reason: why.reason(),
        })
    }
}

#[derive(Serialize)]
pub(super) struct EndedRecord<'a> {
    was: &'static str,
    kind: &'static str,
    object: &'a str,
    reason: &'a str,
}

/// Returns the new entries of a list; all of them without flags.
pub(super) fn new<T>(
    list: impl Iterator<Item = T>,
    flags: Option<&[bool]>,
) -> impl Iterator<Item = T> {
    let is_new = move |at: usize| flags.is_none_or(|flags| flags.get(at) != Some(&false));
    let entries = list.enumerate().filter(move |(at, _)| is_new(*at));
    entries.map(|(_, entry)| entry)
}

//! Our side: passes with their memory and their reports.

use trueup_journal::{Journal, LedgerScope};
use trueup_net::{Desired, Kind};
use trueup_reconcile::{Ledger, PassInput, Report as _, Source as _};
use trueup_rtnl::{
    MemoryLedger, Namespace, Options, Outcome, Ownership, Pending, Report, Rtnl, Wait,
};
use trueup_testkit::Scratch;

pub(crate) struct Ours {
    source: Rtnl,
    pub(crate) ledger: MemoryLedger,
    /// The directory of the ledger, if each pass runs in its own process; otherwise it is in
    /// memory.
    journal: Option<Scratch>,
    options: Options,
}

impl Ours {
    pub(crate) fn new(mut options: Options, by_ledger: bool) -> Ours {
        if by_ledger {
            for kind in Kind::ALL {
                options = options.with_ownership(kind, Ownership::Ledger);
            }
        }
        // Delays in a fight are not the subject here.
        let (_, window) = options.contention();
        Ours {
            source: Rtnl::new(),
            ledger: MemoryLedger::default(),
            journal: None,
            options: options.with_contention(u32::MAX, window),
        }
    }

    /// Makes each pass start with only a journal.
    pub(crate) fn restarting(mut self) -> Ours {
        self.journal = Some(Scratch::make_in_memory("writers").unwrap());
        self
    }

    /// Makes a pass, and returns its report and the report's lines.
    pub(crate) fn pass(&mut self, desired: &Desired) -> (Option<Report>, Vec<String>) {
        match &self.journal {
            None => run(&mut self.source, desired, &mut self.ledger, &self.options),
            Some(directory) => {
                let journal = Journal::open(directory.join("journal")).unwrap();
                let scope = LedgerScope::new("here", "this boot");
                let mut ledger = journal.ledger("rtnl", &scope).unwrap();
                run(&mut Rtnl::new(), desired, &mut ledger, &self.options)
            }
        }
    }
}

fn run(
    source: &mut Rtnl,
    desired: &Desired,
    ledger: &mut dyn Ledger,
    options: &Options,
) -> (Option<Report>, Vec<String>) {
    match source.reconcile(PassInput::new(&Namespace::current(), desired, ledger, options)) {
        Err(error) => (None, vec![format!("pass: could not run: {error}")]),
        Ok(report) => {
            let describe = describe(&report);
            (Some(report), describe)
        }
    }
}

/// Returns the number of reasons that a report gives for not converging.
pub(crate) fn reasons(report: &Report) -> usize {
    let refused = report.failed().count() + report.pending().count();
    refused + report.conflicts().len() + report.doubts().len()
}

pub(crate) fn describe(report: &Report) -> Vec<String> {
    let mut lines = vec![format!("pass: converged {}", report.converged())];
    for done in report.ops() {
        let outcome = match done.outcome {
            Outcome::Applied => String::new(),
            Outcome::Failed(failure) | Outcome::Declined(failure) => format!(" FAILED {failure}"),
            Outcome::Pending(Pending::Own(Wait::Held(hold))) => format!(" HELD {hold:?}"),
            Outcome::Pending(pending) => format!(" PENDING {pending}"),
        };
        let text = (done.op.command(done.devices), done.op.reason_text(done.devices));
        lines.push(format!("  {}   # {}{outcome}", text.0, text.1));
    }
    let devices = report.devices();
    for conflict in report.conflicts() {
        let spec = (conflict.desired.spec(devices), conflict.foreign.spec(devices));
        lines.push(format!("  conflict: {} with {}", spec.0, spec.1));
    }
    for (rule, object, devices) in report.findings() {
        lines.push(format!("  {rule}: {}", object.spec(devices)));
    }
    if !report.doubts().is_empty() || report.trouble().is_some() {
        let doubts = report.doubts();
        lines.push(format!("  doubts {doubts:?} {:?}", report.trouble()));
    }
    lines
}

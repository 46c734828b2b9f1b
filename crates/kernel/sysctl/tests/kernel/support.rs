//! Helpers of the tests: an agent that counts its writes, and another writer beside it.

use std::fs;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use trueup_reconcile::{Ledger as _, PassInput, Report as _, Source as _};
use trueup_sysctl::{
    Desired, ErrorClass, Files, Key, MemoryLedger, Namespace, Observed, Options, ProcSys, Report,
    Sysctl,
};

pub(crate) fn key(text: &str) -> Key {
    text.parse().unwrap()
}

/// Returns a value as the calling thread sees it, without its newline.
#[track_caller]
pub(crate) fn read(name: &str) -> String {
    let text = fs::read_to_string(key(name).file());
    text.unwrap_or_else(|error| panic!("{name}: {error}")).trim_end().to_owned()
}

#[track_caller]
pub(crate) fn write(name: &str, value: &str) {
    let written = fs::write(key(name).file(), value);
    written.unwrap_or_else(|error| panic!("{name}: {error}"));
}

/// Formats a report, one fact per line.
pub(crate) fn describe(report: &Report) -> String {
    let ops = report.ops().iter().map(ToString::to_string);
    let findings = report.findings().iter().map(ToString::to_string);
    let trouble = report.trouble().map(str::to_owned);
    ops.chain(findings).chain(trouble).collect::<Vec<_>>().join("\n")
}

pub(crate) fn failed(report: &Report) -> Vec<(String, ErrorClass)> {
    let failed = report.failed();
    failed.map(|(done, failure)| (done.key.to_string(), failure.class)).collect()
}

/// The kernel's files, with a count of the writes.
struct Counted(Arc<AtomicUsize>);

impl Files for Counted {
    fn read(&self, key: &Key) -> io::Result<Vec<u8>> {
        ProcSys.read(key)
    }

    fn write(&self, key: &Key, bytes: &[u8]) -> io::Result<usize> {
        self.0.fetch_add(1, Ordering::Relaxed);
        ProcSys.write(key, bytes)
    }
}

/// A source in a namespace, with its ledger.
pub(crate) struct Agent {
    scope: Namespace,
    source: Sysctl,
    ledger: MemoryLedger,
    options: Options,
    writes: Arc<AtomicUsize>,
}

impl Agent {
    pub(crate) fn of(scope: Namespace) -> Agent {
        let writes = Arc::new(AtomicUsize::new(0));
        Agent {
            scope,
            source: Sysctl::with_files(Counted(writes.clone())),
            ledger: MemoryLedger::default(),
            options: Options::default(),
            writes,
        }
    }

    /// Makes an agent in the thread's namespace.
    pub(crate) fn new() -> Agent {
        Agent::of(Namespace::current())
    }

    pub(crate) fn reverting() -> Agent {
        Agent { options: Options::default().with_revert(true), ..Agent::new() }
    }

    pub(crate) fn pass(&mut self, pairs: &[(&str, &str)]) -> Report {
        let desired = Desired::parse(pairs.iter().copied()).unwrap();
        let (ledger, options) = (&mut self.ledger, &self.options);
        let pass = self.source.reconcile(PassInput::new(&self.scope, &desired, ledger, options));
        pass.unwrap()
    }

    /// Runs a pass that must converge, and another, which must write neither to the kernel nor to
    /// the ledger.
    #[track_caller]
    pub(crate) fn converge(&mut self, pairs: &[(&str, &str)]) -> Report {
        let report = self.pass(pairs);
        assert!(report.converged(), "{}", describe(&report));
        assert!(self.still(pairs).ops().is_empty());
        report
    }

    /// Runs a pass that must write nothing.
    #[track_caller]
    pub(crate) fn still(&mut self, pairs: &[(&str, &str)]) -> Report {
        let before = (self.writes.load(Ordering::Relaxed), self.ledger.clone());
        let report = self.pass(pairs);
        let after = (self.writes.load(Ordering::Relaxed), self.ledger.clone());
        assert_eq!(after, before);
        report
    }

    pub(crate) fn observe(&mut self, shown: &[&str]) -> Observed {
        let options = Options::default().with_shown(shown.iter().map(|name| key(name)));
        let seen = self.source.observe(&self.scope, &options);
        seen.unwrap().unwrap()
    }

    /// Returns the number of keys of ours.
    pub(crate) fn owned(&self) -> usize {
        self.ledger.owned().unwrap().len()
    }
}

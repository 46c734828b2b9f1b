//! A source over fake values, driven by a test.

use trueup_reconcile::{Ledger as _, PassInput, PassLimits, Report as _, Source as _};
use trueup_sysctl::{ErrorClass, Namespace, Options, Report, Sysctl};

use crate::fake::{Fake, Shaky, describe, desired};

pub(crate) const FORWARD: &str = "net.ipv4.ip_forward";
pub(crate) const RANGE: &str = "net.ipv4.ip_local_port_range";
pub(crate) const BACKLOG: &str = "net.core.somaxconn";

/// A source, its values and its ledger.
pub(crate) struct Bench {
    pub(crate) fake: Fake,
    pub(crate) ledger: Shaky,
    pub(crate) source: Sysctl,
    pub(crate) options: Options,
}

impl Bench {
    pub(crate) fn new(values: &[(&str, &str)]) -> Bench {
        let fake = Fake::new(values);
        Bench {
            source: Sysctl::with_files(fake.clone()),
            ledger: Shaky::new(&fake),
            fake,
            options: Options::default(),
        }
    }

    pub(crate) fn reverting(values: &[(&str, &str)]) -> Bench {
        Bench { options: Options::default().with_revert(true), ..Bench::new(values) }
    }

    pub(crate) fn pass(&mut self, pairs: &[(&str, &str)]) -> Report {
        self.within(pairs, &PassLimits::default())
    }

    pub(crate) fn within(&mut self, pairs: &[(&str, &str)], limits: &PassLimits<'_>) -> Report {
        let (here, desired) = (Namespace::current(), desired(pairs));
        let (ledger, options) = (&mut self.ledger, &self.options);
        let pass = self
            .source
            .reconcile(PassInput::new(&here, &desired, ledger, options).with_limits(*limits));
        pass.unwrap()
    }

    /// Ends the source and its process, and starts new ones.
    pub(crate) fn restart(&mut self) {
        self.source = Sysctl::with_files(self.fake.clone());
    }

    /// Runs a pass that must converge, and another, which must write nothing.
    #[track_caller]
    pub(crate) fn converge(&mut self, pairs: &[(&str, &str)]) -> Report {
        let report = self.pass(pairs);
        assert!(report.converged(), "{}", describe(&report));
        self.still(pairs);
        report
    }

    #[track_caller]
    pub(crate) fn still(&mut self, pairs: &[(&str, &str)]) -> Report {
        let before = (self.fake.writes(), self.ledger.calls());
        let report = self.pass(pairs);
        assert_eq!((self.fake.writes(), self.ledger.calls()), before);
        report
    }

    pub(crate) fn owned(&self) -> usize {
        self.ledger.owned().unwrap().len()
    }
}

pub(crate) fn failed(report: &Report) -> Vec<(String, ErrorClass)> {
    let failed = report.failed();
    failed.map(|(done, failure)| (done.key.to_string(), failure.class)).collect()
}

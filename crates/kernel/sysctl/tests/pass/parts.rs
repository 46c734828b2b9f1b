//! Two sources that share a ledger, each for its part of the settings.

use trueup_reconcile::{Ledger as _, PassInput, Report as _, Source as _};
use trueup_sysctl::{Desired, Namespace, Options, Reason, Report, Sysctl};

use crate::bench::FORWARD;
use crate::fake::{Fake, Shaky, desired};

const FILTER: &str = "net.ipv4.conf.eth0.rp_filter";
const OTHER: &str = "net.ipv4.conf.eth1.rp_filter";

/// Two sources over the same values: one for the settings of devices, one for all others.
struct Two {
    fake: Fake,
    ledger: Shaky,
    of_devices: Sysctl,
    others: Sysctl,
}

impl Two {
    fn new() -> Two {
        let fake = Fake::new(&[(FORWARD, "0"), (FILTER, "0"), (OTHER, "0")]);
        Two {
            ledger: Shaky::new(&fake),
            of_devices: Sysctl::with_files(fake.clone()),
            others: Sysctl::with_files(fake.clone()),
            fake,
        }
    }

    /// Runs a pass over each part, the others first, and checks that both converge.
    fn pass(&mut self, pairs: &[(&str, &str)], devices: &[&str]) -> [Report; 2] {
        let (of_devices, others) = desired(pairs).split(devices.iter().copied());
        let Two { ledger, of_devices: first, others: second, .. } = self;
        let options = Options::default().with_revert(true);
        let mut pass = |source: &mut Sysctl, desired: &Desired| {
            let report =
                source.reconcile(PassInput::new(&Namespace::current(), desired, ledger, &options));
            let report = report.unwrap();
            assert!(report.converged());
            report
        };
        let others = pass(second, &others);
        [pass(first, &of_devices), others]
    }

    fn values(&self) -> [String; 3] {
        [FORWARD, FILTER, OTHER].map(|name| self.fake.value(name))
    }
}

#[test]
fn a_part_reverts_nothing_that_the_other_one_has_set() {
    let mut two = Two::new();
    let pairs = [(FORWARD, "1"), (FILTER, "2"), (OTHER, "2")];
    two.pass(&pairs, &["eth0"]);
    let writes = two.fake.writes();
    let reports = two.pass(&pairs, &["eth0"]);
    assert!(reports.iter().all(|report| report.ops().is_empty()));
    assert_eq!(two.fake.writes(), writes);
    assert_eq!(two.values(), ["1", "2", "2"]);
}

#[test]
fn a_part_reverts_what_is_its_own_and_no_longer_declared() {
    let mut two = Two::new();
    two.pass(&[(FORWARD, "1"), (FILTER, "2")], &["eth0"]);
    let [of_devices, others] = two.pass(&[], &["eth0"]);
    for (report, name) in [(of_devices, FILTER), (others, FORWARD)] {
        let [op] = report.ops() else {
            panic!("{:?}", report.ops());
        };
        assert_eq!((&op.reason, op.key.to_string()), (&Reason::Released, name.to_owned()));
    }
    assert_eq!(two.values(), ["0", "0", "0"]);
    assert_eq!(two.ledger.owned().unwrap().len(), 0);
}

#[test]
fn a_setting_that_moves_to_the_other_part_is_not_reverted() {
    let mut two = Two::new();
    let pairs = [(FORWARD, "1"), (FILTER, "2")];
    two.pass(&pairs, &[]);
    let writes = two.fake.writes();
    for devices in [&["eth0"][..], &[], &["eth0", "eth1"]] {
        let reports = two.pass(&pairs, devices);
        assert!(reports.iter().all(|report| report.ops().is_empty()), "{devices:?}");
    }
    assert_eq!(two.fake.writes(), writes);
    // Its value before trueup moves with it.
    two.pass(&[], &["eth0"]);
    assert_eq!(two.values(), ["0", "0", "0"]);
}

//! An address that another host has.

use std::fs;
use std::time::Duration;

use trueup_loop::{Config, Loop};
use trueup_net::{Address, Desired};
use trueup_reconcile::{Condition, PassInput, Report as _, Source as _};
use trueup_rtnl::{MemoryLedger, Namespace, Options, Rtnl};
use trueup_testkit::{ip, ip_batch, wait_until};

const ADDRESS: &str = "fd00:9::1/64";

fn desired() -> Desired {
    let address = Address::new("v0".parse().unwrap(), ADDRESS.parse().unwrap());
    Desired::default().with_addresses([address])
}

/// The other end of a pair has the address, and answers for it.
fn rival() {
    ip_batch(["link add v0 type veth peer name v1", "link set v0 up", "link set v1 up"]);
    fs::write("/proc/sys/net/ipv6/conf/v0/accept_dad", "1").unwrap();
    ip(&["address", "add", ADDRESS, "dev", "v1", "nodad"]);
}

fn flags() -> String {
    ip(&["address", "show", "dev", "v0", "to", ADDRESS])
}

/// By a single pass and by the next one, each in another process.
pub(crate) fn a_duplicate_address_is_never_called_converged() {
    rival();
    let here = Namespace::current();
    let mut ledger = MemoryLedger::default();
    let mut pass = || {
        let options = Options::default();
        let report =
            Rtnl::new().reconcile(PassInput::new(&here, &desired(), &mut ledger, &options));
        report.unwrap()
    };
    pass();
    wait_until("it is known", || flags().contains("dadfailed"));
    let planned =
        Rtnl::new().plan(&here, &desired(), &MemoryLedger::default(), &Options::default());
    let (plan, observed) = planned.unwrap();
    assert!(!plan.is_empty() || !observed.is_complete());
    // Its rival may answer before a pass has read back the recreated address.
    wait_until("its detection runs again", || {
        let report = pass();
        assert!(!report.converged());
        let mut why = report.pending().map(|(_, why)| why.to_string());
        why.any(|why| why.contains("detection of duplicates runs again"))
    });
}

pub(crate) fn a_duplicate_address_is_a_failed_object_and_usable_once_its_rival_has_left() {
    rival();
    let here = Namespace::current().open().unwrap();
    let config = Config::default().with_interval(Duration::from_secs(3600));
    let (ledger, options) = (MemoryLedger::default(), Options::default());
    let it = Loop::new(Rtnl::new(), here, desired(), ledger, options, config);
    let running = it.spawn("rtnl").unwrap();
    let handle = running.handle();
    let failed = || {
        handle.exceptions().iter().any(|object| match &object.status.condition {
            Condition::Failed { message, .. } => message.contains("duplicate address detection"),
            _ => false,
        })
    };
    wait_until("it has failed", failed);
    assert!(!handle.last_report().unwrap().converged());
    ip(&["address", "del", ADDRESS, "dev", "v1"]);
    let is_usable = || !flags().contains("dadfailed") && !flags().contains("tentative");
    wait_until("it is usable", || flags().contains(ADDRESS) && is_usable());
    wait_until("nothing is left", || handle.exceptions().is_empty());
    assert!(handle.last_report().unwrap().converged());
    running.stop(Duration::from_secs(60)).unwrap();
}

//! What the rules of ownership are about, and a scenario cannot say.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use trueup_diff::Desired;
use trueup_reconcile::{Report as _, Source as _};
use trueup_rtnl::{MemoryLedger, Namespace, Options, Rtnl, ledger_scope};
use trueup_testkit::{ip, named_netns, uplinks};

use crate::support::{address, nothing, told, via};

/// Who holds his desired state and changes it where it is shows no other lists: what he wants otherwise now was not taken from
/// anybody.
pub(crate) fn a_desired_state_changed_in_its_place_is_no_contention() {
    uplinks(1);
    let mut desired = Desired {
        addresses: Some(vec![address("up0", "10.9.0.1/24")]),
        routes: Some([via("10.50.0.0/16", "10.9.0.9")].into()),
        ..nothing()
    };
    let here = Namespace::current();
    let seconds = Arc::new(AtomicU64::new(0));
    let (start, clock) = (Instant::now(), Arc::clone(&seconds));
    let mut source =
        Rtnl::with_clock(move || start + Duration::from_secs(clock.load(Ordering::Relaxed)));
    let mut ledger = MemoryLedger::default();
    let mut pass = |desired: &Desired| {
        seconds.fetch_add(1, Ordering::Relaxed);
        source
            .reconcile(&here, desired, &mut ledger, &Options::default())
            .unwrap()
    };
    for last in 2..8 {
        if let Some(routes) = &mut desired.routes {
            routes.insert(via("10.50.0.0/16", &format!("10.9.0.{last}")));
        }
        let report = pass(&desired);
        assert!(report.converged(), "{}", told(&report));
    }
    // What is taken from him is counted all the same.
    for converges in [true, true, false] {
        ip(&["route", "delete", "10.50.0.0/16"]);
        let report = pass(&desired);
        assert_eq!(report.converged(), converges, "{}", told(&report));
    }
}

/// A scope is that of one namespace: neither another one nor one of the same name finds what it owned.
pub(crate) fn a_ledger_s_scope_is_one_namespace_in_one_boot() {
    let here = Namespace::current();
    let scope = ledger_scope(&here).unwrap();
    assert_eq!(scope, ledger_scope(&here.open().unwrap()).unwrap());
    let elsewhere = || {
        let blue = named_netns("blue");
        let scope = ledger_scope(&"blue".parse().unwrap()).unwrap();
        drop(blue);
        scope
    };
    let (first, second) = (elsewhere(), elsewhere());
    assert_ne!(first.namespace(), second.namespace());
    assert_ne!(first.namespace(), scope.namespace());
    assert_eq!(first.boot(), scope.boot());
    assert_eq!(scope.boot().len(), 36);
}

//! Limits of a pass.

use std::sync::Mutex;
use std::time::Duration;

use trueup_reconcile::{Extent, OpKey, PassLimits};

#[test]
fn limits_are_as_they_were_set() {
    let unbounded = PassLimits::default();
    assert_eq!(unbounded.extent(), Extent::Everything);
    assert_eq!(unbounded.ops(), u64::MAX);
    assert!(!unbounded.is_same_desired() && unbounded.should_continue());
    assert!(!unbounded.has_backoff());
    assert_eq!(unbounded.backoff(OpKey(1)), None);

    let limits = unbounded
        .with_extent(Extent::Dirty)
        .with_same_desired()
        .with_ops(3)
        .with_due(&[OpKey(1)])
        .with_should_continue(&|| false)
        .with_backoff(&|key| (key == OpKey(1)).then_some(Duration::from_secs(2)));
    assert_eq!(limits.extent(), Extent::Dirty);
    assert_eq!(limits.ops(), 3);
    assert_eq!(limits.due(), [OpKey(1)]);
    assert!(limits.is_same_desired() && !limits.should_continue());
    assert!(limits.has_backoff());
    assert_eq!(limits.backoff(OpKey(1)), Some(Duration::from_secs(2)));
    assert_eq!(limits.backoff(OpKey(2)), None);
}

#[test]
fn each_kind_that_is_to_be_changed_is_named_once_and_nothing_is_asked_of_none() {
    let asked = Mutex::new(Vec::new());
    let before_change = |kinds: &[&'static str]| {
        asked.lock().unwrap().push(kinds.join(" "));
        false
    };
    assert!(PassLimits::default().may_change(["route"]));
    let limits = PassLimits::default().with_before_change(&before_change);
    assert!(limits.may_change([]));
    assert!(!limits.may_change(["rule", "route", "rule"]));
    assert_eq!(*asked.lock().unwrap(), ["route rule"]);
}

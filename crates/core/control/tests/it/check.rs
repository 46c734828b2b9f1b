//! The check of a backend's normalisers.

use std::time::Duration;

use trueup_contracts::control::check_backend;
use trueup_control::{ErrorKind, Normalisers, round_up};

use crate::world::{Mode, Sim, objects};

#[test]
fn a_backend_that_rewrites_a_field_needs_a_normaliser() {
    let wait = Duration::from_secs(1);
    let desired = objects([("a", "1000"), ("b", "1024")]);
    let sim = Sim::new();
    sim.world().objects = objects([("a", "1"), ("foreign", "1")]);
    let none = Normalisers::new();
    check_backend(&sim, &none, &desired, wait).unwrap();
    assert_eq!(sim.world().objects["foreign"], objects([("foreign", "1")])["foreign"]);

    let sim = Sim::new();
    sim.world().mode = Mode::Task(0);
    sim.world().rounds = true;
    let error = check_backend(&sim, &none, &desired, wait).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert!(error.to_string().contains("a: configure (memory: 1024 -> 1000)"), "{error}");
    check_backend(&sim, &none.clone().with("memory", round_up(1024)), &desired, wait).unwrap();

    let growing = none.with("memory", |text| format!("{text}0"));
    let error = check_backend(&sim, &growing, &objects([("b", "1024")]), wait).unwrap_err();
    assert!(error.to_string().contains("not idempotent"), "{error}");
}

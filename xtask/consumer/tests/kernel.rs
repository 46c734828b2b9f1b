//! The agent in a fresh namespace, beside another writer.

use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use trueup::{Desired, MemoryLedger, Options, PassInput, Report, Route, Rtnl, Source};
use trueup_testkit::faults::{At, Fault, Faults};
use trueup_testkit::{Snapshot, assert_no_changes, empty_directory, ip, uplinks, wait_until};

trueup_testkit::kernel_tests![
    the_plan_names_the_route,
    the_loop_restores_what_is_removed,
    a_refused_change_is_tried_again,
];

fn consumer() -> Command {
    Command::new(env!("CARGO_BIN_EXE_consumer"))
}

fn the_plan_names_the_route() {
    let output = assert_no_changes(|| consumer().output().unwrap());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("+ route 10.2.0.0/16 dev up0"), "{text}");
}

fn the_loop_restores_what_is_removed() {
    uplinks(1);
    let before = Snapshot::settled();
    let state = std::env::temp_dir().join(format!("consumer-{}", std::process::id()));
    empty_directory(&state).unwrap();
    let mut agent = consumer()
        .arg(state.join("journal"))
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut output = BufReader::new(agent.stdout.take().unwrap());
    output.read_line(&mut line).unwrap();
    assert_eq!(line, "converged: true\n");

    let is_there = || ip(&["route", "show", "10.2.0.0/16"]).contains("dev up0");
    assert!(is_there());
    ip(&["route", "del", "10.2.0.0/16"]);
    wait_until("the route is there again", is_there);

    drop(agent.stdin.take());
    assert!(agent.wait().unwrap().success());
    before.assert_same(&Snapshot::settled());
    std::fs::remove_dir_all(state).unwrap();
}

fn a_refused_change_is_tried_again() {
    let faults = Faults::over(trueup::Namespace::current());
    let here = faults.namespace();
    let desired = Desired::default().with_routes([Route::of_type(
        trueup::RouteType::Blackhole,
        "10.3.0.0/16".parse().unwrap(),
    )]);
    let mut ledger = MemoryLedger::default();
    let options = Options::default();
    let mut pass =
        || Rtnl::new().reconcile(PassInput::new(&here, &desired, &mut ledger, &options));
    faults.add(At::Change(1), Fault::Refuse(16)); // EBUSY
    assert!(!pass().unwrap().converged());
    assert!(pass().unwrap().converged());
}

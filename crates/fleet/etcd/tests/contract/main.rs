//! The contract of the world, on etcd: one member with access control, and three members. All tests
//! share these two clusters, each with a prefix and hosts of its own.

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod fixture;

use std::process::ExitCode;
use std::sync::Arc;

use libtest_mimic::{Arguments, Failed, Trial};
use trueup_contracts::world::{Test, store_contract, world_contract};
use trueup_testkit::{enter, is_long, may_skip, panic_text, tests_at_once};

use fixture::{EtcdFixture, Shared};

fn main() -> ExitCode {
    let mut arguments = Arguments::from_args();
    // All threads must be in the namespace, so the process enters it before there are any.
    let forbidden = enter().err().map(|error| error.to_string());
    let is_skipped = forbidden.is_some() && may_skip(|name| std::env::var(name).ok());
    let is_run = !arguments.list && forbidden.is_none();
    let shared = is_run.then(|| Arc::new(Shared::start()));
    let mut tests: Vec<Test> = store_contract();
    // The tests of layers above the store wait for leases in real time, minutes in all.
    if is_long() {
        tests.extend(world_contract());
    }
    let mut trials = Vec::new();
    for (members, name) in [(1, "one_member"), (3, "three_members")] {
        for &(test_name, test) in &tests {
            let (shared, forbidden) = (shared.clone(), forbidden.clone());
            let run = move || run(shared.as_deref(), members, test_name, test, forbidden);
            let trial = Trial::test(format!("{name}::{test_name}"), run);
            trials.push(trial.with_ignored_flag(is_skipped));
        }
    }
    arguments.test_threads.get_or_insert_with(tests_at_once);
    // The clusters end with `shared`, because `exit_code` does not end the process.
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn run(
    shared: Option<&Shared>,
    members: usize,
    name: &str,
    test: fn(&dyn trueup_contracts::world::Fixture),
    forbidden: Option<String>,
) -> Result<(), Failed> {
    let Some(shared) = shared else {
        return Err(forbidden.unwrap_or_default().into());
    };
    let cluster = shared.of(members);
    // Compaction and restarts affect everything on the cluster.
    let alone = ["compact", "restart"].iter().any(|word| name.contains(word));
    let (_one, _many) = match alone {
        true => (Some(cluster.turn.write()), None),
        false => (None, Some(cluster.turn.read())),
    };
    let fixture = EtcdFixture::new(cluster);
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(&fixture)));
    ran.map_err(|panic| Failed::from(panic_text(&*panic)))
}

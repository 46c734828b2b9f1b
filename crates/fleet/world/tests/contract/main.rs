//! The contract, on the embedded store in memory and in a file.
#![allow(clippy::unwrap_used)]

mod fixture;

use std::process::ExitCode;

use libtest_mimic::{Arguments, Trial};
use redb::backends::InMemoryBackend;
use trueup_contracts::world::{Test, store_contract, world_contract};
use trueup_world::Embedded;

use fixture::EmbeddedFixture;

fn memory() -> Embedded {
    Embedded::with_manual_clock()
}

fn file() -> Embedded {
    Embedded::open_on(InMemoryBackend::new()).unwrap()
}

fn trials(name: &str, store: fn() -> Embedded, tests: Vec<Test>) -> impl Iterator<Item = Trial> {
    tests.into_iter().map(move |(test_name, test)| {
        let run = move || {
            test(&EmbeddedFixture::on(store()));
            Ok(())
        };
        Trial::test(format!("{name}::{test_name}"), run)
    })
}

fn main() -> ExitCode {
    let stores: [(_, fn() -> Embedded); 2] = [("memory", memory), ("file", file)];
    let tests = stores.map(|(name, store)| {
        let tests = store_contract().into_iter().chain(world_contract());
        trials(name, store, tests.collect())
    });
    let tests = tests.into_iter().flatten().collect();
    libtest_mimic::run(&Arguments::from_args(), tests).exit_code()
}

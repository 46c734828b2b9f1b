//! Runs a property: with the same seeds each time, so that the verdict on a change does not depend
//! on luck, or on request with another seed, to search further.
//!
//! `TRUEUP_CASES` sets the number of cases, `TRUEUP_SEED` the seed: 32 hex bytes, as printed by a
//! failure, or `random`.

use std::env;
use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use trueup_testkit::crash::in_parallel;
use trueup_testkit::random_cases;

/// Threads that share the cases of a property, each with its own seed: a case mostly waits for the
/// kernel.
const THREADS: u32 = 4;

/// Runs a property with `cases` cases, or as many as [`random_cases`] says. Fails if the property returns an
/// error.
pub fn run<T: Debug, S: Strategy<Value = T>>(
    name: &str,
    cases: u32,
    strategy: impl Fn() -> S + Sync,
    property: impl Fn(&T) -> Result<(), String> + Sync,
) {
    let cases = random_cases(cases);
    let (first, threads) = match env::var("TRUEUP_SEED") {
        Ok(text) if text == "random" => (fresh_seed(), THREADS),
        // Only the case that failed.
        Ok(text) => (from_hex(&text), 1),
        Err(_) => ([116; 32], THREADS),
    };
    eprintln!("{name}: {cases} cases, TRUEUP_SEED={}", to_hex(&first));
    let shares: Vec<_> = (0..threads)
        .map(|thread| {
            let mut seed = first;
            seed[31] ^= thread as u8;
            (seed, cases / threads + u32::from(thread < cases % threads))
        })
        .collect();
    in_parallel(&shares, shares.len(), |(seed, cases)| {
        run_share(seed, *cases, strategy(), &property);
    });
}

fn run_share<T: Debug>(
    seed: &[u8; 32],
    cases: u32,
    strategy: impl Strategy<Value = T>,
    property: impl Fn(&T) -> Result<(), String>,
) {
    let config =
        Config { cases, failure_persistence: None, max_shrink_iters: 300, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, seed);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let result = runner.run(&strategy, |case| property(&case).map_err(TestCaseError::fail));
    let hex = to_hex(seed);
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, _)) => panic!("{reason}\n\nTRUEUP_SEED={hex}"),
        Err(error) => panic!("{error}\n\nTRUEUP_SEED={hex}"),
    }
}

fn to_hex(seed: &[u8; 32]) -> String {
    seed.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn from_hex(text: &str) -> [u8; 32] {
    let bytes: Option<Vec<u8>> =
        (0..32).map(|at| u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok()).collect();
    bytes.expect("64 hex digits").try_into().unwrap()
}

fn fresh_seed() -> [u8; 32] {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos();
    let mut seed = [0; 32];
    seed[..16].copy_from_slice(&now.to_ne_bytes());
    seed[16..20].copy_from_slice(&std::process::id().to_ne_bytes());
    seed
}

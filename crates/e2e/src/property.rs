//! How a property is run: the same seed each time unless asked for another, so that what a change
//! is judged by does not depend on luck, and whoever looks for more can.
//!
//! `TRUEUP_CASES` sets the number of cases, `TRUEUP_SEED` the seed: 32 hex bytes, as printed, or
//! `random`.

use std::env;
use std::fmt::Debug;
use std::time::{SystemTime, UNIX_EPOCH};

use proptest::strategy::Strategy;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

/// Runs so many cases of a property unless told otherwise; what it gives as its error is what fails
/// it.
pub fn run<T: Debug>(
    name: &str,
    cases: u32,
    strategy: impl Strategy<Value = T>,
    property: impl Fn(&T) -> Result<(), String>,
) {
    let cases = env::var("TRUEUP_CASES").map_or(cases, |text| text.parse().unwrap());
    let seed = match env::var("TRUEUP_SEED") {
        Ok(text) if text == "random" => fresh_seed(),
        Ok(text) => from_hex(&text),
        Err(_) => [116; 32],
    };
    let hex: String = seed.iter().map(|byte| format!("{byte:02x}")).collect();
    eprintln!("{name}: {cases} cases, TRUEUP_SEED={hex}");
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 300,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let result = runner.run(&strategy, |case| {
        property(&case).map_err(TestCaseError::fail)
    });
    match result {
        Ok(()) => {}
        Err(TestError::Fail(reason, _)) => panic!("{reason}\n\nTRUEUP_SEED={hex}"),
        Err(error) => panic!("{error}\n\nTRUEUP_SEED={hex}"),
    }
}

fn from_hex(text: &str) -> [u8; 32] {
    let byte = |at: usize| u8::from_str_radix(text.get(at * 2..at * 2 + 2)?, 16).ok();
    let bytes: Option<Vec<u8>> = (0..32).map(byte).collect();
    bytes.expect("64 hex digits").try_into().unwrap()
}

fn fresh_seed() -> [u8; 32] {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_nanos();
    let mut seed = [0; 32];
    seed[..16].copy_from_slice(&now.to_ne_bytes());
    seed[16..20].copy_from_slice(&std::process::id().to_ne_bytes());
    seed
}

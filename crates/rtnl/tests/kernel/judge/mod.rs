//! The property with the kernel as judge: random desired states of every kind of object, applied
//! one after another over what random strangers do. After each pass the raw rows of the kernel are
//! held against what was authored, by an oracle that shares nothing with the codecs and the model.
//!
//! `TRUEUP_CASES` sets the number of cases. The seed is always the same unless `TRUEUP_SEED` says
//! another (32 hex bytes, as printed) or `random`: so what a change is judged by does not depend on
//! luck, and whoever looks for more can.

mod author;
mod case;
mod expect;
mod links;
mod objects;
mod route;
pub(crate) mod row;
mod spec;
mod stranger;

use std::cell::Cell;
use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};

thread_local! {
    static WATCH: Cell<u32> = const { Cell::new(0) };
}

/// Whether this time the multicast stream is listened to: that takes a tenth of a second, so it is
/// not each time.
pub(crate) fn watches() -> bool {
    WATCH.set(WATCH.get().wrapping_add(1));
    WATCH.get().is_multiple_of(16)
}

/// Valid states among strangers who keep their distance converge in one pass, always.
pub(crate) fn valid_states_converge_in_one_pass() {
    judge(true);
}

/// Whatever is desired and whatever strangers do: converged is true, and what is not ours stays.
pub(crate) fn strangers_are_left_alone() {
    judge(false);
}

fn judge(clean: bool) {
    let cases = env::var("TRUEUP_CASES").map_or(100, |text| text.parse().unwrap());
    let seed = match env::var("TRUEUP_SEED") {
        Ok(text) if text == "random" => fresh_seed(),
        Ok(text) => from_hex(&text),
        Err(_) => [116; 32],
    };
    let hex: String = seed.iter().map(|byte| format!("{byte:02x}")).collect();
    eprintln!("judge: {cases} cases, TRUEUP_SEED={hex}");
    let config = Config {
        cases,
        failure_persistence: None,
        max_shrink_iters: 600,
        ..Config::default()
    };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(config, rng);
    let result = runner.run(&spec::case(clean), |case| {
        case::run(&case).map_err(TestCaseError::fail)
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

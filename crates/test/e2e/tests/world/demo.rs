//! The demonstration of `cargo xtask demo --world`, with shorter times.

use std::process::Command;

pub(crate) fn the_demo_ends_as_it_says() {
    let mut demo = Command::new(env!("CARGO_BIN_EXE_world-demo"));
    let demo = demo.arg("--short").output().unwrap();
    let text = String::from_utf8_lossy(&demo.stdout);
    let errors = String::from_utf8_lossy(&demo.stderr);
    assert!(demo.status.success(), "{text}\n{errors}");
    assert!(text.contains("All of it was as said"), "{text}");
}

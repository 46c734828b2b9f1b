//! The program starts. `crates/test/e2e/tests/cli` tests its commands.

use std::process::Command;

#[test]
fn it_says_its_name_and_version() {
    let output = Command::new(env!("CARGO_BIN_EXE_trueup")).arg("--version").output().unwrap();
    let version = concat!("trueup ", env!("CARGO_PKG_VERSION"), "\n");
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout), version);
}

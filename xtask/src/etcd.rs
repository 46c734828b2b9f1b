//! What `trueup-etcd` needs beside Rust: `protoc` with Google's own definitions to be built, and
//! `etcd` for its tests. Where that is missing, the crate is left out, and named.

use std::process::{Command, Stdio};

use crate::programs::Program;
use crate::tools::{self, Result, find};

/// The crate.
pub(crate) const PACKAGE: &str = "trueup-etcd";

/// Root installs what is missing. Prints what is left out then.
pub(crate) fn need() -> Result<()> {
    if tools::can_install() {
        tools::need_packages(missing)?;
    }
    let missing = missing().join(" ");
    if !can_build() {
        println!("{PACKAGE}: NOT BUILT: needs of Debian's packages: {missing}");
    } else if !can_test() {
        println!("{PACKAGE}: its tests are NOT RUN: needs of Debian's packages: {missing}");
    }
    Ok(())
}

/// True if it can be built here.
pub(crate) fn can_build() -> bool {
    let mut protoc = Command::new("protoc");
    // Debian has the definitions in a package of their own.
    protoc.args([
        "--descriptor_set_out=/dev/null",
        "google/protobuf/descriptor.proto",
    ]);
    let status = protoc.stdout(Stdio::null()).stderr(Stdio::null()).status();
    status.is_ok_and(|status| status.success())
}

/// True if its tests can be run here.
pub(crate) fn can_test() -> bool {
    can_build() && find("etcd").is_ok()
}

/// The options with which cargo leaves it out where it cannot be built.
pub(crate) fn exclude() -> &'static [&'static str] {
    match can_build() {
        true => &[],
        false => &["--exclude", PACKAGE],
    }
}

/// True if a program is one of its tests.
pub(crate) fn is_test(program: &Program) -> bool {
    program.is_test && program.name.starts_with("etcd/")
}

fn missing() -> Vec<&'static str> {
    let mut packages = Vec::new();
    if find("protoc").is_err() {
        packages.push("protobuf-compiler");
    }
    if !can_build() {
        packages.push("libprotobuf-dev");
    }
    if find("etcd").is_err() {
        packages.push("etcd-server");
    }
    packages
}

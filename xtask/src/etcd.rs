//! The requirements of `trueup-etcd` outside Rust: `protoc` with Google's own definitions for the
//! build, and `etcd` and libfaketime for tests. If they are missing, the crate is left out, with
//! the features of that name in other crates, and named.

use std::path::Path;
use std::process::Command;

use crate::packages::{self, Package};
use crate::tools::{self, Result, find, succeeds};

/// The package name of the crate.
pub(crate) const PACKAGE: &str = "trueup-etcd";

/// Installs missing packages if run as root. Prints the parts that are still left out.
pub(crate) fn need() -> Result<()> {
    if tools::can_install() {
        need_all()?;
    }
    let missing = missing().join(" ");
    if !can_build() {
        println!(
            "{PACKAGE}, and the command's feature `etcd`: NOT BUILT: needs of Debian's packages: {missing}"
        );
    } else if !can_test() {
        println!("{PACKAGE}: tests on etcd are NOT RUN: needs of Debian's packages: {missing}");
    }
    Ok(())
}

/// Installs missing packages if run as root.
///
/// # Errors
///
/// Names the missing packages, for any other user.
pub(crate) fn need_all() -> Result<()> {
    tools::need_packages(missing)
}

/// Returns true if the crate can be built here.
pub(crate) fn can_build() -> bool {
    let mut protoc = Command::new("protoc");
    // Debian has the definitions in a separate package.
    succeeds(protoc.args(["--descriptor_set_out=/dev/null", "google/protobuf/descriptor.proto"]))
}

/// Returns true if the crate's tests can be run here.
pub(crate) fn can_test() -> bool {
    can_build() && find("etcd").is_ok() && has_clock()
}

/// Returns cargo's options to build everything that needs no etcd, with all other features.
pub(crate) fn left_out() -> Result<Vec<String>> {
    let mut features = packages::features()?;
    let of_etcd = format!("{PACKAGE}/");
    features.retain(|it| !it.starts_with(&of_etcd) && !it.ends_with("/etcd"));
    let words = ["--exclude", PACKAGE, "--features", &features.join(",")];
    Ok(words.map(str::to_owned).to_vec())
}

/// Returns true if a package can be built here with all features: a feature `etcd` needs the crate.
pub(crate) fn can_build_all_of(package: &Package) -> bool {
    let needs_it = package.name == PACKAGE || package.features.iter().any(|it| it == "etcd");
    !needs_it || can_build()
}

/// Returns true if a test program with this name runs members of etcd.
pub(crate) fn is_test(program: &str) -> bool {
    program.starts_with("etcd/") || program == "e2e/world"
}

/// Returns true if libfaketime is installed, with which a test can change a process's wall clock.
fn has_clock() -> bool {
    let library =
        format!("/usr/lib/{}-linux-gnu/faketime/libfaketime.so.1", std::env::consts::ARCH);
    Path::new(&library).exists()
}

fn missing() -> Vec<&'static str> {
    let needed = [
        (find("protoc").is_ok(), "protobuf-compiler"),
        (can_build(), "libprotobuf-dev"),
        (find("etcd").is_ok(), "etcd-server"),
        (has_clock(), "libfaketime"),
    ];
    needed.into_iter().filter(|(is_there, _)| !is_there).map(|(_, package)| package).collect()
}

//! Links the programs at fixed addresses. A test starts a program hundreds of times, and in a debug
//! build the relocations of one that can lie anywhere take half of each start, in an emulated guest
//! more.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-link-arg-bins=-no-pie");
}

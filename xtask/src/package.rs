//! `cargo xtask package`: checks each public crate in the form that its users get. It builds every
//! crate alone with each of its features, on the oldest Rust, the documentation as docs.rs does,
//! the packages, a crate outside the workspace on these packages, and the program as installed.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::etcd;
use crate::nightly;
use crate::packages::{Package, public};
use crate::steps::Steps;
use crate::tools::{Result, at, cargo, need_ip, output, read, root, show_and_run, succeeds, write};

/// The directory in which packages are written and built. Cargo treats two packages with the same
/// version as equal, whatever their content, so no build may stay.
const BUILT: &str = "target/publish";

/// Runs all checks, one after the other.
pub(crate) fn run() -> Result<()> {
    need_ip()?;
    etcd::need()?;
    if !etcd::can_build() {
        return Err("all public crates are packaged, with trueup-etcd".to_owned());
    }
    let packages = public()?;
    let steps = Steps::default();
    steps.run("features", || features(&packages));
    steps.run("oldest Rust", || oldest(&packages));
    steps.run("documentation as on docs.rs", || documentation(&packages));
    steps.run("packages", || publish(&packages));
    steps.run("a crate that uses the packages", || consumer(&packages));
    steps.run("the program, installed as README.md says", install);
    let _ = fs::remove_dir_all(root().join(BUILT));
    steps.end()
}

/// Builds each crate alone: in a build of several, a feature requested by one is enabled for all.
fn features(packages: &[Package]) -> Result<()> {
    for package in packages {
        let mut sets: Vec<Vec<&str>> = vec![vec![]];
        if !package.features.is_empty() {
            sets.extend([vec!["--all-features"], vec!["--no-default-features"]]);
        }
        for feature in package.features.iter().filter(|name| *name != "default") {
            sets.push(vec!["--no-default-features", "--features", feature]);
        }
        for words in sets {
            let common = ["clippy", "--quiet", "--package", &package.name];
            show_and_run(&mut cargo(&[&common, &words[..], &["--", "-Dwarnings"]].concat()))?;
        }
    }
    Ok(())
}

/// Builds the crates on the Rust version in their manifests, if rustup has it or can get it.
fn oldest(packages: &[Package]) -> Result<()> {
    let Some(version) = packages.first().map(|package| &package.rust_version) else {
        return Ok(());
    };
    let mut check = Command::new("rustup");
    check.args(["run", version, "cargo", "check", "--quiet"]);
    // Do not use the current toolchain.
    check.env_remove("CARGO").env_remove("RUSTUP_TOOLCHAIN");
    if !has_toolchain(version, None) {
        let home = root().join("target/rustup");
        if !has_toolchain(version, Some(&home)) {
            let mut install = Command::new("rustup");
            install
                .args(["toolchain", "install", version, "--profile", "minimal"])
                .arg("--no-self-update")
                .env("RUSTUP_HOME", &home);
            if show_and_run(&mut install).is_err() {
                println!("Rust {version}: not checked, as rustup cannot get it");
                return Ok(());
            }
        }
        check.env("RUSTUP_HOME", home);
    }
    for package in packages {
        check.args(["--package", &package.name]);
    }
    check.args(["--all-features", "--target-dir", "target/oldest"]);
    show_and_run(check.current_dir(root()))
}

fn has_toolchain(version: &str, home: Option<&Path>) -> bool {
    let mut rustc = Command::new("rustup");
    rustc.args(["run", version, "rustc", "--version"]);
    if let Some(home) = home {
        rustc.env("RUSTUP_HOME", home);
    }
    succeeds(&mut rustc)
}

/// Builds the documentation with the flags of docs.rs, on nightly if installed: only nightly shows
/// which feature an item needs.
fn documentation(packages: &[Package]) -> Result<()> {
    let words = ["doc", "--quiet", "--no-deps", "--lib", "--all-features"];
    let (mut doc, flags) = match nightly::need() {
        Ok(()) => (nightly::cargo(&words), "-Dwarnings --cfg docsrs"),
        Err(_) => (cargo(&words), "-Dwarnings"),
    };
    for package in packages.iter().filter(|package| package.library.is_some()) {
        doc.args(["--package", &package.name]);
    }
    doc.args(["--target-dir", "target/docs-rs"]);
    show_and_run(doc.env("RUSTDOCFLAGS", flags))
}

/// Packages all crates, and builds each package on the packages that it depends on.
fn publish(packages: &[Package]) -> Result<()> {
    let _ = fs::remove_dir_all(root().join(BUILT));
    forget(packages);
    // Include uncommitted changes.
    let words = ["publish", "--workspace", "--dry-run", "--allow-dirty"];
    let published = show_and_run(cargo(&words).args(["--target-dir", BUILT]));
    forget(packages);
    published
}

/// Removes the unpacked content of our earlier packages, which cargo would take for the new ones.
/// Cargo's directories for local registries begin with a hyphen, the others with the host's name.
fn forget(packages: &[Package]) {
    let home = env::var_os("HOME").map(|home| PathBuf::from(home).join(".cargo"));
    let Some(home) = env::var_os("CARGO_HOME").map(PathBuf::from).or(home) else {
        return;
    };
    for kind in ["src", "cache"] {
        let registries = fs::read_dir(home.join("registry").join(kind));
        for registry in registries.into_iter().flatten().flatten() {
            if !registry.file_name().as_encoded_bytes().starts_with(b"-") {
                continue;
            }
            for Package { name, version, .. } in packages {
                let unpacked = registry.path().join(format!("{name}-{version}"));
                let _ = fs::remove_file(registry.path().join(format!("{name}-{version}.crate")));
                let _ = fs::remove_dir_all(unpacked);
            }
        }
    }
}

/// Installs the program by the command of the front page, and runs it.
fn install() -> Result<()> {
    let page = read(&root().join("README.md"))?;
    let line = page.lines().find_map(|line| line.strip_prefix("cargo install "));
    let words = line.and_then(|line| line.split('#').next()).ok_or("no `cargo install`")?;
    // The page's path begins with the folder of the clone.
    let words: Vec<String> = words.split_whitespace().map(|it| it.replace("trueup/", "")).collect();
    let folder = root().join(BUILT).join("installed");
    let mut install = cargo(&["install", "--root"]);
    show_and_run(install.arg(&folder).args(words))?;
    show_and_run(Command::new(folder.join("bin/trueup")).arg("--version"))
}

/// Runs and tests the crate in `xtask/consumer` on the packages' content, outside the workspace.
fn consumer(packages: &[Package]) -> Result<()> {
    let folder = env::temp_dir().join(format!("trueup-consumer-{}", std::process::id()));
    let result = copy(packages, &folder).and_then(|()| {
        let format: &[&str] = &["fmt", "--check"];
        for words in [format, &["run", "--quiet"], &["test", "--quiet"]] {
            let mut command = cargo(words);
            command
                .env("CARGO_TARGET_DIR", root().join(BUILT))
                .current_dir(folder.join("consumer"));
            show_and_run(&mut command)?;
        }
        Ok(())
    });
    let _ = fs::remove_dir_all(&folder);
    result
}

/// Copies the packages, and the crate that uses them, into a directory.
fn copy(packages: &[Package], folder: &Path) -> Result<()> {
    at(folder, fs::create_dir_all(folder))?;
    let mut copy = Command::new("cp");
    copy.arg("-R").arg(root().join("xtask/consumer"));
    let mut config = "[patch.crates-io]\n".to_owned();
    for Package { name, version, .. } in packages {
        // The package's content, which cargo unpacked to build it.
        copy.arg(root().join(BUILT).join(format!("package/{name}-{version}")));
        config += &format!("{name}.path = \"../{name}-{version}\"\n");
    }
    output(copy.arg(folder))?;
    // Use the same versions of dependencies as in all tests.
    let consumer = folder.join("consumer");
    at(&consumer, fs::copy(root().join("Cargo.lock"), consumer.join("Cargo.lock")))?;
    at(&consumer, fs::create_dir_all(consumer.join(".cargo")))?;
    write(&consumer.join(".cargo/config.toml"), config)
}

//! `cargo xtask vm`: runs the kernel tests on the kernels that users have, each booted by qemu with
//! only an initramfs. A kernel is Debian's own package, unpacked under `target/vm` and not
//! installed.
//!
//! It is not meant for trying out trueup by hand: the guest runs its programs, reports how each
//! ended, and powers off.

mod boot;
mod cpio;
mod initramfs;
mod package;
mod programs;
mod ran;
pub(crate) mod service;
mod table;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::builder::PossibleValuesParser;

use crate::programs::Program;
use crate::tools::{self, QEMU, Result, Tool, at, joined, root, write};
pub(crate) use boot::Accel;
use programs::Programs;
use ran::Ran;

const TOOLS: [Tool; 5] = [
    QEMU,
    Tool { program: "objcopy", package: "binutils" },
    Tool { program: "busybox", package: "busybox-static" },
    Tool { program: "depmod", package: "kmod" },
    Tool { program: "dpkg-deb", package: "dpkg" },
];

/// The column of the running kernel.
const LOCAL: &str = "local";

/// The series of kernels to look up in Debian's packages; the columns of the tables.
pub(crate) const SERIES: [&str; 2] = ["6.1", "6.12"];

/// The possible values of an option.
pub(crate) const KERNELS: [&str; 3] = [LOCAL, SERIES[0], SERIES[1]];

#[derive(Default, clap::Args)]
pub(crate) struct Options {
    /// The kernels, such as 6.1; 6.1 and 6.12 by default
    #[arg(long = "kernel", value_name = "KERNEL", value_parser = PossibleValuesParser::new(KERNELS))]
    kernels: Vec<String>,
    #[arg(long)]
    accel: Option<Accel>,
    /// A single test program, such as rtnl/kernel, or those of its tests that have a word in their
    /// name, such as rtnl/kernel:kinds
    #[arg(long, value_name = "PROGRAM[:TEST]")]
    only: Option<String>,
    /// Write the tables of docs/kernels.md as well, for which the local kernel runs too
    #[arg(long, conflicts_with = "only")]
    write: bool,
}

impl Options {
    /// Selects one kernel.
    pub(crate) fn of(kernel: &str) -> Options {
        Options { kernels: vec![kernel.to_owned()], ..Options::default() }
    }
}

/// Runs the tests on the selected kernels. Returns the results in one line.
pub(crate) fn run(options: &Options) -> Result<String> {
    need()?;
    let only = options.only.as_deref().map(|it| it.split_once(':').unwrap_or((it, "")));
    let mut programs = Programs::build(only.map(|(program, _)| program))?;
    programs.filter = only.map_or_else(String::new, |(_, filter)| filter.to_owned());
    let summaries = on_each(&options.kernels(), options.accel, &programs, only.is_none())?;
    if options.write {
        table::write(&dir()?, &root().join("docs/kernels.md"))?;
    }
    Ok(summaries)
}

/// Runs built programs on a kernel, fewer than [`run`] does. An emulated machine also does less in
/// each. So the results are not kept.
pub(crate) fn test(kernel: &str, built: &[Program]) -> Result<String> {
    on_each(&[kernel], None, &Programs::of(built, None, true)?, false)
}

/// Makes sure that the programs for a virtual machine are installed.
pub(crate) fn need() -> Result<()> {
    if !cfg!(target_arch = "x86_64") {
        return Err("the kernel packages are for x86-64, which this machine is not".to_owned());
    }
    tools::need(&TOOLS)?;
    tools::need_for_tests()
}

/// Returns the directory of packages, images and logs.
fn dir() -> Result<PathBuf> {
    let dir = root().join("target/vm");
    at(&dir, fs::create_dir_all(&dir))?;
    Ok(dir)
}

/// Runs the programs on each kernel, and keeps the results if they cover all programs.
fn on_each(
    kernels: &[&str],
    accel: Option<Accel>,
    programs: &Programs,
    are_all: bool,
) -> Result<String> {
    let dir = dir()?;
    let (mut failed, mut summaries) = (Vec::new(), Vec::new());
    for kernel in kernels {
        let start = Instant::now();
        match on(kernel, accel, programs, &dir) {
            Ok(ran) => {
                let seconds = start.elapsed().as_secs();
                println!("{kernel} ({}), {seconds} s: {}", ran.release, ran.summary());
                summaries.push(format!("{}: {}", ran.release, ran.summary()));
                let json = dir.join(format!("{kernel}.json"));
                if are_all {
                    let text = serde_json::to_string_pretty(&ran);
                    write(&json, text.map_err(|error| error.to_string())?)?;
                }
                failed.extend(ran.failures().map(|failure| format!("{kernel}: {failure}")));
            }
            Err(error) => failed.push(format!("{kernel}: {error}")),
        }
    }
    joined(&failed)?;
    Ok(summaries.join("; "))
}

/// Runs the programs on one kernel.
fn on(kernel: &str, accel: Option<Accel>, programs: &Programs, dir: &Path) -> Result<Ran> {
    let [log, console, image] =
        ["log", "console.log", "cpio"].map(|ending| dir.join(format!("{kernel}.{ending}")));
    if kernel == LOCAL {
        return boot::here(programs, &log);
    }
    let package = package::unpacked(kernel, dir)?;
    initramfs::write(&image, &package, programs)?;
    boot::Machine { kernel: package.image, initramfs: image, accel, log, console }.boot(programs)
}

impl Options {
    fn kernels(&self) -> Vec<&str> {
        match (&self.kernels[..], self.write) {
            ([], true) => KERNELS.to_vec(),
            ([], false) => SERIES.to_vec(),
            (kernels, _) => kernels.iter().map(String::as_str).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_local_kernel_is_run_for_the_tables_alone_unless_named() {
        for (kernels, write, expected) in [
            (vec![], false, "6.1 6.12"),
            (vec![], true, "local 6.1 6.12"),
            (vec!["6.1".to_owned()], true, "6.1"),
        ] {
            let options = Options { kernels, write, ..Options::default() };
            assert_eq!(options.kernels().join(" "), expected);
        }
    }
}

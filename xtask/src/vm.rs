//! `cargo xtask vm`: the kernel tests on the kernels that users run, each booted by qemu with an
//! initramfs and nothing else. A kernel is Debian's own package, unpacked under `target/vm`;
//! nothing of it is installed.
//!
//! Not a way to try out trueup by hand: the guest runs its programs, says how each ended, and
//! powers off.

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

use crate::programs::Program;
use crate::tools::{self, IP, QEMU, Result, Tool, at, joined, root, write};
use boot::Accel;
use programs::Programs;
use ran::Ran;

const TOOLS: [Tool; 6] = [
    QEMU,
    Tool { program: "objcopy", package: "binutils" },
    Tool { program: "busybox", package: "busybox-static" },
    Tool { program: "depmod", package: "kmod" },
    Tool { program: "dpkg-deb", package: "dpkg" },
    IP,
];

/// The column of the kernel that runs this.
const LOCAL: &str = "local";

/// The series of kernels that Debian's packages are looked up for; the columns of the tables.
const SERIES: [&str; 2] = ["6.1", "6.12"];

/// What the command line asks for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Asked {
    kernels: Vec<&'static str>,
    accel: Option<Accel>,
    /// A single test program.
    only: Option<String>,
    /// Of its tests those that have this in their name.
    filter: String,
    write: bool,
}

/// Runs it. Returns what came of it, in one line.
pub(crate) fn run(options: &[&str]) -> Result<String> {
    let asked = Asked::parse(options)?;
    need()?;
    let mut programs = Programs::build(asked.only.as_deref())?;
    programs.filter.clone_from(&asked.filter);
    let summaries = on_each(&asked, &programs)?;
    if asked.write {
        table::write(&dir()?, &root().join("docs/kernels.md"))?;
    }
    Ok(summaries)
}

/// Runs programs that are built already.
pub(crate) fn test(asked: &Asked, built: &[Program]) -> Result<String> {
    on_each(asked, &Programs::of(built, None)?)
}

/// Makes sure that a virtual machine can be made.
pub(crate) fn need() -> Result<()> {
    if !cfg!(target_arch = "x86_64") {
        return Err("the kernel packages are for x86-64, which this machine is not".to_owned());
    }
    tools::need(&TOOLS)
}

/// Where packages, images and logs are.
fn dir() -> Result<PathBuf> {
    let dir = root().join("target/vm");
    at(&dir, fs::create_dir_all(&dir))?;
    Ok(dir)
}

fn on_each(asked: &Asked, programs: &Programs) -> Result<String> {
    let dir = dir()?;
    let (mut failed, mut summaries) = (Vec::new(), Vec::new());
    for kernel in &asked.kernels {
        let start = Instant::now();
        match on(kernel, asked.accel, programs, &dir) {
            Ok(ran) => {
                let seconds = start.elapsed().as_secs();
                println!("{kernel} ({}), {seconds} s: {}", ran.release, ran.summary());
                summaries.push(format!("{}: {}", ran.release, ran.summary()));
                let json = dir.join(format!("{kernel}.json"));
                if asked.only.is_none() {
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
    let file = |ending: &str| -> PathBuf { dir.join(format!("{kernel}.{ending}")) };
    if kernel == LOCAL {
        return boot::here(programs, &file("log"));
    }
    let package = package::unpacked(kernel, dir)?;
    let image = file("cpio");
    initramfs::write(&image, &package, programs)?;
    let machine = boot::Machine {
        kernel: package.image,
        initramfs: image,
        accel,
        log: file("log"),
        console: file("console.log"),
    };
    machine.boot(programs)
}

impl Asked {
    pub(crate) fn parse(options: &[&str]) -> Result<Asked> {
        let (mut kernels, mut accel, mut write) = (Vec::new(), None, false);
        let (mut only, mut filter) = (None, String::new());
        let mut words = options.iter();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(format!("{word} needs a value"));
            match *word {
                "--kernel" => {
                    let name = value()?;
                    let known = SERIES.into_iter().chain([LOCAL]).find(|known| known == name);
                    kernels.push(known.ok_or(format!("no kernel {name}: 6.1, 6.12 or local"))?);
                }
                "--accel" => {
                    accel = Some(Accel::named(value()?)?);
                }
                "--only" => {
                    let value = value()?;
                    let (program, part) = value.split_once(':').unwrap_or((value, ""));
                    only = Some(program.to_owned());
                    filter = part.to_owned();
                }
                "--write" => write = true,
                other => return Err(format!("vm has no option {other}")),
            }
        }
        if write && only.is_some() {
            return Err("the tables are of all programs: not --write with --only".to_owned());
        }
        if kernels.is_empty() {
            kernels.extend(write.then_some(LOCAL));
            kernels.extend(SERIES);
        }
        Ok(Asked { kernels, accel, only, filter, write })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_taken_and_others_refused() {
        let parse = |line: &str| Asked::parse(&line.split_whitespace().collect::<Vec<_>>());
        assert_eq!(parse("").unwrap().kernels, SERIES);
        assert_eq!(parse("--write").unwrap().kernels, ["local", "6.1", "6.12"]);
        let one = parse("--kernel 6.1 --accel tcg").unwrap();
        assert_eq!((one.kernels, one.accel), (vec!["6.1"], Some(Accel::Tcg)));
        for bad in ["--kernel", "--kernel 5.10", "--accel xen", "6.1"] {
            parse(bad).unwrap_err();
        }
    }
}

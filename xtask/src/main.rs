//! The workspace's own commands, run as `cargo xtask COMMAND`. Nothing here is part of trueup.

mod api;
mod bench;
mod counts;
mod demo;
mod deny;
mod etcd;
mod fuzz;
mod kinds;
mod mutants;
mod nightly;
mod package;
mod packages;
#[cfg(test)]
mod pages;
mod plant;
mod programs;
mod prove;
mod sanitize;
mod scenarios;
mod steps;
mod test;
mod tools;
mod vm;

use std::process::ExitCode;

use crate::tools::Result;

const USAGE: &str = "\
usage: cargo xtask COMMAND

  test   format check, all tests (unit, property, doc and kernel), clippy, documentation, and whether the scenarios show
         all that is known; [--kernel 6.1|6.12]: the kernel tests on that kernel as well, beside the others
  prove  what takes longer, hours in all: [STEP]... [--without STEP]...; writes the table of docs/safety.md. Steps:
         kill-points generators long-runs attacks operator service simulation model guests etcd daemons
         plants mutants kernels fuzz crates
  bench  what passes take, against the floor and against other programs, in turn: [--quick] [--work NAME]... [--write]
         and others (--help); --work daemon and --work containers have options of their own (--help)
  api    the public API of each crate, compared with crates/*/*/api.txt [--write]
  deny   licences, sources, duplicates and advisories of the dependencies; installs cargo-deny
  package  each public crate alone with each feature, on the oldest Rust, its documentation and its package,
         and a crate outside the workspace that is built on the packages
  demo   trueup on docs/examples/edge.toml, in a throwaway network namespace; [--world [--short]]: five hosts and three
         members of etcd, with longer or shorter outages; [--guests]: guests of QEMU, with examples/guests
  counts instructions of diff and codec, counted by valgrind and compared with benches/counts.toml [--write]
  kinds  the places that match over four and more kinds of objects by hand: [ROOT]
  vm     the kernel tests on other kernels, in virtual machines: [--kernel 6.1|6.12|local]... (6.1 and 6.12 unless
         given) [--accel kvm|tcg] [--only PROGRAM[:TEST], such as rtnl/kernel:kinds] [--write] (also the tables of
         docs/kernels.md, and for that on the local kernel)
  service  the unit of docs/examples under a real systemd, in a virtual machine, with files and commands
         [--accel kvm|tcg]
  scenarios  what each shows, and on which kernels it passed [--write] (also the table of docs/kernels.md)
         [--last] (as the last run of all of them ended)
  plant  breaks each invariant on purpose, in a scratch copy, and looks whether the scenarios name it and the
         simulation finds it; plants the faults of single crates, which a test program has to notice:
         [NUMBER|CRATE]...
  mutants  a sample of small changes to the code, another one each day, each of which a test has to notice:
         [--seed N] [net|reconcile|loop|queue|graph|control|apply|codecs|ledger]...; installs cargo-mutants
  fuzz   the targets of fuzz/ under libFuzzer, on a nightly toolchain: [--seconds N] (60 unless given; --total N is
         shared by the targets) [TARGET]...; or --seeds: records the corpus anew from what the running kernel says
  sanitize  what has no kernel in it under AddressSanitizer, on a nightly toolchain
  miri   the same under Miri, where the nightly toolchain has it
  help   this text

None needs root; all need `ip` (iproute2).";

/// A command with its options.
type Run = fn(&[&str]) -> Result<()>;

const COMMANDS: [(&str, Run); 18] = [
    ("test", test::run),
    ("prove", prove::run),
    ("bench", bench::run),
    ("api", api::run),
    ("deny", |options| none(options).and_then(|()| deny::run())),
    ("package", |options| none(options).and_then(|()| package::run())),
    ("demo", demo::run),
    ("counts", counts::run),
    ("kinds", |options| match options {
        [] => kinds::run(None),
        [root] => kinds::run(Some(root)),
        _ => Err("kinds takes one folder, or nothing".to_owned()),
    }),
    ("vm", |options| vm::run(options).map(drop)),
    ("service", |options| vm::service::run(options).map(drop)),
    ("scenarios", scenarios::run),
    ("plant", |options| plant::run(options).map(drop)),
    ("mutants", |options| mutants::run(options).map(drop)),
    ("fuzz", |options| fuzz::run(options).map(drop)),
    ("sanitize", |options| none(options).and_then(|()| sanitize::address())),
    ("miri", |options| none(options).and_then(|()| sanitize::miri())),
    ("help", |_| {
        println!("{USAGE}");
        Ok(())
    }),
];

fn none(options: &[&str]) -> Result<()> {
    match options {
        [] => Ok(()),
        _ => Err("this command takes no options".to_owned()),
    }
}

fn main() -> ExitCode {
    let args: Vec<_> = std::env::args().skip(1).collect();
    let args: Vec<_> = args.iter().map(String::as_str).collect();
    let (name, options) = match args[..] {
        ["--help" | "-h"] => ("help", &[][..]),
        [name, ref options @ ..] => (name, options),
        [] => ("", &[][..]),
    };
    let Some((_, run)) = COMMANDS.iter().find(|(known, _)| *known == name) else {
        eprintln!("{USAGE}");
        return ExitCode::from(64); // EX_USAGE
    };
    match run(options) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

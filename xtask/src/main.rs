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
mod pictures;
mod plant;
mod programs;
mod prove;
mod sanitize;
mod scenarios;
mod steps;
mod test;
mod tools;
mod vm;

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use clap::builder::PossibleValuesParser;

/// The workspace's own commands. None needs root; all need `ip` (iproute2).
#[derive(Parser)]
#[command(bin_name = "cargo xtask")]
enum Command {
    /// Checks the format, runs all tests (unit, property, doc and kernel), clippy and the
    /// documentation, and checks whether the scenarios show all that is known
    Test {
        /// Run the kernel tests on that kernel as well, beside the others
        #[arg(long, value_parser = PossibleValuesParser::new(vm::KERNELS))]
        kernel: Option<String>,
    },
    /// Runs what takes longer, hours in all, and writes the table of docs/safety.md. A run continues
    /// where the last one on the same commit ended
    Prove(prove::Options),
    /// Measures passes against the floor and against other programs, in turn (`bench --help` lists
    /// the options; `--work daemon` and `--work containers` have options of their own)
    #[command(disable_help_flag = true)]
    Bench {
        #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
        options: Vec<String>,
    },
    /// Documents the workspace, and compares the public API of each crate with crates/*/*/api.txt
    Api {
        /// Write the files instead
        #[arg(long)]
        write: bool,
    },
    /// Checks licences, sources, duplicates and advisories of the dependencies; installs cargo-deny
    Deny,
    /// Builds each public crate alone with each feature, on the oldest Rust, its documentation and
    /// its package, and a crate outside the workspace on these packages
    Package,
    /// Shows trueup on docs/examples/edge.toml, in a throwaway network namespace
    Demo {
        /// Five hosts and three members of etcd instead
        #[arg(long, conflicts_with = "guests")]
        world: bool,
        /// With shorter outages
        #[arg(long, requires = "world")]
        short: bool,
        /// Guests of QEMU instead, with examples/guests
        #[arg(long)]
        guests: bool,
    },
    /// Draws the pictures of README.md anew, from runs of the program: docs/plan.svg and
    /// docs/watch.svg
    Pictures,
    /// Counts the instructions of diff and codec with valgrind and compares them with
    /// benches/counts.toml
    Counts {
        /// Write the file instead
        #[arg(long)]
        write: bool,
    },
    /// Lists the places that match over four and more kinds of objects by hand
    Kinds { root: Option<PathBuf> },
    /// Runs the kernel tests on other kernels, in virtual machines
    Vm(vm::Options),
    /// Runs the unit of docs/examples under a real systemd, in a virtual machine, with files and
    /// commands
    Service {
        #[arg(long)]
        accel: Option<vm::Accel>,
    },
    /// Runs the scenarios and lists what each shows, and on which kernels it passed
    Scenarios {
        /// Write the table of docs/kernels.md as well
        #[arg(long)]
        write: bool,
        /// Take the results of the last run
        #[arg(long)]
        last: bool,
    },
    /// Breaks each invariant on purpose, in a scratch copy, and checks that the scenarios name it
    /// and the simulation finds it; plants the faults of single crates, which a test must notice
    Plant {
        /// The invariants' numbers, names of crates and of faults; all by default
        only: Vec<String>,
    },
    /// Makes a sample of small changes to the code, another one each day, each of which a test must
    /// notice; installs cargo-mutants
    Mutants {
        /// The number of the sample; today's by default
        #[arg(long)]
        seed: Option<usize>,
        #[arg(value_parser = PossibleValuesParser::new(mutants::GROUPS.map(|it| it.name)))]
        groups: Vec<String>,
    },
    /// Runs the targets of fuzz/ under libFuzzer, on a nightly toolchain
    Fuzz(fuzz::Options),
    /// Runs the tests without a kernel under AddressSanitizer, on a nightly toolchain
    Sanitize,
    /// Runs the same tests under Miri, if the nightly toolchain has it
    Miri,
}

fn main() -> ExitCode {
    let ended = match Command::parse() {
        Command::Test { kernel } => test::run(kernel),
        Command::Prove(options) => prove::run(&options),
        Command::Bench { options } => bench::run(&options),
        Command::Api { write } => api::run(write),
        Command::Deny => deny::run(),
        Command::Package => package::run(),
        Command::Demo { world, short, guests } => demo::run(world, short, guests),
        Command::Pictures => pictures::run(),
        Command::Counts { write } => counts::run(write),
        Command::Kinds { root } => kinds::run(root),
        Command::Vm(options) => vm::run(&options).map(drop),
        Command::Service { accel } => vm::service::run(accel).map(drop),
        Command::Scenarios { write, last: false } => scenarios::run(write),
        Command::Scenarios { write, last: true } => scenarios::list(true, write),
        Command::Plant { only } => plant::run(&only),
        Command::Mutants { seed, groups } => mutants::run(seed, &groups).map(drop),
        Command::Fuzz(options) => fuzz::run(&options).map(drop),
        Command::Sanitize => sanitize::address(),
        Command::Miri => sanitize::miri(),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("xtask: {error}");
            ExitCode::FAILURE
        }
    }
}

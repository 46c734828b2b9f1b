//! The benchmarks, each a command of one program. `README.md` in this directory describes them;
//! `docs/performance.md` has the figures.
//!
//! They do not check correctness: tests do that.

#![forbid(unsafe_code)]

mod compare;
mod containers;
mod crowd;
mod daemon;
#[cfg(feature = "etcd")]
mod exchange;
mod fleet;
mod floor;
mod journal;
mod kept;
mod kinds;
mod latency;
mod listener;
mod order;
mod pass;
mod queue;
mod row;
mod stillness;
mod text;
pub mod usage;
#[cfg(feature = "etcd")]
mod world;
mod writer;

use anyhow::Result;
use clap::Parser;
use trueup_works::{Program, Work, perform};

/// Measures trueup. Needs no root.
#[derive(Parser)]
enum Command {
    Compare(compare::Options),
    Daemon(daemon::Options),
    Containers(containers::Options),
    Fleet(fleet::Options),
    Latency(latency::Options),
    Stillness(stillness::Options),
    Journal(journal::Options),
    Queue(queue::Options),
    Order(order::Options),
    Kinds(kinds::Options),
    #[cfg(feature = "etcd")]
    World(world::Options),
    #[cfg(feature = "etcd")]
    Exchange(exchange::Options),
}

/// Runs the command in the program's arguments.
pub fn main() -> Result<()> {
    match Command::parse() {
        Command::Compare(options) => compare::main(&options),
        Command::Daemon(options) => daemon::main(&options),
        Command::Containers(options) => containers::main(&options),
        Command::Fleet(options) => fleet::main(&options),
        Command::Latency(options) => latency::main(&options),
        Command::Stillness(options) => stillness::main(&options),
        Command::Journal(options) => journal::main(&options),
        Command::Queue(options) => queue::main(&options),
        Command::Order(options) => order::main(&options),
        Command::Kinds(options) => kinds::main(&options),
        #[cfg(feature = "etcd")]
        Command::World(options) => world::main(&options),
        #[cfg(feature = "etcd")]
        Command::Exchange(options) => exchange::main(&options),
    }
}

/// Does one piece of work by the floor or by trueup: `list`, or `NAME WORK SIZE`.
pub fn works() -> Result<()> {
    let all: Vec<_> = Work::all().map(|work| (work, work.largest())).collect();
    let few = vec![(Work::FewNoop, Work::FewNoop.largest())];
    let mut programs = vec![
        Program { name: "floor", works: all.clone(), run: floor::perform },
        Program { name: "floor-by-protocol", works: few, run: floor::read_by_protocol },
        Program { name: "trueup", works: all, run: pass::perform },
    ];
    programs.extend(pass::commands());
    perform(&programs, &std::env::args().skip(1).collect::<Vec<_>>())
}

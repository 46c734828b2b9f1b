//! `trueup`: makes the kernel's network state agree with a file. This crate has the command line
//! and the exit codes; the family's other crates do the work.
//!
//! This is a program. The library has no API except `main`, for tests that run it.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod commands;
mod first_process;
mod output;

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use anyhow::anyhow;
use clap::{Args, Parser, Subcommand};
use signal_hook::consts::SIGXFSZ;
use trueup::Namespace;
use trueup_agent::Writers;

use crate::output::Format;

/// Makes the kernel's network state agree with a file.
///
/// It deletes only what it owns, and gives a reason for every change.
#[derive(Parser)]
#[command(name = "trueup", bin_name = "trueup", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    common: Common,
}

/// The options of every command.
#[derive(Args)]
struct Common {
    /// The network namespace: a name as of `ip netns`, a path, or pid:N [default: one's own]
    #[arg(long, global = true, value_name = "NAME|PATH|pid:N")]
    netns: Option<Namespace>,
    /// The form of the output; `ip`: commands for `ip -batch -`; `dot` and `svg`: of `graph` alone
    #[arg(long, global = true, value_enum, default_value_t, value_name = "FORMAT")]
    format: Format,
    /// The directory of the journals, which record what trueup owns [default: /run/trueup, else
    /// $XDG_RUNTIME_DIR/trueup]
    #[arg(long, global = true, value_name = "DIR")]
    state: Option<PathBuf>,
    /// Take a file of the desired state that other users can write or replace
    #[arg(long, global = true)]
    trust_file: bool,
}

impl Common {
    /// Returns which users may be able to write the file of the desired state.
    fn writers(&self) -> Writers {
        if self.trust_file { Writers::Any } else { Writers::Ours }
    }
}

#[derive(Subcommand)]
enum Command {
    /// Print what a pass would do, and why; change nothing
    ///
    /// Exits with 0 when there is nothing to do, 2 when changes are pending, 1 when that is
    /// not known.
    Plan {
        /// The desired state, TOML or JSON; `-` is the standard input
        file: PathBuf,
    },
    /// Run one pass and print what it did
    ///
    /// Exits with 0 when the kernel is as desired, 2 when it is not or the report could not be
    /// written, 1 when the pass could not run and nothing was changed.
    Apply {
        /// The desired state, TOML or JSON; `-` is the standard input
        file: PathBuf,
        /// Refuse the file if an object names a device that neither exists nor is declared
        /// [default: that object is pending]
        #[arg(long)]
        strict: bool,
        /// Delete what is no longer declared, however much it is: for once, `max_deletes` is no
        /// limit
        #[arg(long)]
        allow_deletes: bool,
    },
    /// Run passes until SIGINT or SIGTERM; read the file again when it changes
    ///
    /// On a terminal it shows the current state; elsewhere it prints each change, with
    /// `--format json` as a line of JSON. On SIGHUP it reads the file and the whole state again.
    Watch(commands::Watch),
    /// Print the graph of a file, and how each vertex stands; change nothing
    ///
    /// Runs the check commands of the file. Exits as `plan`.
    Graph {
        /// The desired state, TOML or JSON; `-` is the standard input
        file: PathBuf,
    },
    /// Print the namespace's state in the file's own form
    Observe {
        /// Leave out what the kernel gives by default, hardware addresses that are a device's own
        /// or random, the fallback devices of tunnels, and empty sections
        #[arg(long)]
        portable: bool,
    },
    /// Print what this kernel and this caller can do, and the problems that would prevent a pass
    ///
    /// Exits with 0 when an apply could work, 2 when a problem would prevent it, 1 when that is
    /// not known.
    Doctor {
        /// The desired state that would be applied, TOML or JSON; `-` is the standard input
        file: Option<PathBuf>,
    },
    /// Print whose an object is, by what proof, and what the next pass would do to it
    ///
    /// Exits with 0, also for an object that does not exist, and with 1 when that is not known.
    Why(commands::Why),
    /// List, watch and change what hosts exchange through the store of [world]
    World {
        #[command(subcommand)]
        task: commands::WorldTask,
    },
    /// Check, print or repair the journals, which record what trueup owns
    Journal {
        #[command(subcommand)]
        task: commands::Task,
    },
}

/// The exit code if the command failed, or if its answer is not known.
const FAILED: u8 = 1;

/// Runs the program with the arguments of the process. Returns its exit code.
#[doc(hidden)]
pub fn main() -> ExitCode {
    let Cli { command, common } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => {
            // Help and version are results. clap's own exit code for usage errors, 2, means
            // "changes pending" here.
            let printed = error.print();
            let is_lost = printed.is_err_and(|error| error.kind() != ErrorKind::BrokenPipe);
            let failed = error.use_stderr() || is_lost;
            return ExitCode::from(if failed { FAILED } else { 0 });
        }
    };
    // Without a handler the signal kills the process, even in the middle of a pass. With one, a
    // write beyond the limit for the size of files (RLIMIT_FSIZE) is an ordinary error (EFBIG). If
    // no handler can be set, the default stays.
    let _unhandled = signal_hook::flag::register(SIGXFSZ, Arc::default());
    let is_picture = matches!(common.format, Format::Dot | Format::Svg);
    let done = match command {
        Command::Graph { file } => commands::graph(&common, &file),
        _ if is_picture => {
            Err(anyhow!("only `graph` is printed so: --format is text, json or ip here"))
        }
        Command::Plan { file } => commands::plan(&common, &file),
        Command::Apply { file, strict, allow_deletes } => {
            commands::apply(&common, &file, strict, allow_deletes)
        }
        Command::Watch(_) if first_process::is_first() => first_process::run(),
        Command::Watch(asked) => commands::watch(&common, &asked),
        Command::Observe { portable } => commands::observe(&common, portable),
        Command::Doctor { file } => commands::doctor(&common, file.as_deref()),
        Command::Why(asked) => commands::why(&common, &asked),
        Command::World { task } => commands::world(&common, &task),
        Command::Journal { task } => commands::journal(&common, &task),
    };
    done.unwrap_or_else(|error| {
        output::print_error(&error);
        ExitCode::from(FAILED)
    })
}

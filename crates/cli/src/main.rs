//! `trueup`: makes the kernel's network state agree with a file. The command line and its exit
//! codes are here; what the commands do is the family's crates' doing.
#![forbid(unsafe_code)]

mod commands;
mod host;
mod options;
mod output;
mod state;

use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::{Args, Parser, Subcommand};
use signal_hook::consts::SIGXFSZ;
use trueup::Namespace;

use crate::output::Format;

/// Makes the kernel's network state agree with a file.
///
/// It deletes only what it made, and says why for every change.
#[derive(Parser)]
#[command(name = "trueup", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    #[command(flatten)]
    common: Common,
}

/// What every command takes.
#[derive(Args)]
struct Common {
    /// The network namespace: a name as of `ip netns`, a path, or pid:N [default: one's own]
    #[arg(long, global = true, value_name = "NAME|PATH|pid:N")]
    netns: Option<Namespace>,
    /// What to print: `ip` is for `ip -batch -`
    #[arg(
        long,
        global = true,
        value_enum,
        default_value_t,
        value_name = "FORMAT"
    )]
    format: Format,
    /// Where it is remembered what is ours [default: /run/trueup, else $XDG_RUNTIME_DIR/trueup]
    #[arg(long, global = true, value_name = "DIR")]
    state: Option<PathBuf>,
}

#[derive(Subcommand)]
enum Command {
    /// Print what a pass would do, and why; change nothing
    ///
    /// Exits with 0 when there is nothing to do, 2 when changes are pending, 1 when that could not
    /// be told.
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
    },
    /// Run passes until SIGINT or SIGTERM; read the file again when it changes
    ///
    /// On a terminal it shows how things stand; elsewhere it prints what happens, with
    /// `--format json` a line of JSON each. SIGHUP has it read the file and look at everything
    /// again.
    Watch(commands::Watch),
    /// Print the namespace's state in the file's own form
    Observe,
    /// Print what this kernel and this caller can do, and what would hinder a pass
    ///
    /// Exits with 0 when an apply could work, 2 when something would hinder it, 1 when that could
    /// not be told.
    Doctor {
        /// The desired state that would be applied, TOML or JSON; `-` is the standard input
        file: Option<PathBuf>,
    },
    /// Print whose an object is, by what proof, and what the next pass would do to it
    ///
    /// Exits with 0 when that could be told, also of what is not there, and with 1 when not.
    Why(commands::Why),
    /// Check, print or repair the files in which it is remembered what is ours
    Journal {
        #[command(subcommand)]
        task: commands::Task,
    },
}

/// It could not be done, or could not be told.
const FAILED: u8 = 1;

fn main() -> ExitCode {
    let Cli { command, common } = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(told) => {
            // Help and version are results; clap's own exit code for usage errors, 2, means
            // "changes pending" here.
            let printed = told.print();
            let is_lost = printed.is_err_and(|error| error.kind() != ErrorKind::BrokenPipe);
            let failed = told.use_stderr() || is_lost;
            return ExitCode::from(if failed { FAILED } else { 0 });
        }
    };
    // Without a handler the signal kills the process, also in the middle of a pass. With one, a
    // write beyond the limit for the size of files (RLIMIT_FSIZE) is an error as any other (EFBIG).
    // Where there can be none, all is as it was.
    let _unhandled = signal_hook::flag::register(SIGXFSZ, Arc::default());
    let done = match command {
        Command::Plan { file } => commands::plan(&common, &file),
        Command::Apply { file } => commands::apply(&common, &file),
        Command::Watch(asked) => commands::watch(&common, &asked),
        Command::Observe => commands::observe(&common),
        Command::Doctor { file } => commands::doctor(&common, file.as_deref()),
        Command::Why(asked) => commands::why(&common, &asked),
        Command::Journal { task } => commands::journal(&common, &task),
    };
    done.unwrap_or_else(|error| {
        output::print_error(&error);
        ExitCode::from(FAILED)
    })
}

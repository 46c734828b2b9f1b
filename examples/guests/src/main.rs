//! `trueup-guests`: keeps guests of QEMU as a file declares them.

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand};
use trueup_guests::agent::{self, Options, Result};

#[derive(Parser)]
#[command(about = "Keeps guests of QEMU as a file declares them")]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the agent; guests outlive it
    Run {
        /// The file that declares the guests
        file: PathBuf,
        /// The folder of the guests and of the agent's journal
        #[arg(long)]
        state: PathBuf,
        /// The time between two passes, in milliseconds
        #[arg(long, default_value_t = 1000)]
        interval: u64,
        /// The most that a backup copies, in bytes a second; 0 for no bound
        #[arg(long, default_value_t = 0)]
        backup_speed: u64,
        /// A folder in which each QEMU writes its commands and answers to a file
        #[arg(long)]
        traces: Option<PathBuf>,
    },
    /// Prints what came of the last pass, and what waits for an approval
    Status {
        /// The folder of the guests and of the agent's journal
        #[arg(long)]
        state: PathBuf,
    },
    /// Approves an action that stops a guest or takes something from it
    Approve {
        /// The action's hash, as the status shows it
        hash: String,
        /// The folder of the guests and of the agent's journal
        #[arg(long)]
        state: PathBuf,
    },
}

fn main() -> ExitCode {
    match carry_out(Arguments::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("trueup-guests: {error}");
            ExitCode::FAILURE
        }
    }
}

fn carry_out(command: Command) -> Result<()> {
    match command {
        Command::Run { file, state, interval, backup_speed, traces } => {
            let options =
                Options { interval: Duration::from_millis(interval), backup_speed, traces };
            agent::run(&file, &state, &options)
        }
        Command::Status { state } => {
            print!("{}", agent::status_of(&state)?);
            Ok(())
        }
        Command::Approve { hash, state } => agent::approve(&state, &hash),
    }
}

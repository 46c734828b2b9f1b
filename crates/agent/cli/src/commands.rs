//! The commands, one file each, and their common steps: they read the file and the namespace of the
//! command line.

mod apply;
mod doctor;
mod graph;
mod journal;
mod observe;
mod plan;
mod watch;
mod why;
mod world;

pub(crate) use apply::apply;
pub(crate) use doctor::doctor;
pub(crate) use graph::graph;
pub(crate) use journal::{Task, journal};
pub(crate) use observe::observe;
pub(crate) use plan::plan;
pub(crate) use watch::{Watch, watch};
pub(crate) use why::{Why, why};
pub(crate) use world::{WorldTask, world};

use anyhow::{Result, bail};
use trueup_agent::{Agent, Declared};

use crate::output::Format;
use crate::{Common, output};

/// Refuses `--format ip` for a command that prints no commands.
fn refuse_ip(common: &Common, command: &str) -> Result<()> {
    if common.format == Format::Ip {
        bail!("`{command}` prints no commands: --format is text or json here");
    }
    Ok(())
}

/// Makes the agent for the command line's namespace and directory.
fn agent(common: &Common) -> Result<Agent> {
    let agent = Agent::new(common.netns.as_ref(), common.state.clone())?;
    Ok(agent.on_note(|note| output::note(note)))
}

/// Prints the file's cautions, about declarations with a risk.
fn note_cautions(declared: &Declared) {
    declared.cautions().iter().for_each(output::note);
}

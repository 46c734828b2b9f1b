//! The commands, one file each, and what they share: the file and the namespace of the command
//! line.

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

use anyhow::Result;
use trueup_agent::Agent;
use trueup_agent::Declared;
use trueup_agent::Target;

use crate::{Common, output};

/// Opens the namespace of the command line.
fn target(common: &Common) -> Result<Target> {
    Ok(Target::open(common.netns.as_ref(), common.state.clone())?)
}

/// Makes the agent of the command line.
fn agent(common: &Common) -> Result<Agent> {
    let agent = Agent::new(common.netns.as_ref(), common.state.clone())?;
    Ok(agent.on_note(|note| output::note(note)))
}

/// Notes what the author of a file should know the price of.
fn note_cautions(declared: &Declared) {
    declared.cautions().iter().for_each(output::note);
}

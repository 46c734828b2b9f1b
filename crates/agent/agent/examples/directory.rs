//! An agent with a section of its own beside routes: `[[directory]]`, files with their content.
//! Give it a file and a directory for its journal.

#[path = "directory/source.rs"]
mod source;

use std::time::Duration;

use trueup_agent::{Agent, Config};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(file), Some(state)) = (arguments.next(), arguments.next()) else {
        return Err("usage: directory FILE STATE".into());
    };
    let agent = Agent::new(None, Some(state.into()))?.with_section(source::section());
    let config = Config::default().with_interval(Duration::from_millis(200));
    let watch = agent.watch(file.as_ref(), config, |event| {
        if let Some(name) = event.name() {
            println!("{name} {}", event.json());
        }
    })?;
    Ok(watch.run()?)
}

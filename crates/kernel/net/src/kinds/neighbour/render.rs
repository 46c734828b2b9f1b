//! Neighbours in iproute2's words.

use std::fmt;

use super::{Neighbour, NeighbourState};
use crate::devices::Devices;
use crate::kinds::{Render, Words, on_or_off, or_none};
use crate::words::Name;

/// The state as `ip neighbour` takes it. One that the kernel moves begins as reachable.
fn state_name(state: NeighbourState) -> &'static str {
    match state {
        NeighbourState::Permanent => "permanent",
        NeighbourState::NoArp => "noarp",
        NeighbourState::Dynamic => "reachable",
    }
}

impl Render for Neighbour {
    const IP_OBJECT: &'static str = "neigh";

    fn write_words(
        &self,
        f: &mut fmt::Formatter<'_>,
        words: &Words<'_, Neighbour>,
        devices: &Devices,
    ) -> fmt::Result {
        let key = matches!(words, Words::Key);

        if self.proxy {
            f.write_str("proxy ")?;
        }
        write!(f, "{}", self.dst)?;
        if let Some(lladdr) = self.lladdr.filter(|_| !key) {
            write!(f, " lladdr {lladdr}")?;
        }
        write!(f, " dev {}", Name(self.dev, devices))?;
        if key {
            return Ok(());
        }
        if !self.proxy {
            let is_unresolved = self.state == NeighbourState::Dynamic && self.lladdr.is_none();
            let state = if is_unresolved { "none" } else { state_name(self.state) };
            write!(f, " nud {state}")?;
        }
        if self.router {
            f.write_str(" router")?;
        }
        if self.ext_learn {
            f.write_str(" extern_learn")?;
        }
        write!(f, " protocol {}", self.protocol)
    }

    fn field(&self, field: &str, devices: &Devices) -> Option<String> {
        let _ = devices;

        match field {
            "lladdr" => or_none(self.lladdr),
            "state" => match state_name(self.state) {
                "reachable" => Some("the kernel's own to move".to_owned()),
                name => Some(name.to_owned()),
            },
            "router" => on_or_off(self.router),
            "ext_learn" => on_or_off(self.ext_learn),
            _ => None,
        }
    }
}

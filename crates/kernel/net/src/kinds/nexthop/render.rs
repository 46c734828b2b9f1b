//! Nexthop objects in iproute2's words.

use std::fmt;

use super::{Nexthop, NexthopTarget};
use crate::devices::Devices;
use crate::kinds::route::render::Hop;
use crate::kinds::{Render, Words, words_or_none};
use crate::values::Family;

/// Where a nexthop object leads, each word after a space.
struct TargetWords<'a>(&'a NexthopTarget, &'a Devices);

impl fmt::Display for TargetWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            // A gateway of its own family: `ip nexthop` takes no other.
            NexthopTarget::One(family, hop) => {
                let family = hop.via.map_or(*family, Family::of);
                Hop(hop, family, self.1).fmt(f)
            }
            NexthopTarget::Blackhole(_) => f.write_str(" blackhole"),
            NexthopTarget::Group(members) => {
                members.iter().enumerate().try_for_each(|(at, member)| {
                    let lead = if at == 0 { " group " } else { "/" };
                    let (id, weight) = member;
                    write!(f, "{lead}{id},{weight}")
                })
            }
        }
    }
}

impl Render for Nexthop {
    const IP_OBJECT: &'static str = "nexthop";

    fn write_words(
        &self,
        f: &mut fmt::Formatter<'_>,
        words: &Words<'_, Nexthop>,
        devices: &Devices,
    ) -> fmt::Result {
        let key = matches!(words, Words::Key);

        write!(f, "id {}", self.id)?;
        if key {
            return Ok(());
        }
        write!(f, "{} proto {}", TargetWords(&self.target, devices), self.protocol)
    }

    fn field(&self, field: &str, devices: &Devices) -> Option<String> {
        match field {
            "target" => words_or_none(TargetWords(&self.target, devices)),
            _ => None,
        }
    }
}

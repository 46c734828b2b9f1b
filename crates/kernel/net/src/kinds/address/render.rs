//! Addresses in iproute2's words.

use std::fmt;
use std::net::IpAddr;

use super::{Address, AddressFlags, FOREVER};
use crate::devices::Devices;
use crate::kinds::{Render, Scope, Words, or_none, words_or_none};
use crate::values::Family;
use crate::words::{Name, Word};

/// A lifetime in seconds.
struct Lifetime(u32);

impl fmt::Display for Lifetime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            FOREVER => f.write_str("forever"),
            seconds => seconds.fmt(f),
        }
    }
}

impl Render for Address {
    const IP_OBJECT: &'static str = "addr";

    fn write_words(
        &self,
        f: &mut fmt::Formatter<'_>,
        words: &Words<'_, Address>,
        devices: &Devices,
    ) -> fmt::Result {
        let key = matches!(words, Words::Key);

        let (ip, len) = (self.address.ip(), self.address.prefix());
        match self.peer {
            None => write!(f, "{ip}/{len}")?,
            Some(peer) => write!(f, "{ip} peer {peer}/{len}")?,
        }
        write!(f, " dev {}", Name(self.dev, devices))?;
        if key {
            return Ok(());
        }
        if let Some(label) = &self.label {
            write!(f, " label {}", Word(label.as_bytes()))?;
        }
        // iproute2's own choice, `default_scope` in ip/ipaddress.c; IPv6 has none.
        let loopback = matches!(ip, IpAddr::V4(ip) if ip.is_loopback());
        let default = if loopback { Scope::HOST } else { Scope::UNIVERSE };
        if self.family() == Family::Inet && self.scope != default {
            write!(f, " scope {}", self.scope.0)?;
        }
        if let Some(broadcast) = self.broadcast {
            write!(f, " broadcast {broadcast}")?;
        }
        let (valid, preferred) = (self.lifetimes.valid, self.lifetimes.preferred);
        if (valid, preferred) != (FOREVER, FOREVER) {
            let (valid, preferred) = (Lifetime(valid), Lifetime(preferred));
            write!(f, " valid_lft {valid} preferred_lft {preferred}")?;
        }
        for (flag, name) in AddressFlags::ALL {
            if self.flags.contains(flag) {
                write!(f, " {name}")?;
            }
        }
        if self.metric != 0 {
            write!(f, " metric {}", self.metric)?;
        }
        Ok(())
    }

    fn field(&self, field: &str, devices: &Devices) -> Option<String> {
        let _ = devices;

        match field {
            "prefix length" => Some(self.address.prefix().to_string()),
            "label" => or_none(self.label.as_ref().map(|label| Word(label.as_bytes()))),
            "broadcast" => or_none(self.broadcast),
            "scope" => Some(match self.scope {
                Scope::UNIVERSE => "global".to_owned(),
                Scope::LINK => "link".to_owned(),
                Scope::HOST => "host".to_owned(),
                Scope(number) => number.to_string(),
            }),
            "peer" => or_none(self.peer),
            "valid_lft" => Some(Lifetime(self.lifetimes.valid).to_string()),
            "preferred_lft" => Some(Lifetime(self.lifetimes.preferred).to_string()),
            "metric" => Some(self.metric.to_string()),
            "flags" => {
                let set = AddressFlags::ALL.iter().filter(|(flag, _)| self.flags.contains(*flag));
                let names: Vec<&str> = set.map(|(_, name)| *name).collect();
                words_or_none(names.join(" "))
            }
            _ => None,
        }
    }
}

//! Rules in iproute2's words.

use std::fmt;

use super::{Rule, RuleAction};
use crate::devices::Devices;
use crate::kinds::{Render, Words};
use crate::values::Family;
use crate::words::Word;

/// Priority, protocol and action are always there: a delete without any selector would hit the rule
/// of the local table.
impl Render for Rule {
    const IP_OBJECT: &'static str = "rule";

    /// `ip` takes the family before the word; `ip -batch` does not.
    fn ip_option(&self) -> &'static str {
        match self.family {
            Family::Inet => "",
            Family::Inet6 => "-6 ",
        }
    }

    fn family_word(&self) -> String {
        format!("{} ", self.family)
    }

    fn write_words(
        &self,
        f: &mut fmt::Formatter<'_>,
        words: &Words<'_, Rule>,
        devices: &Devices,
    ) -> fmt::Result {
        let _ = (words, devices);

        if self.not {
            f.write_str("not ")?;
        }
        write!(f, "pref {}", self.priority)?;
        for (word, network) in [("from", self.from), ("to", self.to)] {
            if let Some(network) = network {
                write!(f, " {word} {network}")?;
            }
        }
        for (word, name) in [("iif", &self.iif), ("oif", &self.oif)] {
            if let Some(name) = name {
                write!(f, " {word} {}", Word(name.as_bytes()))?;
            }
        }
        if let Some(fw) = self.fwmark {
            write!(f, " fwmark {:#x}", fw.mark)?;
            if fw.mask != u32::MAX {
                write!(f, "/{:#x}", fw.mask)?;
            }
        }
        if self.tos != 0 {
            write!(f, " tos {:#x}", self.tos)?;
        }
        if let Some(ipproto) = self.ipproto {
            write!(f, " ipproto {ipproto}")?;
        }
        for (word, ports) in [("sport", self.sport), ("dport", self.dport)] {
            match ports {
                Some(ports) if ports.start == ports.end => write!(f, " {word} {}", ports.start)?,
                Some(ports) => write!(f, " {word} {}-{}", ports.start, ports.end)?,
                None => {}
            }
        }
        if let Some(uids) = self.uidrange {
            write!(f, " uidrange {}-{}", uids.start, uids.end)?;
        }
        if let Some(len) = self.suppress_prefixlength {
            write!(f, " suppress_prefixlength {len}")?;
        }
        if let Some(group) = self.suppress_ifgroup {
            write!(f, " suppress_ifgroup {group}")?;
        }
        write!(f, " protocol {}", self.protocol)?;
        if self.l3mdev {
            f.write_str(" l3mdev")?;
        }
        match self.action {
            RuleAction::Lookup(0) => Ok(()),
            RuleAction::Lookup(table) => write!(f, " table {table}"),
            RuleAction::Goto(target) => write!(f, " goto {target}"),
            RuleAction::Blackhole => f.write_str(" blackhole"),
            RuleAction::Unreachable => f.write_str(" unreachable"),
            RuleAction::Prohibit => f.write_str(" prohibit"),
            RuleAction::Nop => f.write_str(" nop"),
        }
    }

    fn field(&self, field: &str, devices: &Devices) -> Option<String> {
        let _ = (field, devices);
        None
    }
}

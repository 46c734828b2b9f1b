//! Lines to compare: objects and ops in iproute2's words, normalised in order and spelling, so that
//! a scenario may omit defaults.

mod expected;

use std::fmt;

use super::numbers::{PROTOCOLS, SCOPES, TABLES};
pub(super) use expected::Expected;
use trueup_testkit::Kind;

/// An object's words, normalised: pairs, and flags without a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Phrase {
    /// The words outside pairs: the verb, a route's type, the object's name or prefix.
    head: Vec<String>,
    pairs: Vec<(String, String)>,
}

/// Words that precede the pairs, in addition to the first word.
const HEADS: [&str; 30] = [
    "route",
    "addr",
    "link",
    "neigh",
    "rule",
    "nexthop",
    "add",
    "replace",
    "append",
    "del",
    "set",
    "name",
    "dev",
    "-6",
    "inet",
    "inet6",
    "unicast",
    "local",
    "broadcast",
    "anycast",
    "multicast",
    "blackhole",
    "unreachable",
    "prohibit",
    "throw",
    "not",
    "proxy",
    "deleted",
    "address",
    "neighbour",
];

/// Words without a value.
const FLAGS: [&str; 28] = [
    "onlink",
    "linkdown",
    "dead",
    "offload",
    "trap",
    "pervasive",
    "router",
    "extern_learn",
    "proxy",
    "up",
    "down",
    "nodad",
    "noprefixroute",
    "optimistic",
    "home",
    "mngtmpaddr",
    "autojoin",
    "permanent",
    "tentative",
    "dadfailed",
    "deprecated",
    "secondary",
    "not",
    "l3mdev",
    "blackhole",
    "unreachable",
    "prohibit",
    "nop",
];

/// The order of pairs; others follow alphabetically, next hops last.
const ORDER: [&str; 13] = [
    "type", "pref", "from", "to", "tos", "nhid", "via", "lladdr", "dev", "proto", "metric",
    "table", "scope",
];

/// Returns the text with single spaces between words.
pub(super) fn squeeze(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns a word and its value in canonical spelling.
pub(super) fn pair(word: &str, value: &str) -> (String, String) {
    let word = match word {
        "protocol" => "proto",
        "lookup" => "table",
        "preference" | "priority" => "pref",
        "brd" => "broadcast",
        other => other,
    };
    let named = |names: &[(&str, u32)]| {
        let number = names
            .iter()
            .find(|(name, _)| *name == value)
            .map(|(_, n)| *n)
            .or_else(|| value.parse().ok());
        let name = number.and_then(|n| names.iter().find(|(_, number)| *number == n));
        name.map(|(name, _)| (*name).to_owned())
    };
    let value = match word {
        "proto" => named(PROTOCOLS),
        "table" => named(TABLES),
        "scope" => named(SCOPES),
        "tos" => {
            let hex = value.trim_start_matches("0x");
            u8::from_str_radix(hex, 16).ok().map(|tos| format!("{tos:#x}"))
        }
        _ => None,
    }
    .unwrap_or_else(|| value.to_owned());
    (word.to_owned(), value)
}

impl Phrase {
    /// Parses any text.
    pub(super) fn new(text: &str) -> Phrase {
        let mut phrase = Phrase::default();
        if text.starts_with("link ") {
            // An op on a link stays in its written order: each kind has its own grammar.
            phrase.head = text.split_whitespace().map(str::to_owned).collect();
            return phrase;
        }
        let mut words = text.split_whitespace().peekable();
        while let Some(word) = words.peek() {
            let is_name = !HEADS.contains(word);
            // A rule or a nexthop has no name.
            let is_pair = matches!(*word, "pref" | "id" | "preference" | "priority" | "lookup");
            if is_pair {
                break;
            }
            phrase.head.push(host_prefix(word));
            words.next();
            if is_name {
                break;
            }
        }
        let mut hops = Vec::new();
        while let Some(word) = words.next() {
            if word == "nexthop" {
                let mut hop = Vec::new();
                while let Some(
                    word @ ("via" | "dev" | "weight" | "onlink" | "linkdown" | "dead" | "inet"
                    | "inet6"),
                ) = words.peek().copied()
                {
                    words.next();
                    if matches!(word, "via" | "dev" | "weight") {
                        let value = words.next().unwrap_or_default();
                        if (word, value) != ("weight", "1") {
                            hop.push(format!("{word} {value}"));
                        }
                    } else if word != "inet" && word != "inet6" {
                        hop.push(word.to_owned());
                    }
                }
                hops.push(hop.join(" "));
            } else if FLAGS.contains(&word) {
                phrase.pairs.push((word.to_owned(), String::new()));
            } else if word == "via" {
                let _family = words.next_if(|word| matches!(*word, "inet" | "inet6"));
                phrase.pairs.push(pair(word, words.next().unwrap_or_default()));
            } else {
                phrase.pairs.push(pair(word, words.next().unwrap_or_default()));
            }
        }
        let rank =
            |word: &str| ORDER.iter().position(|known| *known == word).unwrap_or(ORDER.len());
        phrase.pairs.sort_by(|(a, _), (b, _)| (rank(a), a).cmp(&(rank(b), b)));
        // Their order is significant.
        phrase.pairs.extend(hops.into_iter().map(|hop| ("nexthop".to_owned(), hop)));
        phrase
    }

    /// Returns the value of a word; `None` if it is absent.
    pub(super) fn value(&self, word: &str) -> Option<&str> {
        let found = self.pairs.iter().find(|(known, _)| known == word);
        found.map(|(_, value)| value.as_str())
    }

    /// Adds a default pair, unless the word is present.
    #[must_use]
    pub(super) fn or(self, word: &str, value: &str) -> Phrase {
        if self.value(word).is_some() {
            return self;
        }
        Phrase::new(&format!("{self} {word} {value}"))
    }

    /// Removes the marker if it is this one or 0.
    #[must_use]
    pub(super) fn unmarked(mut self, marker: u8) -> Phrase {
        let [ours, none] = [marker, 0].map(|protocol| pair("proto", &protocol.to_string()));
        self.pairs.retain(|pair| *pair != ours && *pair != none);
        self
    }

    /// Returns the kind of object; `None` unless the first words name it.
    fn kind(&self) -> Option<Kind> {
        let head = self.head.iter().find(|word| *word != "-6")?;
        Some(match head.as_str() {
            "addr" | "address" => Kind::Address,
            "neigh" | "neighbour" => Kind::Neighbour,
            "route" => Kind::Route,
            "rule" => Kind::Rule,
            "link" => Kind::Link,
            _ => return None,
        })
    }

    /// Returns true if it contains all words of `other`.
    pub(super) fn says(&self, other: &Phrase) -> bool {
        other.head.iter().all(|word| self.head.contains(word))
            && other.pairs.iter().all(|pair| self.pairs.contains(pair))
    }
}

/// Completes `10.0.0.1` to `10.0.0.1/32`, as a route's name. Other words change in the same way on
/// both sides, so this does no harm.
fn host_prefix(word: &str) -> String {
    match word.parse::<std::net::IpAddr>() {
        Ok(_) => word.to_owned(),
        Err(_) => word
            .strip_suffix("/32")
            .filter(|address| address.parse::<std::net::Ipv4Addr>().is_ok())
            .or_else(|| word.strip_suffix("/128"))
            .unwrap_or(match word {
                "0.0.0.0/0" | "::/0" => "default",
                word => word,
            })
            .to_owned(),
    }
}

impl fmt::Display for Phrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.head.join(" "))?;
        for (at, (word, value)) in self.pairs.iter().enumerate() {
            let space = if at == 0 && self.head.is_empty() { "" } else { " " };
            write!(f, "{space}{word}")?;
            if !value.is_empty() {
                write!(f, " {value}")?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::expected::op;
    use super::*;

    #[test]
    fn order_names_and_what_goes_without_saying_do_not_matter() {
        let one = op("route add 10.2.0.0/16 via 10.1.0.9 dev v0 proto 116 metric 100 table 254");
        assert_eq!(one, op("route add 10.2.0.0/16 metric 100 dev v0 via 10.1.0.9"));
        assert_ne!(one, op("route add 10.2.0.0/16 metric 101 dev v0 via 10.1.0.9"));
        assert_ne!(one, op("route del 10.2.0.0/16 metric 100 dev v0 via 10.1.0.9"));
        assert_eq!(Phrase::new("10.0.0.1/32 dev v0"), Phrase::new("10.0.0.1 dev v0"));
        assert_ne!(Phrase::new("10.0.0.1/24 dev v0"), Phrase::new("10.0.0.1 dev v0"));
        assert_eq!(
            Phrase::new("::/0 via fd00::1 scope link"),
            Phrase::new("default scope 253 via fd00::1")
        );
        // The order of next hops matters.
        let legs = |one: &str, other: &str| {
            Phrase::new(&format!("default nexthop via {one} nexthop via {other}"))
        };
        assert_ne!(legs("10.0.0.1", "10.0.0.2"), legs("10.0.0.2", "10.0.0.1"));
        assert_eq!(legs("10.0.0.1 weight 1", "10.0.0.2"), legs("10.0.0.1", "10.0.0.2"));
    }
}

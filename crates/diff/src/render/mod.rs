//! Ops as people and other programs read them: iproute2 command lines, marked text, JSON.
//!
//! - [`Op::command`] is what `ip` would be told to do the same; [`Plan::batch`] are the lines for
//!   `ip -batch -`.
//! - [`Plan::text`] marks each op with `+`, `~` or `-`, and with `!` what is not carried out.
//! - With the feature `serde`, `OpRecord`, `ConflictRecord` and `PlanRecord` are the JSON.
//! - [`snapshot_hash`] names the state that a plan was made from.
//!
//! What is printed is for reading and for `ip`; nothing here is ever parsed again. Names, aliases
//! and the like come from others, so what could mean something else to a terminal or to `ip -batch`
//! is shown as U+FFFD: bytes that are not UTF-8, control characters, and `#`, which begins a comment
//! even inside quotes. Such a command fails instead of hitting another object.

mod command;
#[cfg(feature = "serde")]
mod json;
mod link;
mod reason;
mod route;
mod snapshot;
mod text;

use std::fmt;

use crate::model::Dev;
use crate::plan::{Object, Op, Plan};
use crate::resolve::Devices;

#[cfg(feature = "serde")]
pub use json::{ConflictRecord, OpRecord, PlanRecord};
pub use snapshot::{SnapshotHash, snapshot_hash};
pub use text::{Batch, Text};

impl Op {
    /// The iproute2 command that does the same, without the leading `ip`:
    /// `route add 10.2.0.0/16 via 10.1.0.9 dev br0 proto 116 metric 100 table 254`. `devices` are
    /// those of the plan. An op that is held has a command all the same.
    ///
    /// Checked against iproute2 6.1, whose words do not reach everything:
    ///
    /// - an address bears no marker: `proto` came to `ip address` with 6.4;
    /// - `rto_min` is always locked; feature bits but ECN, and a lock on a metric that is not set,
    ///   cannot be said;
    /// - a rule of IPv6 begins with `-6`, which `ip` takes and `ip -batch` does not: see
    ///   [`Plan::batch`].
    pub fn command(&self, devices: &Devices) -> String {
        command::Command(self, devices).to_string()
    }

    /// Why the op is there, and why it is not carried out, if so. An update names every field
    /// that differs with its former value: `nexthops: was via 10.1.0.8 dev br0`.
    pub fn reason_text(&self, devices: &Devices) -> String {
        reason::ReasonText(self, devices).to_string()
    }

    /// The op on one line, for people: `~ route 10.2.0.0/16 via 10.1.0.9   (nexthops: was via ...)`.
    pub fn text(&self, devices: &Devices) -> String {
        text::OpText(self, devices).to_string()
    }
}

impl Object {
    /// The object in iproute2's words, without its kind and without a verb:
    /// `10.2.0.0/16 via 10.1.0.9 dev br0 proto 116 metric 100 table 254`.
    pub fn spec(&self, devices: &Devices) -> String {
        command::Spec(self, devices).to_string()
    }
}

impl Plan {
    /// The plan for people: a line an op, in order, then one a conflict.
    ///
    /// ```text
    /// + route 10.2.0.0/16 via 10.1.0.9 dev br0 proto 116 metric 100 table 254   (missing)
    /// ~ link v0 master br0   (master: was none)
    /// - neigh 10.1.0.9 dev br0   (ours, no longer desired)
    /// ! - link br0   (ours, no longer desired; held: would take along addr 10.9.0.1/24 dev br0)
    /// ! route 10.3.0.0/16 via 10.1.0.9 dev br0 proto 116 table 254   (conflict: foreign 10.3.0.0/16 via 10.1.0.1 dev br0 proto 4 table 254)
    /// ```
    pub fn text(&self) -> Text<'_> {
        Text(self)
    }

    /// The commands for `ip -batch -`, a line an op, in order but for the rules of IPv6, which come
    /// last. What is held, what waits for it, and conflicts are comments.
    ///
    /// `ip -batch` has no word for the family of a rule: it refuses a line that begins with `-6`,
    /// and stops there unless told `-force`. Those lines, without the `-6`, are for `ip -6 -batch -`.
    pub fn batch(&self) -> Batch<'_> {
        Batch(self)
    }
}

/// A word of a command line, quoted where `ip -batch` would otherwise split it.
struct Word<'a>(&'a [u8]);

impl fmt::Display for Word<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = |b: &u8| b.is_ascii_graphic() && !b"#\"'\\".contains(b);
        if !self.0.is_empty() && self.0.iter().all(plain) {
            return f.write_str(&String::from_utf8_lossy(self.0));
        }
        let lossy = String::from_utf8_lossy(self.0);
        // A word cannot hold both quotes: `ip -batch` knows no escape.
        let both = lossy.contains('"') && lossy.contains('\'');
        let quote = if lossy.contains('"') { '\'' } else { '"' };
        let shown = |c: char| {
            let lost = c.is_control() || c == '#' || (both && c == '\'');
            if lost { char::REPLACEMENT_CHARACTER } else { c }
        };
        let text: String = lossy.chars().map(shown).collect();
        write!(f, "{quote}{text}{quote}")
    }
}

/// A device by name; one without a known name as iproute2 writes a bare index: `if7`.
struct Name<'a>(Dev, &'a Devices);

impl fmt::Display for Name<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.1.name(self.0) {
            Some(name) => Word(name.as_bytes()).fmt(f),
            None => write!(f, "{:?}", self.0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_is_one_word_to_ip_batch_and_never_another() {
        let word = |bytes: &[u8]| Word(bytes).to_string();
        assert_eq!(word(b"br0"), "br0");
        assert_eq!(word(b""), "\"\"");
        assert_eq!(word(b"two words"), "\"two words\"");
        assert_eq!(word(b"it's"), "\"it's\"");
        assert_eq!(word(b"say \"hi\""), "'say \"hi\"'");
        assert_eq!(word(b"'\""), "'\u{fffd}\"'");
        assert_eq!(
            word(b"x\nlink del dev eth0"),
            "\"x\u{fffd}link del dev eth0\""
        );
        assert_eq!(
            word(b"eth0#"),
            "\"eth0\u{fffd}\"",
            "not the name in front of a comment"
        );
        assert_eq!(word(b"end\\"), "\"end\\\"", "not a continued line");
        assert_eq!(word(&[b'a', 0xff]), "\"a\u{fffd}\"");
    }
}

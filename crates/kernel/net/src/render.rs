//! Renders ops for people and programs: as iproute2 command lines, marked text, and JSON.
//!
//! - [`Op::command`] is the equivalent command of `ip`; [`Plan::batch`] gives the lines for
//!   `ip -batch -`.
//! - [`Plan::text`] marks each op with `+`, `~` or `-`, or with `!` if it is not carried out.
//! - With the feature `serde`, `Plan::record` and `Op::record` give the JSON.
//! - [`snapshot_hash`] identifies the state from which a plan was made.
//!
//! The output is for readers and for `ip`. Nothing here parses it again. Names, aliases and other
//! words come from other writers. If `ip -batch` would misread a word, or a terminal would obey it,
//! it is escaped as in bash: `$'br\xff'`. [`Plan::batch`] writes a command with such a word as a
//! comment.

use std::fmt;

use crate::devices::Devices;
use crate::kinds::{Action, Difference, FOREVER, Kinds, Lifetimes, Object, Render as _};
#[cfg(feature = "serde")]
use crate::observed::Observed;
use crate::op::{Hold, Op, Reason};
use crate::plan::{Conflict, Plan};
use crate::with_object;
pub use crate::words::{clean, is_harmful};
pub use snapshot::snapshot_hash;
use text::{OpWords, ip_object};

#[cfg(feature = "serde")]
mod json;
mod snapshot;
mod text;

impl Op {
    /// Returns the equivalent iproute2 command without the leading `ip`: `route add 10.2.0.0/16 via
    /// 10.1.0.9 dev br0 proto 116 metric 100 table 254`. `devices` must be the plan's. A held op
    /// has a command too.
    ///
    /// Checked against iproute2 6.1, which cannot express everything:
    ///
    /// - An address has no marker: `ip address` has had `proto` since 6.4.
    /// - `rto_min` is always locked, even for another writer's row without the lock. Feature bits
    ///   other than ECN, and a lock on a metric that is not set, cannot be expressed.
    /// - An IPv6 rule begins with `-6`, which `ip` accepts and `ip -batch` does not: see
    ///   [`Plan::batch`].
    pub fn command(&self, devices: &Devices) -> String {
        with_object!(&self.object, object => object.own_command(self.action).unwrap_or_else(|| {
            let verb = match self.reason {
                Reason::Beside => format!("{} append", ip_object(&self.object)),
                _ => object.verb(self.action),
            };
            format!("{}{verb} {}", object.ip_option(), OpWords(self, devices))
        }))
    }

    /// Returns the equivalent lines for `ip -batch -`, as far as it can express them (see
    /// [`Plan::batch`]), held or not.
    pub fn batch(&self, devices: &Devices) -> impl fmt::Display {
        text::Said::of(self, devices)
    }

    /// Returns the op's reason, and the reason for holding it if there is one. An update names
    /// every field that differs with its former value: `nexthops: was via 10.1.0.8 dev br0`.
    pub fn reason_text(&self, devices: &Devices) -> String {
        let reason = match (self.reason, self.action) {
            (Reason::Missing, Action::Update) => "sets up what was just created",
            (Reason::Missing, _) => "missing",
            (Reason::Beside, _) => "missing, beside a router advertisement's",
            (Reason::Differs, _) => "",
            (Reason::Recreated, Action::Delete) => "makes room: cannot be changed in place",
            (Reason::Recreated, _) => "created anew: cannot be changed in place",
            (Reason::Excluded, _) => "not declared, on a link of declared ones only",
            (Reason::Step, _) => "on the way: ",
            (Reason::Undesired, _) => "ours, no longer desired",
            (Reason::Orphan, _) => "orphan: ours, and not declared",
            (Reason::Overridden, _) => "overridden: ",
            (Reason::Restored, _) => "restored: no longer desired",
        };
        let mut text = reason.to_owned();
        if matches!(self.reason, Reason::Differs | Reason::Step | Reason::Overridden) {
            text += &differences(self, devices);
        }
        let held = match &self.hold {
            None => return text,
            Some(Hold::NotCreatable) => "must exist, netlink cannot create it".to_owned(),
            Some(Hold::NameTaken(name)) => format!("another link is {name}"),
            Some(Hold::Collateral(object)) => {
                format!("would take along {} {}", ip_object(object), object.spec(devices))
            }
            Some(Hold::Forwarding(entry)) => {
                let dev = match devices.name(entry.dev) {
                    Some(name) => format!(" dev {name}"),
                    None => String::new(),
                };
                format!("would take along forwarding entry {}{dev}", entry.lladdr)
            }
            Some(hold) => hold.to_string(),
        };
        text + "; held: " + &held
    }

    /// Returns the op on one line, for people:
    /// `~ route 10.2.0.0/16 via 10.1.0.9   (nexthops: was via ...)`.
    pub fn text(&self, devices: &Devices) -> String {
        let mark = match self.action {
            Action::Create => '+',
            Action::Update => '~',
            Action::Delete => '-',
        };
        let family = with_object!(&self.object, object => object.family_word());
        let (kind, words) = (ip_object(&self.object), OpWords(self, devices));
        format!("{mark} {kind} {family}{words}   ({})", self.reason_text(devices))
    }
}

impl Object {
    /// Returns the object in iproute2's words, without its kind and without a verb: `10.2.0.0/16
    /// via 10.1.0.9 dev br0 proto 116 metric 100 table 254`.
    pub fn spec(&self, devices: &Devices) -> String {
        text::Spec(self, devices).to_string()
    }

    /// Returns the value of a field, by the name in [`Difference::field`].
    fn field(&self, field: &str, devices: &Devices) -> Option<String> {
        with_object!(self, object => object.field(field, devices))
    }

    /// Returns the words for this desired object and for the stored one. A link's include only
    /// differing fields.
    pub fn beside(&self, stored: &Object, devices: &Devices) -> (String, String) {
        let (Object::Link(desired), Object::Link(stored)) = (self, stored) else {
            return (self.spec(devices), stored.spec(devices));
        };
        desired.differing_words(stored, devices)
    }
}

impl Plan {
    /// Returns the plan for people: a line for each op, in order, then one for each conflict.
    ///
    /// ```text
    /// + route 10.2.0.0/16 via 10.1.0.9 dev br0 proto 116 metric 100 table 254   (missing)
    /// ~ link v0 master br0   (master: was none)
    /// - neigh 10.1.0.9 dev br0   (ours, no longer desired)
    /// ! - link br0   (ours, no longer desired; held: would take along addr 10.9.0.1/24 dev br0)
    /// ! route 10.3.0.0/16 via 10.1.0.9 dev br0 proto 116 table 254   (conflict: foreign
    /// 10.3.0.0/16 via 10.1.0.1 dev br0 proto 4 table 254; nexthops: is via 10.1.0.1 dev br0,
    /// declared via 10.1.0.9 dev br0; declare what is there, or write on_conflict = "take")
    /// ```
    pub fn text(&self) -> impl fmt::Display {
        text::Text(self)
    }

    /// Returns the commands for `ip -batch -`: a line for each op, in order, but IPv6 rules last.
    /// Comments replace held ops, ops with a word that `ip -batch` cannot read, ops waiting for
    /// either, and conflicts. An alias that it cannot read is left out of its command, with a
    /// comment, and nothing waits for it.
    ///
    /// `ip -batch` has no word for a rule's family. It refuses a line that begins with `-6`, and
    /// stops there without `-force`. Those lines, without the `-6`, are for `ip -6 -batch -`.
    pub fn batch(&self) -> impl fmt::Display {
        text::BatchLines(self)
    }

    /// Returns the JSON of the plan and of the state from which it was made: `{ "ops": […],
    /// "conflicts": […], "adopted": […], "notices": ["…"], "snapshot": "<hash>" }`.
    ///
    /// Records are made one at a time while they are serialized, so a plan of any length needs no
    /// second copy.
    #[cfg(feature = "serde")]
    pub fn record(&self, observed: &Observed) -> impl serde::Serialize {
        json::PlanRecord { plan: self, snapshot: snapshot_hash(observed) }
    }
}

/// Returns every field that differs, with its former value.
fn differences(op: &Op, devices: &Devices) -> String {
    let Some(was) = op.was() else {
        return "differs".to_owned();
    };
    let differing = op.object.differences(&was).into_iter();
    let fields = differing.map(|Difference { field, .. }| match was.field(field, devices) {
        Some(former) => format!("{field}: was {former}"),
        None => field.to_owned(),
    });
    fields.collect::<Vec<_>>().join("; ")
}

impl Conflict {
    /// Returns every field in which the foreign object differs from the declared one. An open field
    /// never differs.
    pub fn differences(&self) -> Vec<Difference> {
        self.meant().differences(&self.foreign)
    }

    /// Returns the foreign object, the fields that differ, and the remedy: `foreign 10.3.0.0/16 via
    /// 10.1.0.8 dev br0 proto 4 table 254; nexthops: is via 10.1.0.8 dev br0, declared via 10.1.0.9
    /// dev br0; declare what is there, or write on_conflict = "take"`. The text stays the same
    /// until a writer changes the object, since it omits the rest of a lifetime.
    pub fn text(&self, devices: &Devices) -> String {
        format!("foreign {}", self.foreign_text(devices))
    }

    /// Returns the same text without the first word.
    pub fn foreign_text(&self, devices: &Devices) -> String {
        let (meant, foreign) = (self.meant(), &self.foreign);
        let mut text = without_countdown(foreign).spec(devices);
        if self.is_in_front {
            text += "; in front of ours";
        }
        for Difference { field, .. } in self.differences() {
            let [is, lasting] = [foreign, &foreign.lasting()].map(|it| it.field(field, devices));
            text += &match is {
                Some(value) if lasting.as_ref() == Some(&value) => format!("; {field}: is {value}"),
                _ => format!("; {field}: is another"),
            };
            if let Some(declared) = meant.field(field, devices) {
                text += &format!(", declared {declared}");
            }
        }
        text + "; " + self.remedy()
    }

    fn meant(&self) -> Object {
        self.desired.with_open_of(&self.foreign)
    }

    fn remedy(&self) -> &'static str {
        let differences = self.differences();
        let mut fields = differences.iter();
        if differences.is_empty() {
            "leave the key to the other writer, or remove all but one"
        } else if self.is_in_front {
            "have the other writer remove it, or declare another metric: the first on a key is used"
        } else if self.foreign.is_kernels_own(Kinds::NONE) {
            "declare what the kernel has made, or leave it out"
        } else if fields.all(|field| field.in_place) {
            "declare what is there, or write on_conflict = \"take\""
        } else {
            "declare what is there, or have the other writer remove it: the kernel cannot change it"
        }
    }
}

/// Returns an object without finite lifetimes.
fn without_countdown(object: &Object) -> Object {
    match object {
        Object::Address(address) if address.lifetimes.valid != FOREVER => {
            address.clone().with_lifetimes(Lifetimes::default()).into()
        }
        other => other.clone(),
    }
}

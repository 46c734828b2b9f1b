//! Renders whole plans, for people and for `ip -batch`.

use std::fmt;

use crate::devices::Devices;
use crate::kinds::{Action, Link, Object, Render, Words};
use crate::op::Op;
use crate::plan::Plan;
use crate::with_object;
use crate::words::{Word, is_sayable};

/// A plan for people. See [`Plan::text`].
pub(super) struct Text<'a>(pub(super) &'a Plan);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, op) in self.0.ops.iter().enumerate() {
            let held = if self.0.hold(at).is_some() { "! " } else { "" };
            writeln!(f, "{held}{}", op.text(&self.0.devices))?;
        }
        adopted(f, self.0, '*')?;
        conflicts(f, self.0, '!')?;
        notices(f, self.0, '*')
    }
}

fn conflicts(f: &mut fmt::Formatter<'_>, plan: &Plan, mark: char) -> fmt::Result {
    for conflict in &plan.conflicts {
        let kind = ip_object(&conflict.desired);
        let desired = Spec(&conflict.desired, &plan.devices);
        let foreign = conflict.text(&plan.devices);
        writeln!(f, "{mark} {kind} {desired}   (conflict: {foreign})")?;
    }
    Ok(())
}

fn notices(f: &mut fmt::Formatter<'_>, plan: &Plan, mark: char) -> fmt::Result {
    for notice in &plan.notices {
        writeln!(f, "{mark} {}", notice.text(&plan.devices))?;
    }
    Ok(())
}

fn adopted(f: &mut fmt::Formatter<'_>, plan: &Plan, mark: char) -> fmt::Result {
    for object in &plan.adopted {
        let (kind, spec) = (ip_object(object), Spec(object, &plan.devices));
        writeln!(f, "{mark} {kind} {spec}   (adopted: ours from now on, as it is)")?;
    }
    Ok(())
}

/// Lines for `ip -batch -`. See [`Plan::batch`].
pub(super) struct BatchLines<'a>(pub(super) &'a Plan);

impl fmt::Display for BatchLines<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { ops, devices, .. } = self.0;
        // The reason for an op to wait, and the reason for others that need it.
        let mut waits: Vec<Option<&str>> = Vec::with_capacity(ops.len());
        let mut blocked: Vec<Option<&str>> = Vec::with_capacity(ops.len());
        for (at, op) in ops.iter().enumerate() {
            waits.push(self.0.needs(at).find_map(|need| blocked[need]));
            let own = if self.0.hold(at).is_some() {
                Some("waits for what is held")
            } else if matches!(Said::of(op, devices), Said::Not(_)) {
                Some("waits for what `ip -batch` cannot be given")
            } else {
                None
            };
            blocked.push(own.or(waits[at]));
        }
        // `ip -batch` stops at lines that it cannot express, so these come last.
        for last in [false, true] {
            let is_of_part =
                |op: &Op| with_object!(&op.object, object => object.ip_option()).is_empty() != last;
            for (at, op) in ops.iter().enumerate().filter(|(_, op)| is_of_part(op)) {
                if self.0.hold(at).is_some() {
                    let (command, reason) = (op.command(devices), op.reason_text(devices));
                    writeln!(f, "# {command}   ({reason})")?;
                } else if let Some(why) = waits[at] {
                    writeln!(f, "# {}   ({why})", op.command(devices))?;
                } else {
                    Said::of(op, devices).fmt(f)?;
                }
            }
        }
        adopted(f, self.0, '#')?;
        conflicts(f, self.0, '#')?;
        notices(f, self.0, '#')
    }
}

/// An op's command, as far as `ip -batch` can express it.
pub(super) enum Said {
    Whole(String),
    /// The whole command, and the command without the alias if anything is left of it.
    ButTheAlias(String, Option<String>),
    Not(String),
}

impl Said {
    pub(super) fn of(op: &Op, devices: &Devices) -> Said {
        let command = op.command(devices);
        if is_sayable(&command) {
            return Said::Whole(command);
        }
        let Object::Link(link) = &op.object else {
            return Said::Not(command);
        };
        // Nothing depends on an alias.
        let nothing = format!("link set dev {}", Word(link.name.as_bytes()));
        let mut unnamed = op.clone();
        unnamed.object = Link { alias: None, ..Link::clone(link) }.into();
        let rest = unnamed.command(devices);
        if is_sayable(&rest) {
            Said::ButTheAlias(command, (rest != nothing).then_some(rest))
        } else {
            Said::Not(command)
        }
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (comment, command) = match self {
            Said::Whole(command) => (None, Some(command)),
            Said::ButTheAlias(command, rest) => (Some(command), rest.as_ref()),
            Said::Not(command) => (Some(command), None),
        };
        if let Some(comment) = comment {
            writeln!(f, "# {comment}   (`ip -batch` cannot be given $'...')")?;
        }
        command.map_or(Ok(()), |command| writeln!(f, "{command}"))
    }
}

/// Returns iproute2's word for an object's kind.
pub(super) fn ip_object(object: &Object) -> &'static str {
    with_object!(object, _it: K => K::IP_OBJECT)
}

/// Writes the words after an op's verb: the whole object, the key for a delete, the changed fields
/// for a link's update.
pub(super) struct OpWords<'a>(pub(super) &'a Op, pub(super) &'a Devices);

impl fmt::Display for OpWords<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OpWords(op, devices) = *self;
        with_object!(&op.object, object: K => {
            let was = op.was();
            let former = was.as_deref().and_then(|was| <&K>::try_from(was).ok());
            let words = match op.action {
                Action::Create => Words::Create,
                Action::Update => Words::Update(former),
                Action::Delete => Words::Key,
            };
            object.write_words(f, &words, devices)
        })
    }
}

/// Writes a whole object. A rule's family, which its prefixes may not show, comes first.
pub(super) struct Spec<'a>(pub(super) &'a Object, pub(super) &'a Devices);

impl fmt::Display for Spec<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Spec(object, devices) = *self;
        with_object!(object, object => {
            f.write_str(&object.family_word())?;
            object.write_words(f, &Words::All, devices)
        })
    }
}

//! Whole plans: for people, and for `ip -batch`.

use std::fmt;

use super::command::{Command, Spec, Words, word};
use super::reason::ReasonText;
use crate::model::Family;
use crate::plan::{Action, Object, Op, Plan};
use crate::resolve::Devices;

/// A plan for people; see [`Plan::text`].
#[derive(Clone, Copy, Debug)]
pub struct Text<'a>(pub(super) &'a Plan);

impl fmt::Display for Text<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for op in &self.0.ops {
            let held = if op.hold.is_some() { "! " } else { "" };
            writeln!(f, "{held}{}", OpText(op, &self.0.devices))?;
        }
        adopted(f, self.0, '*')?;
        conflicts(f, self.0, '!')
    }
}

/// One op for people; see [`Op::text`].
pub(super) struct OpText<'a>(pub(super) &'a Op, pub(super) &'a Devices);

impl fmt::Display for OpText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let OpText(op, devices) = *self;
        let (kind, words) = (word(op.object.kind()), Words(op, devices));
        let reason = ReasonText(op, devices);
        write!(f, "{} {kind} {}{words}   ({reason})", mark(op), family(op))
    }
}

fn conflicts(f: &mut fmt::Formatter<'_>, plan: &Plan, mark: char) -> fmt::Result {
    for conflict in &plan.conflicts {
        let kind = word(conflict.desired.kind());
        let desired = Spec(&conflict.desired, &plan.devices);
        let foreign = Spec(&conflict.foreign, &plan.devices);
        writeln!(f, "{mark} {kind} {desired}   (conflict: foreign {foreign})")?;
    }
    Ok(())
}

fn adopted(f: &mut fmt::Formatter<'_>, plan: &Plan, mark: char) -> fmt::Result {
    for object in &plan.adopted {
        let (kind, spec) = (word(object.kind()), Spec(object, &plan.devices));
        writeln!(
            f,
            "{mark} {kind} {spec}   (adopted: ours from now on, as it is)"
        )?;
    }
    Ok(())
}

/// The family of a rule, which no prefix need tell.
fn family(op: &Op) -> String {
    match &op.object {
        Object::Rule(rule) => format!("{} ", rule.family),
        _ => String::new(),
    }
}

fn mark(op: &Op) -> char {
    match op.action {
        Action::Create => '+',
        Action::Update => '~',
        Action::Delete => '-',
    }
}

/// Lines for `ip -batch -`; see [`Plan::batch`].
#[derive(Clone, Copy, Debug)]
pub struct Batch<'a>(pub(super) &'a Plan);

impl fmt::Display for Batch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Plan { ops, devices, .. } = self.0;
        let mut waits = Vec::with_capacity(ops.len());
        for (at, op) in ops.iter().enumerate() {
            let needs_held = self.0.needs(at).any(|need| waits[need]);
            waits.push(op.hold.is_some() || needs_held);
        }
        // What `ip -batch` has no word for stops it, so that comes last.
        let unsaid =
            |op: &Op| matches!(&op.object, Object::Rule(rule) if rule.family == Family::Inet6);
        for last in [false, true] {
            for (op, waits) in ops.iter().zip(&waits).filter(|(op, _)| unsaid(op) == last) {
                let command = Command(op, devices);
                if op.hold.is_some() {
                    writeln!(f, "# {command}   ({})", ReasonText(op, devices))?;
                } else if *waits {
                    writeln!(f, "# {command}   (waits for what is held)")?;
                } else {
                    writeln!(f, "{command}")?;
                }
            }
        }
        adopted(f, self.0, '#')?;
        conflicts(f, self.0, '#')
    }
}

//! The batches of a run: sent, answered, echoed.

use trueup_net::{Action, Object, ObjectKind as _, Op, Route, each_kind};
use trueup_netlink::codec::KindCodec as _;
use trueup_netlink::wire::{Message, NLM_F_EXCL};
use trueup_netlink::{Answer, Error};
use trueup_reconcile::ErrorClass;

use crate::outcome::{Outcome, failed, refused};
use crate::run::Step;
use crate::run::{Run, stopped};

impl Run<'_> {
    /// Returns true if no more ops are sent. Call it before each batch.
    pub(crate) fn is_stopped(&mut self) -> bool {
        self.stopped = self.stopped || !(self.go_on)();
        self.stopped
    }

    /// Sends the current batch and records the outcomes of its ops.
    pub(crate) fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        if self.is_stopped() {
            self.batch.clear();
            // The first message of an op with two may be done.
            for (at, _) in self.sent.drain(..) {
                if self.outcomes[at].as_ref().is_none_or(Outcome::is_applied) {
                    self.outcomes[at] = Some(stopped());
                }
            }
            return;
        }
        let answers = match self.send() {
            Ok(answers) => answers,
            Err(error) => {
                self.batch.clear();
                let failure = failed(ErrorClass::Unknown, error);
                for (at, _) in self.sent.drain(..) {
                    self.outcomes[at] = Some(failure.clone());
                    self.touched[at] = true;
                }
                return;
            }
        };
        let mut sent = std::mem::take(&mut self.sent);
        for ((at, step), answer) in sent.drain(..).zip(answers) {
            self.note_answer(at, step, answer);
        }
        self.sent = sent;
    }

    /// Sends the current batch, and records the echoes if they are wanted.
    fn send(&mut self) -> Result<Vec<Answer>, Error> {
        let Some(echoed) = &mut self.echoed else {
            return self.socket.send_batch(&mut self.batch);
        };
        let (sent, ops, old_deleted) = (&self.sent, &self.plan.ops, &mut self.old_deleted);
        self.socket.send_batch_echoed(&mut self.batch, |index, message| {
            let (Some(object), Some((at, step))) = (echoed_object(&message), sent.get(index))
            else {
                return;
            };
            // No other route was on the key.
            let is_alone = message.header.flags & NLM_F_EXCL != 0;
            match step {
                Step::RollBack => {}
                Step::DeleteOld => {
                    if matches!(&object, Object::Route(route) if is_old(&ops[*at], route)) {
                        old_deleted.insert(*at);
                    }
                }
                Step::Append | Step::Op(_) => {
                    if *step == Step::Append && is_alone {
                        old_deleted.insert(*at);
                    }
                    echoed.insert(*at, object);
                }
            }
        })
    }

    /// Records the kernel's answer to a message of an op.
    fn note_answer(&mut self, at: usize, step: Step, answer: Answer) {
        let op = &self.plan.ops[at];
        if !matches!(answer, Some(Err(_))) {
            self.touched[at] = true;
        }
        let outcome = match answer {
            Some(Ok(())) => Outcome::Applied,
            Some(Err(error)) => {
                let (object, action) = step.target(op);
                let failure = refused(&object, action, &error);
                if failure.class.is_done() {
                    if op.action == Action::Create {
                        self.found_existing.insert(at);
                    }
                    if step == Step::DeleteOld {
                        self.old_missing.insert(at);
                    }
                    Outcome::Applied
                } else {
                    Outcome::Failed(Box::new(failure))
                }
            }
            None => failed(ErrorClass::Unknown, "the kernel's answer was lost"),
        };
        if let (Outcome::Applied, Action::Create, Object::Link(link)) =
            (&outcome, op.action, &op.object)
        {
            let ends = [Some(link.name), link.peer()].into_iter().flatten();
            let devs = ends.filter_map(|name| self.plan.devices.dev(&name));
            let created = devs.filter_map(|dev| Some((dev, *self.indexes.get(&dev)?)));
            self.created.extend(created);
        }
        // For an op with two messages the first refusal counts.
        if self.outcomes[at].as_ref().is_none_or(Outcome::is_applied) {
            self.outcomes[at] = Some(outcome);
        }
    }
}

/// Returns the object that an echo reports.
fn echoed_object(message: &Message<'_>) -> Option<Object> {
    let mut echoed = None;
    each_kind!(K => if [K::NEW, K::DELETE].contains(&message.header.kind) {
        echoed = K::decode(message.body).ok().flatten().map(Object::from);
    });
    echoed
}

/// Returns true if a route is the one that an op replaces.
fn is_old(op: &Op, route: &Route) -> bool {
    match op.was().as_deref() {
        Some(Object::Route(was)) => {
            was.key() == route.key() && was.protocol == route.protocol && was.agrees(route)
        }
        _ => false,
    }
}

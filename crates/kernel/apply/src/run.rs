//! A run: the ops of a plan, sent in batches.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use trueup_net::{Action, Dev, Hold, Kind, Object, Op, Plan, Reason, with_object};
use trueup_netlink::codec::{Change, EncodeError, KindCodec as _, Part};
use trueup_netlink::{Batch, Socket};
use trueup_reconcile::ErrorClass;

use crate::outcome::{Outcome, Outcomes, Pending, Wait, failed, stored_otherwise};

/// Carries a plan out over a socket in the plan's namespace. New links get the `indexes`
/// [drawn](crate::draw_indexes) for them. The kernel numbers links without one, and the ops that
/// depend on such a link wait.
///
/// Calls `go_on` before each batch. Once it returns false, no more ops are sent, and the rest is
/// pending ([`Hold::Cut`]).
///
/// Returns exactly one outcome for each op. If the socket fails altogether, the batch's ops fail
/// with class `unknown`.
///
/// ```no_run
/// use trueup_apply::{Outcome, apply, draw_indexes};
/// use trueup_net::Plan;
/// use trueup_netlink::Socket;
///
/// fn carry_out(plan: &Plan, socket: &mut Socket) {
///     let done = apply(plan, socket, &draw_indexes(plan), &|| true); // never stops early
///     for (op, outcome) in plan.ops.iter().zip(&done.outcomes) {
///         if let Outcome::Failed(failure) = outcome {
///             eprintln!("{:?}: {failure}", op.object.key());
///         }
///     }
/// }
/// ```
pub fn apply(
    plan: &Plan,
    socket: &mut Socket,
    indexes: &BTreeMap<Dev, u32>,
    go_on: &dyn Fn() -> bool,
) -> Outcomes {
    carry_out(plan, socket, indexes, go_on, false)
}

/// Like [`apply`], but asks the kernel to echo each object that it stores or deletes: see
/// [`Outcomes::echoed`]. The kernel echoes no neighbours and no IPv6 addresses. An echo takes two to three microseconds for each op, a dump half a
/// microsecond for each route in the table.
pub fn apply_with_echo(
    plan: &Plan,
    socket: &mut Socket,
    indexes: &BTreeMap<Dev, u32>,
    go_on: &dyn Fn() -> bool,
) -> Outcomes {
    carry_out(plan, socket, indexes, go_on, true)
}

fn carry_out(
    plan: &Plan,
    socket: &mut Socket,
    indexes: &BTreeMap<Dev, u32>,
    go_on: &dyn Fn() -> bool,
    with_echo: bool,
) -> Outcomes {
    let mut run = Run {
        plan,
        socket,
        batch: Batch::new(),
        sent: Vec::new(),
        outcomes: vec![None; plan.ops.len()],
        created: Default::default(),
        found_existing: BTreeSet::new(),
        touched: vec![false; plan.ops.len()],
        echoed: with_echo.then(BTreeMap::new),
        old_deleted: BTreeSet::new(),
        old_missing: BTreeSet::new(),
        indexes,
        go_on,
        stopped: false,
    };
    let mut at = 0;
    while at < plan.ops.len() {
        at = run.delete_link_group(at).unwrap_or_else(|| {
            run.op(at);
            at + 1
        });
    }
    run.flush();
    let (mut echoed, old_deleted) = (run.echoed.unwrap_or_default(), run.old_deleted);
    echoed.retain(|at, _| !plan.appends_then_deletes(&plan.ops[*at]) || old_deleted.contains(at));
    let undone = (0..plan.ops.len())
        .filter(|at| {
            let outcome = run.outcomes[*at].as_ref();
            outcome.is_some_and(|outcome| !outcome.is_applied()) && !run.touched[*at]
        })
        .collect();
    Outcomes {
        outcomes: run
            .outcomes
            .into_iter()
            .map(|outcome| outcome.unwrap_or_else(|| failed(ErrorClass::Unknown, "no answer")))
            .collect(),
        created: run.created,
        found_existing: run.found_existing,
        undone,
        echoed,
    }
}

/// The state of a run.
pub(crate) struct Run<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) socket: &'a mut Socket,
    pub(crate) batch: Batch,
    /// The ops in the batch, by position, each with its step.
    pub(crate) sent: Vec<(usize, Step)>,
    pub(crate) outcomes: Vec<Option<Outcome>>,
    pub(crate) created: BTreeMap<Dev, u32>,
    pub(crate) found_existing: BTreeSet<usize>,
    /// For each op, true if a message of it was carried out, or may have been.
    pub(crate) touched: Vec<bool>,
    /// The objects that the kernel echoed, if it was asked to.
    pub(crate) echoed: Option<BTreeMap<usize, Object>>,
    /// The ops whose old route is deleted, or was alone on its key, by the kernel's echo.
    pub(crate) old_deleted: BTreeSet<usize>,
    /// The ops whose old route the kernel did not find.
    pub(crate) old_missing: BTreeSet<usize>,
    pub(crate) indexes: &'a BTreeMap<Dev, u32>,
    pub(crate) go_on: &'a dyn Fn() -> bool,
    /// True if no more ops are sent, since the caller stopped the run.
    pub(crate) stopped: bool,
}

/// Returns the outcome of an op that was not sent because the caller stopped the run.
pub(crate) fn stopped() -> Outcome {
    Outcome::Pending(Pending::Cut)
}

impl Run<'_> {
    pub(crate) fn op(&mut self, at: usize) {
        let op = &self.plan.ops[at];
        if let Some(hold) = self.plan.hold(at) {
            self.outcomes[at] = Some(match hold {
                Hold::StoredOtherwise(stored) => {
                    let devices = &self.plan.devices;
                    let failure = stored_otherwise(&op.object, stored.as_deref(), devices);
                    Outcome::Failed(Box::new(failure))
                }
                Hold::Cut => stopped(),
                Hold::Backoff(left) => Outcome::Pending(Pending::Backoff(*left)),
                hold => Outcome::Pending(Wait::Held(hold.clone()).into()),
            });
            return;
        }
        if self.stopped {
            self.outcomes[at] = Some(stopped());
            return;
        }
        // An op that it needs may be in the current batch: its outcome must be known first.
        if self.plan.needs(at).any(|need| self.outcomes[need].is_none()) {
            self.flush();
        }
        if let Some(need) = self.plan.needs(at).find(|need| {
            !self.outcomes.get(*need).and_then(Option::as_ref).is_some_and(Outcome::is_applied)
        }) {
            self.outcomes[at] = Some(Outcome::Pending(Wait::Needs(need).into()));
            return;
        }
        if self.plan.appends_then_deletes(op) {
            return self.append_then_delete(at);
        }
        for part in parts(op) {
            if !self.add(at, Step::Op(*part)) {
                return;
            }
        }
    }

    /// Adds a message of an op to the batch, unless it cannot be encoded. Returns true if it did.
    fn add(&mut self, at: usize, step: Step) -> bool {
        let op = &self.plan.ops[at];
        let pushed = match self.push(op, step) {
            Ok(false) => {
                self.flush();
                self.push(op, step)
            }
            pushed => pushed,
        };
        match pushed {
            Ok(_) => self.sent.push((at, step)),
            Err(error) => self.outcomes[at] = Some(self.not_encoded(error)),
        }
        pushed.is_ok()
    }

    /// Sends a message of an op, and returns true if the kernel carried it out.
    fn send_now(&mut self, at: usize, step: Step) -> bool {
        let added = self.add(at, step);
        self.flush();
        added && self.outcomes[at] == Some(Outcome::Applied)
    }

    /// Appends a route after the old one, and deletes the old one. If the old one is missing,
    /// another writer may have a route on the key, and be first on it. Then the new route is
    /// deleted again, and the op is a conflict until the key is read.
    fn append_then_delete(&mut self, at: usize) {
        if !self.send_now(at, Step::Append)
            || self.old_deleted.contains(&at)
            || !self.send_now(at, Step::DeleteOld)
        {
            return;
        }
        if self.old_missing.remove(&at) {
            self.send_now(at, Step::RollBack);
            let why = "the route to replace does not exist any more";
            self.outcomes[at] = Some(failed(ErrorClass::Conflict, why));
        }
    }

    fn not_encoded(&self, error: EncodeError) -> Outcome {
        match error {
            EncodeError::Unresolved(dev) => match self.plan.devices.name(dev) {
                Some(name) => Outcome::Pending(Wait::NoDevice(*name).into()),
                None => failed(ErrorClass::Invalid, error),
            },
            _ => failed(ErrorClass::Invalid, error),
        }
    }

    /// Adds a message of an op to the batch, and returns true if it did: false if the batch is
    /// full.
    fn push(&mut self, op: &Op, step: Step) -> Result<bool, EncodeError> {
        let (created, chosen, devices) = (&self.created, self.indexes, &self.plan.devices);
        let is_unmarked = self.plan.unstored.contains(op.object.kind());
        let (object, action) = step.target(op);
        let part = match step {
            Step::Op(part) => part,
            Step::Append => Part::Append,
            Step::DeleteOld | Step::RollBack => Part::Whole,
        };
        let was = was(op);
        self.batch.push(|buffer| {
            with_object!(&*object, object: K => {
                K::encode(
                    buffer,
                    part,
                    &Change::new(action, object, &|dev| {
                        dev.as_index().or_else(|| created.get(&dev).copied())
                    })
                    .with_was(of_kind(was.as_deref()))
                    .with_is_unmarked(is_unmarked)
                    .with_names(&|name| devices.dev(name), &|dev| chosen.get(&dev).copied()),
                )
            })
        })
    }
}

/// A message of an op.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// A part of the op itself.
    Op(Part),
    /// The new route, appended after the old one.
    Append,
    /// The delete of the old route.
    DeleteOld,
    /// The delete of the appended route.
    RollBack,
}

impl Step {
    /// Returns the object of the message, and the action on it.
    pub(crate) fn target(self, op: &Op) -> (Cow<'_, Object>, Action) {
        let object = Cow::Borrowed(&op.object);
        match self {
            Step::Op(_) => (object, op.action),
            Step::Append => (object, Action::Create),
            Step::DeleteOld => (op.was().unwrap_or(object), Action::Delete),
            Step::RollBack => (object, Action::Delete),
        }
    }
}

/// Returns the parts of an op, in their order.
pub(crate) fn parts(op: &Op) -> &'static [Part] {
    if op.reason == Reason::Beside {
        return &[Part::Append];
    }
    let was = was(op);
    with_object!(&op.object, object: K => K::parts(op.action, object, of_kind(was.as_deref())))
}

/// Returns the observed object of an update if messages depend on it. Those of routes do not.
fn was(op: &Op) -> Option<Cow<'_, Object>> {
    let has_say = op.object.kind() != Kind::Route;
    has_say.then(|| op.was())?
}

fn of_kind<'a, K>(object: Option<&'a Object>) -> Option<&'a K>
where
    &'a K: TryFrom<&'a Object>,
{
    object?.try_into().ok()
}

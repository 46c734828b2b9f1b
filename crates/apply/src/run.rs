//! A run: the ops of a plan, sent in batches.

use std::collections::{BTreeMap, BTreeSet};

use trueup_diff::{Action, Dev, Hold, IfName, Item as _, Link, LinkKind, Object, Op, Plan, Route};
use trueup_netlink::wire::NLM_F_EXCL;
use trueup_netlink::{Batch, Outcome as Answer, Push, Socket, codec};

use crate::outcome::{Failure, Outcome, Outcomes, Pending};

/// Carries a plan out over a socket in the namespace that the plan was made for. New links get the
/// `indexes` [drawn](crate::draw_indexes) for them; the kernel numbers those that are not in it, and what
/// depends on such a link waits.
///
/// Calls `go_on` before each batch: once it returns false, nothing more is sent, and the rest is
/// pending ([`Hold::Cut`]).
///
/// Returns exactly one outcome for each op. If the socket fails altogether, the ops of the batch have
/// failed with class `unknown`.
pub fn apply(
    plan: &Plan,
    socket: &mut Socket,
    indexes: &BTreeMap<Dev, u32>,
    go_on: &dyn Fn() -> bool,
) -> Outcomes {
    carry_out(plan, socket, indexes, go_on, false)
}

/// As [`apply`], and asks the kernel to echo each route that it stores or deletes: see
/// [`Outcomes::echoed`]. An echo costs two to three microseconds for each op, a dump half a
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
    let lost = || Outcome::Failed(Box::new(Failure::unknown("no answer")));
    Outcomes {
        outcomes: run
            .outcomes
            .into_iter()
            .map(|outcome| outcome.unwrap_or_else(lost))
            .collect(),
        created: run.created,
        found_existing: run.found_existing,
        echoed,
    }
}

pub(crate) struct Run<'a> {
    pub(crate) plan: &'a Plan,
    pub(crate) socket: &'a mut Socket,
    pub(crate) batch: Batch,
    /// The ops in the batch, by position, and which part of each.
    sent: Vec<(usize, Part)>,
    pub(crate) outcomes: Vec<Option<Outcome>>,
    created: BTreeMap<Dev, u32>,
    found_existing: BTreeSet<usize>,
    /// The routes that the kernel echoed, where it is asked to.
    echoed: Option<BTreeMap<usize, Route>>,
    /// The ops whose old route is deleted, or was alone on its key, by the kernel's echo.
    old_deleted: BTreeSet<usize>,
    /// The ops whose old route the kernel did not find.
    old_missing: BTreeSet<usize>,
    indexes: &'a BTreeMap<Dev, u32>,
    go_on: &'a dyn Fn() -> bool,
    /// Nothing more is sent: the caller said no.
    stopped: bool,
}

/// A message of an op.
#[derive(Clone, Copy)]
enum Part {
    Whole,
    /// The master of a port alone.
    Master,
    /// The attributes of a link's kind, where the kernel refuses them beside the others.
    KindAttributes,
    /// The new route, appended after the old one.
    Append,
    /// The delete of the old route.
    DeleteOld,
    /// The delete of the appended route.
    RollBack,
}

fn parts(op: &Op) -> &'static [Part] {
    let Object::Link(link) = &op.object else {
        return &[Part::Whole];
    };
    if op.action != Action::Update {
        return &[Part::Whole];
    }
    // The kernel sets up before it makes a port (since 6.8; before that, after), but a bond refuses
    // a port that is up, and sets down one that it lets go.
    let master = link.up == Some(true) && codec::link::changes_master(link, old_link(op));
    match (master, codec::link::needs_kind_change(link, old_link(op))) {
        (false, false) => &[Part::Whole],
        (false, true) => &[Part::Whole, Part::KindAttributes],
        (true, false) => &[Part::Master, Part::Whole],
        (true, true) => &[Part::Master, Part::Whole, Part::KindAttributes],
    }
}

/// Returns the part of a link that its create states; an update states the rest. A new bridge does not
/// filter, and a kernel built without filtering refuses the attribute.
fn bare(link: &Link) -> Link {
    let mut bare = Link {
        up: None,
        master: None,
        alias: None,
        ..link.clone()
    };
    if let Some(LinkKind::Bridge(bridge)) = &mut bare.kind {
        bridge.vlan_filtering = bridge.vlan_filtering.filter(|on| *on);
    }
    bare
}

fn peer(link: &Link) -> Option<IfName> {
    match link.kind {
        Some(LinkKind::Veth { peer }) => peer,
        _ => None,
    }
}

fn old_link(op: &Op) -> Option<&Link> {
    match op.was.as_deref() {
        Some(Object::Link(was)) => Some(was),
        _ => None,
    }
}

/// Returns the outcome of an op that was not sent because the caller said no.
pub(crate) fn stopped() -> Outcome {
    Outcome::Pending(Pending::Held(Hold::Cut))
}

impl Run<'_> {
    pub(crate) fn op(&mut self, at: usize) {
        let op = &self.plan.ops[at];
        if let Some(hold) = &op.hold {
            self.outcomes[at] = Some(match hold {
                Hold::StoredOtherwise(stored) => {
                    let devices = &self.plan.devices;
                    let failure = Failure::stored_otherwise(&op.object, stored.as_deref(), devices);
                    Outcome::Failed(Box::new(failure))
                }
                hold => Outcome::Pending(Pending::Held(hold.clone())),
            });
            return;
        }
        if self.stopped {
            self.outcomes[at] = Some(stopped());
            return;
        }
        // An op that it needs may be in the current batch: its outcome has to be known first.
        if self
            .plan
            .needs(at)
            .any(|need| self.outcomes[need].is_none())
        {
            self.flush();
        }
        let applied = |need: &usize| {
            self.outcomes
                .get(*need)
                .and_then(Option::as_ref)
                .is_some_and(Outcome::is_applied)
        };
        if let Some(need) = self.plan.needs(at).find(|need| !applied(need)) {
            self.outcomes[at] = Some(Outcome::Pending(Pending::Needs(need)));
            return;
        }
        if self.plan.appends_then_deletes(op) {
            return self.append_then_delete(at);
        }
        for &part in parts(op) {
            if !self.add(at, part) {
                return;
            }
        }
    }

    /// Adds a message of an op to the batch, unless it cannot be encoded, and returns whether it did.
    fn add(&mut self, at: usize, part: Part) -> bool {
        let op = &self.plan.ops[at];
        let pushed = match self.push(op, part) {
            Ok(Push::Full) => {
                self.flush();
                self.push(op, part)
            }
            pushed => pushed,
        };
        match pushed {
            Ok(_) => self.sent.push((at, part)),
            Err(error) => self.outcomes[at] = Some(self.not_encoded(error)),
        }
        pushed.is_ok()
    }

    /// Sends a message of an op, and returns whether the kernel carried it out.
    fn send_now(&mut self, at: usize, part: Part) -> bool {
        let added = self.add(at, part);
        self.flush();
        added && self.outcomes[at] == Some(Outcome::Applied)
    }

    /// Appends a route after the old one, and deletes the old one. If the old one is missing, another
    /// writer may have a route on the key, and be first on it: the new route is deleted again, and the
    /// op is a conflict until the key was read.
    fn append_then_delete(&mut self, at: usize) {
        if !self.send_now(at, Part::Append)
            || self.old_deleted.contains(&at)
            || !self.send_now(at, Part::DeleteOld)
        {
            return;
        }
        if self.old_missing.remove(&at) {
            self.send_now(at, Part::RollBack);
            let why = "the route to replace does not exist any more";
            self.outcomes[at] = Some(Outcome::Failed(Box::new(Failure::conflict(why))));
        }
    }

    fn not_encoded(&self, error: codec::EncodeError) -> Outcome {
        match error {
            codec::EncodeError::Unresolved(dev) => match self.plan.devices.name(dev) {
                Some(name) => Outcome::Pending(Pending::NoDevice(*name)),
                None => Outcome::Failed(Box::new(Failure::unencodable(error))),
            },
            _ => Outcome::Failed(Box::new(Failure::unencodable(error))),
        }
    }

    fn push(&mut self, op: &Op, part: Part) -> Result<Push, codec::EncodeError> {
        let (created, indexes) = (&self.created, self.indexes);
        let devices = &self.plan.devices;
        let unmarked = self.plan.unstored.contains(op.object.kind());
        let resolve = |dev: Dev| dev.as_index().or_else(|| created.get(&dev).copied());
        self.batch.push(|buffer| match (&op.object, op.action) {
            (Object::Link(link), Action::Create) => {
                let index = |name: &IfName| {
                    let drawn = devices.dev(name).and_then(|dev| indexes.get(&dev));
                    drawn.copied().unwrap_or(0)
                };
                let bare = Link {
                    index: index(&link.name),
                    ..bare(link)
                };
                let peer_index = peer(link).as_ref().map_or(0, index);
                codec::link::create(buffer, &bare, peer_index, &resolve)
            }
            (Object::Link(link), Action::Update) => {
                let dev = devices.dev(&link.name).unwrap_or(Dev::index(link.index));
                let index = resolve(dev).ok_or(codec::EncodeError::Unresolved(dev))?;
                let link = Link {
                    index,
                    ..(**link).clone()
                };
                match part {
                    Part::Master => {
                        codec::link::change_master(buffer, &link, old_link(op), &resolve)
                    }
                    Part::KindAttributes => {
                        codec::link::change_kind(buffer, &link, old_link(op), &resolve)
                    }
                    _ => codec::link::change(buffer, &link, old_link(op), &resolve),
                }
            }
            (Object::Link(link), Action::Delete) => codec::link::delete(buffer, link.index),
            (Object::Address(address), action) => match action {
                Action::Create => codec::address::create(buffer, address, &resolve),
                Action::Update => codec::address::replace(buffer, address, &resolve),
                Action::Delete => codec::address::delete(buffer, address, &resolve),
            },
            (Object::Neighbour(neighbour), action) => match action {
                Action::Create => codec::neighbour::create(buffer, neighbour, &resolve),
                Action::Update => codec::neighbour::replace(buffer, neighbour, &resolve),
                Action::Delete => codec::neighbour::delete(buffer, neighbour, &resolve),
            },
            (Object::Route(route), action) => match action {
                Action::Create => codec::route::create(buffer, route, &resolve),
                Action::Update => match (part, op.was.as_deref()) {
                    (Part::Append, _) => codec::route::append(buffer, route, &resolve),
                    (Part::DeleteOld, Some(Object::Route(was))) => {
                        codec::route::delete(buffer, was, &resolve)
                    }
                    (Part::RollBack, _) => codec::route::delete(buffer, route, &resolve),
                    _ => codec::route::replace(buffer, route, &resolve),
                },
                Action::Delete => codec::route::delete(buffer, route, &resolve),
            },
            (Object::Nexthop(nexthop), action) => match action {
                Action::Create => codec::nexthop::create(buffer, nexthop, &resolve),
                Action::Update => codec::nexthop::replace(buffer, nexthop, &resolve),
                Action::Delete => codec::nexthop::delete(buffer, nexthop.id),
            },
            (Object::Rule(rule), Action::Create) if unmarked => {
                codec::rule::create_unmarked(buffer, rule)
            }
            (Object::Rule(rule), Action::Delete) if unmarked => {
                codec::rule::delete_unmarked(buffer, rule)
            }
            (Object::Rule(rule), Action::Create) => codec::rule::create(buffer, rule),
            (Object::Rule(rule), Action::Delete) => codec::rule::delete(buffer, rule),
            (Object::Rule(_), Action::Update) => Err(codec::EncodeError::Refused(
                "a rule cannot be changed in place",
            )),
        })
    }

    /// Returns whether nothing more is sent. To be called before each batch.
    pub(crate) fn is_stopped(&mut self) -> bool {
        self.stopped = self.stopped || !(self.go_on)();
        self.stopped
    }

    /// Sends the current batch and notes the outcomes of its ops.
    pub(crate) fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        if self.is_stopped() {
            self.batch.clear();
            // The first message of an op of two may be done.
            for (at, _) in self.sent.drain(..) {
                if self.outcomes[at].as_ref().is_none_or(Outcome::is_applied) {
                    self.outcomes[at] = Some(stopped());
                }
            }
            return;
        }
        let answers = match &mut self.echoed {
            None => self.socket.send_batch(&mut self.batch),
            Some(echoed) => {
                let (sent, old_deleted, ops) = (&self.sent, &mut self.old_deleted, &self.plan.ops);
                let was = |at: usize, route: &Route| match ops[at].was.as_deref() {
                    Some(Object::Route(was)) => {
                        was.key() == route.key()
                            && was.protocol == route.protocol
                            && was.agrees(route)
                    }
                    _ => false,
                };
                self.socket
                    .send_batch_echoed(&mut self.batch, |index, message| {
                        let route = match message.header.kind {
                            codec::route::NEW | codec::route::DELETE => {
                                codec::route::decode(message.body).ok().flatten()
                            }
                            _ => None,
                        };
                        let (Some(route), Some((at, part))) = (route, sent.get(index)) else {
                            return;
                        };
                        // No other route was on the key.
                        let alone = message.header.flags & NLM_F_EXCL != 0;
                        match part {
                            Part::DeleteOld if !was(*at, &route) => {}
                            Part::RollBack => {}
                            Part::DeleteOld => drop(old_deleted.insert(*at)),
                            _ => {
                                if matches!(part, Part::Append) && alone {
                                    old_deleted.insert(*at);
                                }
                                echoed.insert(*at, route);
                            }
                        }
                    })
            }
        };
        let answers = match answers {
            Ok(answers) => answers,
            Err(error) => {
                self.batch.clear();
                let failure = Outcome::Failed(Box::new(Failure::unknown(error.to_string())));
                for (at, _) in self.sent.drain(..) {
                    self.outcomes[at] = Some(failure.clone());
                }
                return;
            }
        };
        let mut sent = std::mem::take(&mut self.sent);
        for ((at, part), answer) in sent.drain(..).zip(answers) {
            let op = &self.plan.ops[at];
            let (object, action) = match (part, op.was.as_deref()) {
                (Part::Append, _) => (&op.object, Action::Create),
                (Part::DeleteOld, Some(was)) => (was, Action::Delete),
                (Part::RollBack, _) => (&op.object, Action::Delete),
                _ => (&op.object, op.action),
            };
            let outcome = match answer {
                Answer::Done => Outcome::Applied,
                Answer::Failed(error) => {
                    let failure = Failure::refused(object, action, error);
                    if failure.class().is_done() {
                        if op.action == Action::Create {
                            self.found_existing.insert(at);
                        }
                        if matches!(part, Part::DeleteOld) {
                            self.old_missing.insert(at);
                        }
                        Outcome::Applied
                    } else {
                        Outcome::Failed(Box::new(failure))
                    }
                }
                Answer::Unknown => {
                    Outcome::Failed(Box::new(Failure::unknown("the kernel's answer was lost")))
                }
            };
            if let (Outcome::Applied, Action::Create, Object::Link(link)) =
                (&outcome, op.action, &op.object)
            {
                let ends = [Some(link.name), peer(link)].into_iter().flatten();
                let devs = ends.filter_map(|name| self.plan.devices.dev(&name));
                let came = devs.filter_map(|dev| Some((dev, *self.indexes.get(&dev)?)));
                self.created.extend(came);
            }
            // Of an op of two messages the first refusal counts.
            if self.outcomes[at].as_ref().is_none_or(Outcome::is_applied) {
                self.outcomes[at] = Some(outcome);
            }
        }
        self.sent = sent;
    }
}

//! The batches.

use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::ops::Range;

use trueup_diff::{Action, Dev, Hold, IfName, Item as _, Link, LinkKind, Object, Op, Plan, Route};
use trueup_netlink::wire::NLM_F_EXCL;
use trueup_netlink::{Batch, Outcome as Answer, Push, Socket, codec};

use crate::{Failure, Outcome, Outcomes, Pending};

/// The least and the greatest index of an interface of ours. The kernel counts its own from 1, and does not get here.
const INDEXES: Range<u32> = 1 << 24..1 << 31;

/// Draws the index of each interface that a plan will create: at random, from 2^24 to 2^31 - 1.
///
/// Known before the kernel is asked, an index can be recorded beforehand; and one of some two thousand million that is there
/// afterwards under the name that goes with it is there by our hand. The kernel refuses to create a link whose index is taken.
pub fn draw_indexes(plan: &Plan) -> BTreeMap<Dev, u32> {
    let mut drawn = BTreeSet::new();
    plan.devices
        .planned()
        .map(|(dev, _)| {
            let mut index = random(INDEXES);
            while !drawn.insert(index) {
                index = random(INDEXES);
            }
            (dev, index)
        })
        .collect()
}

pub(crate) fn random(among: Range<u32>) -> u32 {
    // Each state has other keys, drawn by the operating system.
    let random = RandomState::new().build_hasher().finish();
    let span = u64::from(among.end - among.start);
    among.start + (random % span) as u32
}

/// Whether an interface has an index that was [drawn](draw_indexes), by us or by another of our like.
pub fn is_drawn_index(index: u32) -> bool {
    INDEXES.contains(&index)
}

/// Carries a plan out over a socket in the namespace that the plan was made for. New links get the
/// `indexes` [drawn](draw_indexes) for them; the kernel numbers those that are not in it, and what
/// rests on such a one waits.
///
/// Before each batch `go_on` is asked whether to: once it says no, nothing more is sent, and the rest
/// is pending ([`Hold::Cut`]).
///
/// Always gives one outcome for each op. If the socket fails altogether, the ops that it should
/// have carried have failed with class `unknown`.
pub fn apply(
    plan: &Plan,
    socket: &mut Socket,
    indexes: &BTreeMap<Dev, u32>,
    go_on: &dyn Fn() -> bool,
) -> Outcomes {
    carry_out(plan, socket, indexes, go_on, false)
}

/// As [`apply`], and has the kernel tell what it makes of each route: see [`Outcomes::echoed`]. It is worth its cost where the
/// ops are few, and few among many: two to three microseconds for each, where a dump takes half of one for each route there is.
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
    hears: bool,
) -> Outcomes {
    let mut run = Run {
        plan,
        socket,
        batch: Batch::new(),
        sent: Vec::new(),
        outcomes: vec![None; plan.ops.len()],
        created: Default::default(),
        found: BTreeSet::new(),
        told: hears.then(BTreeMap::new),
        gone: BTreeSet::new(),
        missed: BTreeSet::new(),
        indexes,
        go_on,
        cut: false,
    };
    let mut at = 0;
    while at < plan.ops.len() {
        at = run.together(at).unwrap_or_else(|| {
            run.op(at);
            at + 1
        });
    }
    run.flush();
    let (mut told, gone) = (run.told.unwrap_or_default(), run.gone);
    told.retain(|at, _| !plan.appends_then_deletes(&plan.ops[*at]) || gone.contains(at));
    let lost = || Outcome::Failed(Box::new(Failure::unknown("no answer")));
    Outcomes {
        outcomes: run
            .outcomes
            .into_iter()
            .map(|outcome| outcome.unwrap_or_else(lost))
            .collect(),
        created: run.created,
        found_existing: run.found,
        echoed: told,
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
    found: BTreeSet<usize>,
    /// What the kernel tells of routes, where it is asked to.
    told: Option<BTreeMap<usize, Route>>,
    /// Of which ops it has told that what a route was before is gone.
    gone: BTreeSet<usize>,
    /// Of which it has said that it was not there.
    missed: BTreeSet<usize>,
    indexes: &'a BTreeMap<Dev, u32>,
    go_on: &'a dyn Fn() -> bool,
    /// Nothing more is sent.
    cut: bool,
}

/// A message of an op.
#[derive(Clone, Copy)]
enum Part {
    Whole,
    /// A port's master alone.
    Master,
    /// The attributes of a link's kind, where the kernel does not take them with the others.
    Kind,
    /// A route beside what it was.
    Beside,
    /// What it was, which goes once the other is there.
    Former,
    /// The route itself, which goes again.
    Back,
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
    let master = link.up == Some(true) && codec::link::changes_master(link, was(op));
    match (master, codec::link::needs_kind_change(link, was(op))) {
        (false, false) => &[Part::Whole],
        (false, true) => &[Part::Whole, Part::Kind],
        (true, false) => &[Part::Master, Part::Whole],
        (true, true) => &[Part::Master, Part::Whole, Part::Kind],
    }
}

/// What a link is created with. The rest of what is stated follows in an update. A new bridge does
/// not filter, and a kernel built without filtering refuses to be told so.
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

fn was(op: &Op) -> Option<&Link> {
    match op.was.as_deref() {
        Some(Object::Link(was)) => Some(was),
        _ => None,
    }
}

pub(crate) fn cut() -> Outcome {
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
        if self.cut {
            self.outcomes[at] = Some(cut());
            return;
        }
        // What it needs may be in the batch at hand: its outcome has to be known first.
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
            return self.beside(at);
        }
        for &part in parts(op) {
            if !self.add(at, part) {
                return;
            }
        }
    }

    /// Adds a message of an op to the batch; not one that cannot be encoded.
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

    /// Sends a message of an op, and tells whether the kernel has done what it says.
    fn done(&mut self, at: usize, part: Part) -> bool {
        let added = self.add(at, part);
        self.flush();
        added && self.outcomes[at] == Some(Outcome::Applied)
    }

    /// A route comes beside what it was, which goes then. Where that is not there any more somebody else may have the key, and be
    /// first on it: the new one goes again, until it was seen who that is.
    fn beside(&mut self, at: usize) {
        if !self.done(at, Part::Beside) || self.gone.contains(&at) || !self.done(at, Part::Former) {
            return;
        }
        if self.missed.remove(&at) {
            self.done(at, Part::Back);
            let why = "what it was is not there any more";
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
                    Part::Master => codec::link::change_master(buffer, &link, was(op), &resolve),
                    Part::Kind => codec::link::change_kind(buffer, &link, was(op), &resolve),
                    _ => codec::link::change(buffer, &link, was(op), &resolve),
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
                    (Part::Beside, _) => codec::route::append(buffer, route, &resolve),
                    (Part::Former, Some(Object::Route(was))) => {
                        codec::route::delete(buffer, was, &resolve)
                    }
                    (Part::Back, _) => codec::route::delete(buffer, route, &resolve),
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

    /// Whether nothing more is sent. Asked before each batch.
    pub(crate) fn is_cut(&mut self) -> bool {
        self.cut = self.cut || !(self.go_on)();
        self.cut
    }

    /// Sends the batch at hand and settles the ops in it.
    pub(crate) fn flush(&mut self) {
        if self.batch.is_empty() {
            return;
        }
        if self.is_cut() {
            self.batch.clear();
            // Of an op of two messages the first may be done.
            for (at, _) in self.sent.drain(..) {
                if self.outcomes[at].as_ref().is_none_or(Outcome::is_applied) {
                    self.outcomes[at] = Some(cut());
                }
            }
            return;
        }
        let answers = match &mut self.told {
            None => self.socket.send_batch(&mut self.batch),
            Some(told) => {
                let (sent, gone, ops) = (&self.sent, &mut self.gone, &self.plan.ops);
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
                        // Nobody else is on the key.
                        let alone = message.header.flags & NLM_F_EXCL != 0;
                        match part {
                            Part::Former if !was(*at, &route) => {}
                            Part::Back => {}
                            Part::Former => drop(gone.insert(*at)),
                            _ => {
                                if matches!(part, Part::Beside) && alone {
                                    gone.insert(*at);
                                }
                                told.insert(*at, route);
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
                (Part::Beside, _) => (&op.object, Action::Create),
                (Part::Former, Some(was)) => (was, Action::Delete),
                (Part::Back, _) => (&op.object, Action::Delete),
                _ => (&op.object, op.action),
            };
            let outcome = match answer {
                Answer::Done => Outcome::Applied,
                Answer::Failed(error) => {
                    let failure = Failure::refused(object, action, error);
                    if failure.class().is_done() {
                        if op.action == Action::Create {
                            self.found.insert(at);
                        }
                        if matches!(part, Part::Former) {
                            self.missed.insert(at);
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
            // Of an op of two messages the first refusal stands.
            if self.outcomes[at].as_ref().is_none_or(Outcome::is_applied) {
                self.outcomes[at] = Some(outcome);
            }
        }
        self.sent = sent;
    }
}

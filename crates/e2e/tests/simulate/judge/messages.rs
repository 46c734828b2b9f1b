//! The messages of a pass. Invariant 3: nothing has happened, so nothing is sent that changes
//! something. Invariant 6: what is not known deletes nothing. Invariant 8 counts them.

use std::collections::{BTreeMap, BTreeSet};

use trueup_diff::Kind as DiffKind;
use trueup_testkit::{Kind, RawMessage};

use super::Judge;
use crate::wire::Request;
use trueup_e2e::world::Id;

/// The messages of the pass that runs, or of the last one.
#[derive(Default)]
pub(super) struct PassMessages {
    began: u64,
    is_running: bool,
    messages: u32,
    pub(super) changes: u32,
    /// When each kind was last dumped without a fault, by family and whether proxies were.
    dumped: BTreeMap<(Kind, u8, bool), u64>,
    /// Dumps that lack rows, by the bytes that asked for them.
    incomplete: BTreeMap<Vec<u8>, Kind>,
    /// The next dump lacks rows.
    is_next_incomplete: bool,
    /// Where routes were put.
    put: BTreeSet<Vec<u8>>,
}

impl PassMessages {
    /// When the rows beside this one were last read.
    pub(super) fn read_at(&self, row: &RawMessage) -> u64 {
        let (kind, family, is_proxy) = part_of(row);
        let parts = [(kind, family, is_proxy), (kind, 0, is_proxy)];
        let read = parts.iter().filter_map(|part| self.dumped.get(part));
        read.max().copied().unwrap_or(self.began)
    }

    fn is_incomplete(&self, kind: Kind) -> bool {
        self.incomplete.values().any(|of| *of == kind)
    }
}

/// The dump that shows a row, or that a request asks for.
fn part_of(row: &RawMessage) -> (Kind, u8, bool) {
    let is_proxy = row.kind == Kind::Neighbour && row.header[10] & 8 != 0;
    (row.kind, row.family(), is_proxy)
}

/// What a dump asks for, a family at a time: a dump of all families is read again as one of IPv4 and
/// one of IPv6.
fn questions(request: &Request<'_>) -> Vec<Vec<u8>> {
    let question = [&request.bytes[4..6], &request.bytes[16..]].concat();
    match request.kind {
        None | Some(Kind::Link | Kind::Nexthop) => vec![question],
        _ if question[2] != 0 => vec![question],
        _ => [2, 10]
            .map(|family| {
                let mut question = question.clone();
                question[2] = family;
                question
            })
            .to_vec(),
    }
}

fn kind_of(kind: Kind) -> DiffKind {
    match kind {
        Kind::Link => DiffKind::Link,
        Kind::Address => DiffKind::Address,
        Kind::Neighbour => DiffKind::Neighbour,
        Kind::Nexthop => DiffKind::Nexthop,
        Kind::Route => DiffKind::Route,
        Kind::Rule => DiffKind::Rule,
    }
}

impl Judge {
    pub(crate) fn pass_begins(&mut self, step: u64) {
        self.pass = PassMessages {
            began: step,
            is_running: true,
            ..PassMessages::default()
        };
    }

    pub(crate) fn pass_ended(&mut self) {
        self.pass.is_running = false;
    }

    pub(crate) fn messages(&self) -> u32 {
        self.pass.messages
    }

    /// The dump that this request asks for lacks rows, or is refused: it is not sent.
    pub(crate) fn dump_fails(&mut self, request: &Request<'_>, is_sent: bool) {
        match request.kind {
            Some(kind) if !is_sent => {
                let lacking = questions(request).into_iter().map(|it| (it, kind));
                self.pass.incomplete.extend(lacking);
            }
            _ => self.pass.is_next_incomplete = true,
        }
    }

    /// The agent is about to send a message.
    pub(crate) fn sends(&mut self, request: &Request<'_>, step: u64, namespace: u64) {
        if !self.pass.is_running {
            return;
        }
        self.pass.messages += 1;
        let Some(kind) = request.kind else {
            return;
        };
        if request.is_dump {
            match std::mem::take(&mut self.pass.is_next_incomplete) {
                true => {
                    let lacking = questions(request).into_iter().map(|it| (it, kind));
                    self.pass.incomplete.extend(lacking);
                }
                false => {
                    for question in questions(request) {
                        self.pass.incomplete.remove(&question);
                    }
                    let part = request.header.as_ref().map(part_of);
                    self.pass.dumped.extend(part.map(|part| (part, step)));
                }
            }
        }
        if !request.is_change {
            return;
        }
        self.pass.changes += 1;
        let text = request
            .message
            .as_ref()
            .map_or(String::new(), ToString::to_string);
        if self.is_quiet {
            self.fail(
                3,
                format!("nothing has happened since a pass that converged: {text}"),
            );
        }
        if self.bound.is_some_and(|bound| bound != namespace) {
            self.fail(6, format!("in a namespace that is not the agent's: {text}"));
        }
        let place = request.message.as_ref().map(|row| Id::of(row).place().2);
        if !request.is_delete {
            self.pass.put.extend(place);
            return;
        }
        if !self.desired.managed().contains(kind_of(kind)) {
            self.fail(6, format!("the kind is not managed: {text}"));
        }
        // A route that gets another gateway is put behind the old one, which then goes.
        let is_replaced = place.is_some_and(|place| self.pass.put.contains(&place));
        if self.pass.is_incomplete(kind) && !is_replaced {
            self.fail(6, format!("a dump of the kind was incomplete: {text}"));
        }
    }
}

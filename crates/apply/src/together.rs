//! Many links deleted at once.
//!
//! Before a link goes the kernel waits until nobody can be using it any more, some sixteen
//! milliseconds; links that go in one message have one such wait together. So those that a plan
//! deletes in a row are put into a group of their own, and then the group is deleted, all in one
//! send (`rtnl_group_dellink` in net/core/rtnetlink.c).
//!
//! No more goes than a delete of each would take:
//!
//! - Only links of the plan are put into the group, each by the index by which it would be deleted.
//!   What they take along, such as the other end of a pair, goes with either.
//! - The group's number is drawn anew for each send, from some two thousand million, and none that a
//!   link bore when the plan was made. For a stranger's link to be in it, he would have to read
//!   the number from one of ours and use it while the kernel carries out that one send.
//! - The kernel deletes none of a group of which it cannot delete one. Whatever it did not say of
//!   both messages that it did, goes again by itself, so that each op has an answer of its own.
//! - Who is killed between two messages leaves links of ours in a group that they were not in. What
//!   they are ours by, their index in the ledger, is as it was: the next pass deletes them.

use std::ops::Range;

use trueup_diff::{Action, Object};
use trueup_netlink::{BATCH_MESSAGES, Outcome as Answer, codec};

use crate::run::{Run, cut, random};
use crate::{Failure, Outcome};

/// From so many on it pays: with four, the detour takes a third of the time.
const MIN: usize = 4;
/// So many links and the delete of their group are one batch.
const MAX: usize = BATCH_MESSAGES - 1;
/// Who numbers groups by hand does not get here, and the kernel compares them as signed numbers.
const GROUPS: Range<u32> = 1 << 24..1 << 31;

impl Run<'_> {
    /// Deletes the links that the plan deletes in a row from a position on, if there are enough of
    /// them, and gives the position after them.
    pub(crate) fn together(&mut self, from: usize) -> Option<usize> {
        let is_delete = |at: &usize| {
            let op = &self.plan.ops[*at];
            op.action == Action::Delete
                && matches!(op.object, Object::Link(_))
                && op.hold.is_none()
                && self.plan.needs(*at).next().is_none()
        };
        let count = (from..self.plan.ops.len()).take_while(is_delete).count();
        if count < MIN {
            return None;
        }
        self.flush();
        let to = from + count;
        for first in (from..to).step_by(MAX) {
            self.group(first..to.min(first + MAX));
        }
        Some(to)
    }

    fn group(&mut self, links: Range<usize>) {
        if self.is_cut() {
            self.outcomes[links].fill(Some(cut()));
            return;
        }
        let group = self.free_group();
        let mut put: Vec<usize> = Vec::with_capacity(links.len());
        for at in links.clone() {
            if let Object::Link(link) = &self.plan.ops[at].object {
                let index = link.index;
                let set = |buffer: &mut Vec<u8>| codec::link::set_group(buffer, index, group);
                if self.batch.push(set).is_ok() {
                    put.push(at);
                }
            }
        }
        let delete = |buffer: &mut Vec<u8>| codec::link::delete_group(buffer, group);
        let sent = match self.batch.push(delete) {
            Ok(_) => self.socket.send_batch(&mut self.batch).unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        self.batch.clear();
        let gone = sent.len() == put.len() + 1 && sent.last() == Some(&Answer::Done);
        for (at, answer) in put.into_iter().zip(sent) {
            let object = &self.plan.ops[at].object;
            let is_done = match answer {
                Answer::Done => gone,
                // It is gone already.
                Answer::Failed(error) => Failure::refused(object, Action::Delete, error)
                    .class()
                    .is_done(),
                Answer::Unknown => false,
            };
            if is_done {
                self.outcomes[at] = Some(Outcome::Applied);
            }
        }
        for at in links {
            if self.outcomes[at].is_none() {
                self.op(at);
            }
        }
        self.flush();
    }

    fn free_group(&self) -> u32 {
        loop {
            let group = random(GROUPS);
            if !self.plan.is_group_taken(group) {
                return group;
            }
        }
    }
}

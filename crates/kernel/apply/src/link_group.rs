//! Deletes many links in one group.
//!
//! Before the kernel removes a link it waits until nothing uses it, about sixteen milliseconds.
//! Links deleted by one message share that wait. So consecutive link deletes are put into a group,
//! and the group is deleted, all in one send (`rtnl_group_dellink` in net/core/rtnetlink.c).
//!
//! The group removes no more than deleting each link would:
//!
//! - Only links of the plan are put into the group, each by the index by which it would be deleted.
//!   Links that the kernel removes along, such as the peer of a veth, are the same either way.
//! - The group's number is drawn for each send, from some two thousand million. No link had it when
//!   the plan was made. To get its own link into the group, another writer would have to read the
//!   number from one of ours and use it while the kernel carries out that one send.
//! - If the kernel cannot delete one link of a group, it deletes none. A link whose two messages
//!   were not both confirmed is deleted by itself, so that each op has its own answer.
//! - A process killed between two messages leaves links of ours in a group. They are ours by their
//!   index in the ledger, and the next pass deletes them.

use std::ops::Range;

use trueup_net::{Action, Object};
use trueup_netlink::{BATCH_MESSAGES, codec};

use crate::indexes::random;
use crate::outcome::{Outcome, refused};
use crate::run::{Run, stopped};

/// The least number of links for a group: four take a third of the time of single deletes.
const MIN_LINKS: usize = 4;
/// The greatest number of links: with the delete of their group they fill one batch.
const MAX_LINKS: usize = BATCH_MESSAGES - 1;
/// The range of group numbers: above those that people choose, and positive as a signed number,
/// which the kernel compares.
const GROUPS: Range<u32> = 1 << 24..1 << 31;

impl Run<'_> {
    /// Deletes the links whose deletes follow each other in the plan from a position on, if there
    /// are enough of them. Returns the position after them.
    pub(crate) fn delete_link_group(&mut self, from: usize) -> Option<usize> {
        let deletes = (from..self.plan.ops.len()).take_while(|at| {
            let op = &self.plan.ops[*at];
            op.action == Action::Delete
                && matches!(op.object, Object::Link(_))
                && op.hold.is_none()
                && self.plan.needs(*at).next().is_none()
        });
        let count = deletes.count();
        if count < MIN_LINKS {
            return None;
        }
        self.flush();
        let to = from + count;
        for first in (from..to).step_by(MAX_LINKS) {
            self.delete_group(first..to.min(first + MAX_LINKS));
        }
        Some(to)
    }

    fn delete_group(&mut self, links: Range<usize>) {
        if self.is_stopped() {
            self.outcomes[links].fill(Some(stopped()));
            return;
        }
        let group = self.free_group();
        let mut put: Vec<usize> = Vec::with_capacity(links.len());
        for at in links.clone() {
            if let Object::Link(link) = &self.plan.ops[at].object {
                let index = link.index;
                if self.batch.push(|to| codec::link::set_group(to, index, group)).is_ok() {
                    put.push(at);
                }
            }
        }
        let sent = match self.batch.push(|to| codec::link::delete_group(to, group)) {
            Ok(_) => self.socket.send_batch(&mut self.batch).unwrap_or_default(),
            Err(_) => Vec::new(),
        };
        self.batch.clear();
        let group_deleted = sent.len() == put.len() + 1 && sent.last() == Some(&Some(Ok(())));
        for (at, answer) in put.into_iter().zip(sent) {
            let object = &self.plan.ops[at].object;
            let is_done = match answer {
                Some(Ok(())) => group_deleted,
                // The link no longer exists.
                Some(Err(error)) => refused(object, Action::Delete, &error).class.is_done(),
                None => false,
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

//! Announcements: which group they go to, and in whose name.

use crate::message::{Kind, RawMessage};

use super::numbers::{INET, NLM_F_ECHO};
use super::{By, State};

/// The multicast group of an announcement (`RTNLGRP_*`).
fn group_of(message: &RawMessage) -> u32 {
    match (message.kind, message.family()) {
        (Kind::Link, _) => 1,
        (Kind::Neighbour, _) => 3,
        (Kind::Address, INET) => 5,
        (Kind::Address, _) => 9,
        (Kind::Route, INET) => 7,
        (Kind::Route, _) => 11,
        (Kind::Rule, INET) => 8,
        (Kind::Rule, _) => 19,
        (Kind::Nexthop, _) => 32,
    }
}

impl State {
    pub(super) fn announce(&mut self, message: &RawMessage, by: By<'_, '_>) {
        self.announce_with(0, message, by);
    }

    /// Announces with flags: for routes they say what was done.
    pub(super) fn announce_with(&mut self, flags: u16, message: &RawMessage, by: By<'_, '_>) {
        let (sequence, port) = by.map_or((0, 0), |by| (by.sequence, by.port));
        let echo = by.filter(|by| by.has(NLM_F_ECHO)).map(|by| by.port);
        self.announce_as(message, (flags, sequence, port), echo);
    }

    /// Announces with flags, sequence and port; to `echo`, a port, whether it listens or not.
    pub(super) fn announce_as(
        &mut self,
        message: &RawMessage,
        (flags, sequence, port): (u16, u32, u32),
        echo: Option<u32>,
    ) {
        let group = group_of(message);
        let mut bytes = None;
        self.mailboxes.retain(|mailbox| {
            let Some(mailbox) = mailbox.upgrade() else {
                return false;
            };
            if mailbox.listens(group) || echo == Some(mailbox.port) {
                let bytes = bytes.get_or_insert_with(|| message.encode(flags, sequence, port));
                mailbox.deliver(bytes.clone());
            }
            true
        });
    }
}

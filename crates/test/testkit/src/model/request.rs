//! A request, taken apart, and what refuses it.

use crate::message::u32_at;

use super::bag::Bag;

/// A request's header, fixed part and attributes.
#[derive(Clone, Debug)]
pub(super) struct Request<'a> {
    /// `RTM_*`.
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) sequence: u32,
    /// The sender, for announcements.
    pub(super) port: u32,
    /// True if the sender requested strict checking of GET requests.
    pub(super) is_strict: bool,
    /// The fixed part.
    pub(super) header: &'a [u8],
    pub(super) attrs: Bag,
}

impl Request<'_> {
    pub(super) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    pub(super) fn family(&self) -> u8 {
        self.header[0]
    }

    /// The number at a place of the fixed part.
    pub(super) fn u32(&self, at: usize) -> u32 {
        u32_at(self.header, at)
    }
}

/// The reason for which a request was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// Positive.
    pub(super) errno: i32,
    /// `NLMSGERR_ATTR_MSG`, of refused filters alone.
    pub(super) words: Option<&'static str>,
}

impl From<i32> for Refusal {
    fn from(errno: i32) -> Self {
        Self { errno, words: None }
    }
}

/// Refuses a request if something is wrong with it.
pub(super) fn refuse_if(is_wrong: bool, errno: i32) -> Result<(), Refusal> {
    if is_wrong { Err(errno.into()) } else { Ok(()) }
}

//! A parsed request, and the reasons to refuse it.

use crate::message::u32_at;

use super::bag::Bag;

/// A request's header, fixed part and attributes.
#[derive(Clone, Debug)]
pub(super) struct Request<'a> {
    /// `RTM_*`.
    pub(super) kind: u16,
    pub(super) flags: u16,
    pub(super) sequence: u32,
    /// The sender's port, for announcements.
    pub(super) port: u32,
    /// True if the sender requested strict checking of GET requests.
    pub(super) is_strict: bool,
    /// The fixed part, without the netlink header.
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

    /// Returns the number at an offset of the fixed part.
    pub(super) fn u32(&self, at: usize) -> u32 {
        u32_at(self.header, at)
    }
}

/// The reason why a request was not executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refusal {
    /// Positive, such as 22 for `EINVAL`.
    pub(super) errno: i32,
    /// `NLMSGERR_ATTR_MSG`; only refused filters have a text.
    pub(super) words: Option<&'static str>,
}

impl From<i32> for Refusal {
    fn from(errno: i32) -> Self {
        Self { errno, words: None }
    }
}

/// Refuses with `errno` if `is_wrong`.
pub(super) fn refuse_if(is_wrong: bool, errno: i32) -> Result<(), Refusal> {
    if is_wrong { Err(errno.into()) } else { Ok(()) }
}

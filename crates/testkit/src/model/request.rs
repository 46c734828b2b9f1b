//! A request, taken apart, and what refuses it.

use crate::message::{Kind, u32_at};

use super::bag::Bag;
use super::numbers::EINVAL;

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

impl<'a> Request<'a> {
    /// Takes the body apart.
    ///
    /// # Errors
    ///
    /// `EINVAL` when it is shorter than the fixed part of its kind.
    pub(super) fn read(
        kind: Kind,
        message: (u16, u16, u32),
        port: u32,
        is_strict: bool,
        body: &'a [u8],
    ) -> Result<Self, Refusal> {
        let (header, rest) = body.split_at_checked(kind.header_len()).ok_or(EINVAL)?;
        let (kind, flags, sequence) = message;
        Ok(Self {
            kind,
            flags,
            sequence,
            port,
            is_strict,
            header,
            attrs: Bag::read(rest),
        })
    }

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

    /// Refuses a strict dump with an attribute that the kernel cannot filter by. It says whether it
    /// knows the attribute, which is how a reader learns which markers it keeps.
    ///
    /// # Errors
    ///
    /// `EINVAL`, with the reason.
    pub(super) fn only_filters(&self, filters: &[u16], greatest: u16) -> Result<(), Refusal> {
        let other = self
            .attrs
            .numbers()
            .find(|number| !filters.contains(number));
        match other.filter(|_| self.is_strict) {
            None => Ok(()),
            Some(number) => Err(Refusal {
                errno: EINVAL,
                words: Some(match number > greatest {
                    true => "Unknown attribute type",
                    false => "Unsupported attribute in dump request",
                }),
            }),
        }
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

/// All that a dump gives.
#[derive(Debug, Default)]
pub(super) struct Dump {
    pub(super) rows: Vec<crate::message::RawMessage>,
    /// `NLM_F_DUMP_FILTERED` of each row.
    pub(super) flags: u16,
    /// The same of the end.
    pub(super) end_flags: u16,
    /// The reason for which there are no more rows.
    pub(super) refusal: Option<Refusal>,
}

impl Dump {
    /// A dump that flags its rows where a filter applies.
    pub(super) fn filtered(
        rows: Vec<crate::message::RawMessage>,
        is_filtered: bool,
    ) -> Result<Self, Refusal> {
        Ok(Self {
            rows,
            flags: if is_filtered {
                super::numbers::NLM_F_DUMP_FILTERED
            } else {
                0
            },
            ..Self::default()
        })
    }
}

impl From<Refusal> for Dump {
    fn from(refusal: Refusal) -> Self {
        Self {
            refusal: Some(refusal),
            ..Self::default()
        }
    }
}

//! What comes in: one request taken apart, and what is said when it is refused.

use crate::message::{attributes, u16_at, u32_at};

/// A request's header, fixed part and attributes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request<'a> {
    /// `RTM_*`.
    pub(crate) kind: u16,
    pub(crate) flags: u16,
    pub(crate) sequence: u32,
    /// The sender's port id, for the echo in announcements.
    pub(crate) port: u32,
    /// Whether the sender asked for strict checking of GET requests.
    pub(crate) strict: bool,
    /// All after the netlink header.
    pub(crate) body: &'a [u8],
}

pub(crate) const NLM_F_REQUEST: u16 = 0x01;
pub(crate) const NLM_F_MULTI: u16 = 0x02;
pub(crate) const NLM_F_ACK: u16 = 0x04;
/// In the kernel's own messages.
pub(crate) const NLM_F_DUMP_FILTERED: u16 = 0x20;
pub(crate) const NLM_F_REPLACE: u16 = 0x100;
pub(crate) const NLM_F_EXCL: u16 = 0x200;
pub(crate) const NLM_F_CREATE: u16 = 0x400;
pub(crate) const NLM_F_APPEND: u16 = 0x800;
/// `NLM_F_ROOT | NLM_F_MATCH`: for a GET request either bit asks for a dump.
pub(crate) const NLM_F_DUMP: u16 = 0x300;
/// Of a DEL request.
pub(crate) const NLM_F_BULK: u16 = 0x200;

impl<'a> Request<'a> {
    pub(crate) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// The address family, the first byte of each fixed part.
    pub(crate) fn family(&self) -> u8 {
        self.body.first().copied().unwrap_or(0)
    }

    /// The fixed part, and the attributes behind it.
    ///
    /// # Errors
    ///
    /// `EINVAL` when the message is shorter than its fixed part (`nlmsg_parse`).
    pub(crate) fn parts<const N: usize>(&self) -> Result<(&'a [u8; N], Attributes<'a>), Refusal> {
        let short = Refusal::errno(EINVAL).because("Invalid header length");
        let (fixed, rest) = self.body.split_first_chunk::<N>().ok_or(short)?;
        Ok((fixed, Attributes { bytes: rest }))
    }
}

/// The attributes of a request. Of one that comes twice the last counts, as in the kernel's table.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Attributes<'a> {
    pub(crate) bytes: &'a [u8],
}

impl<'a> Attributes<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Number (without the nested and byte-order flags) and payload of each.
    pub(crate) fn all(self) -> impl Iterator<Item = (u16, &'a [u8])> {
        attributes(self.bytes)
    }

    pub(crate) fn get(self, number: u16) -> Option<&'a [u8]> {
        self.all()
            .filter(|(n, _)| *n == number)
            .last()
            .map(|(_, payload)| payload)
    }

    pub(crate) fn nested(self, number: u16) -> Option<Attributes<'a>> {
        self.get(number).map(Attributes::new)
    }

    /// The first byte.
    pub(crate) fn u8(self, number: u16) -> Option<u8> {
        self.get(number)?.first().copied()
    }

    /// The first two bytes, in the machine's order.
    pub(crate) fn u16(self, number: u16) -> Option<u16> {
        let payload = self.get(number)?;
        (payload.len() >= 2).then(|| u16_at(payload, 0))
    }

    /// The first four bytes, in the machine's order.
    pub(crate) fn u32(self, number: u16) -> Option<u32> {
        let payload = self.get(number)?;
        (payload.len() >= 4).then(|| u32_at(payload, 0))
    }

    /// The first `N` bytes.
    pub(crate) fn array<const N: usize>(self, number: u16) -> Option<[u8; N]> {
        self.get(number)?.first_chunk::<N>().copied()
    }

    /// Up to a NUL, if there is one.
    pub(crate) fn string(self, number: u16) -> Option<Vec<u8>> {
        let payload = self.get(number)?;
        let end = payload.iter().position(|byte| *byte == 0);
        Some(payload[..end.unwrap_or(payload.len())].to_vec())
    }
}

/// Why a request was not carried out, as the kernel tells it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// Positive.
    pub(crate) errno: i32,
    /// `NLMSGERR_ATTR_MSG`.
    pub(crate) words: Option<&'static str>,
}

impl Refusal {
    pub(crate) const fn errno(errno: i32) -> Self {
        Self { errno, words: None }
    }

    pub(crate) const fn because(self, words: &'static str) -> Self {
        Self {
            words: Some(words),
            ..self
        }
    }
}

impl From<i32> for Refusal {
    fn from(errno: i32) -> Self {
        Self::errno(errno)
    }
}

// asm-generic/errno-base.h, errno.h
pub(crate) const EPERM: i32 = 1;
pub(crate) const ENOENT: i32 = 2;
pub(crate) const ESRCH: i32 = 3;
pub(crate) const EAGAIN: i32 = 11;
pub(crate) const EACCES: i32 = 13;
pub(crate) const EBUSY: i32 = 16;
pub(crate) const EEXIST: i32 = 17;
pub(crate) const ENODEV: i32 = 19;
pub(crate) const EINVAL: i32 = 22;
pub(crate) const ERANGE: i32 = 34;
pub(crate) const EOPNOTSUPP: i32 = 95;
pub(crate) const EAFNOSUPPORT: i32 = 97;
pub(crate) const EADDRNOTAVAIL: i32 = 99;
pub(crate) const ENETDOWN: i32 = 100;
pub(crate) const ENETUNREACH: i32 = 101;
pub(crate) const ENOBUFS: i32 = 105;
pub(crate) const EHOSTUNREACH: i32 = 113;

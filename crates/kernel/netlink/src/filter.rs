//! [`Instruction`]: classic BPF, limited to the needs of a filter on a netlink socket. A message
//! dropped by the filter neither wakes the reader nor fills the queue.
//!
//! A program reads one datagram, beginning with its netlink header. A datagram of an event has one
//! message. The program ends with [`pass`](Instruction::pass) or [`drop`](Instruction::drop). A
//! load from beyond the end of the datagram drops it, so check the [`length`](Instruction::length)
//! first. Jumps go forward, over a number of instructions.
//!
//! A load yields a number in network byte order, but netlink has numbers in host byte order:
//! compare with [`swapped`] and [`swapped_half`] of a number. Source:
//! Documentation/networking/filter.rst in the kernel, `linux/filter.h`.

/// One instruction of a filter program (`struct sock_filter`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    pub(crate) code: u16,
    pub(crate) jt: u8,
    pub(crate) jf: u8,
    pub(crate) k: u32,
}

const LD: u16 = 0x00;
const LDX: u16 = 0x01;
const JMP: u16 = 0x05;
const RET: u16 = 0x06;
const MISC: u16 = 0x07;
const W: u16 = 0x00;
const H: u16 = 0x08;
const B: u16 = 0x10;
const IMM: u16 = 0x00;
const ABS: u16 = 0x20;
const IND: u16 = 0x40;
const LEN: u16 = 0x80;
const JEQ: u16 = 0x10;
const JGE: u16 = 0x30;
const JSET: u16 = 0x40;
const TAX: u16 = 0x00;
/// `SKF_AD_OFF + SKF_AD_NLATTR`.
const NLATTR: u32 = (-0x1000_i32 + 12).cast_unsigned();

/// Returns a number as a load of its four bytes yields it.
#[must_use]
pub const fn swapped(number: u32) -> u32 {
    u32::from_be_bytes(number.to_ne_bytes())
}

/// Returns a number as a load of its two bytes yields it.
#[must_use]
pub const fn swapped_half(number: u16) -> u32 {
    u16::from_be_bytes(number.to_ne_bytes()) as u32
}

impl Instruction {
    const fn new(code: u16, k: u32) -> Self {
        let (jt, jf) = (0, 0);
        Self { code, jt, jf, k }
    }

    const fn jump(code: u16, k: u32, yes: u8, no: u8) -> Self {
        let (code, jt, jf) = (JMP | code, yes, no);
        Self { code, jt, jf, k }
    }

    /// Loads the datagram's length in bytes.
    #[must_use]
    pub const fn length() -> Self {
        Self::new(LD | W | LEN, 0)
    }

    /// Loads the four bytes at an offset.
    #[must_use]
    pub const fn word(at: u32) -> Self {
        Self::new(LD | W | ABS, at)
    }

    /// Loads the two bytes at an offset.
    #[must_use]
    pub const fn half(at: u32) -> Self {
        Self::new(LD | H | ABS, at)
    }

    /// Loads the byte at an offset.
    #[must_use]
    pub const fn byte(at: u32) -> Self {
        Self::new(LD | B | ABS, at)
    }

    /// Loads the first byte of the attribute whose offset was loaded by
    /// [`attribute`](Self::attribute).
    #[must_use]
    pub const fn first_byte() -> [Self; 2] {
        [Self::new(MISC | TAX, 0), Self::new(LD | B | IND, 4)]
    }

    /// Loads the offset of the attribute with a number, among those that begin at `begin`; 0 if
    /// there is none.
    #[must_use]
    pub const fn attribute(begin: u32, number: u16) -> [Self; 3] {
        [
            Self::new(LD | IMM, begin),
            Self::new(LDX | IMM, number as u32),
            Self::new(LD | W | ABS, NLATTR),
        ]
    }

    /// Skips `yes` instructions if the loaded value is `number`, else `no`.
    #[must_use]
    pub const fn equal(number: u32, yes: u8, no: u8) -> Self {
        Self::jump(JEQ, number, yes, no)
    }

    /// Skips `yes` instructions if the loaded value is `number` or more, else `no`.
    #[must_use]
    pub const fn at_least(number: u32, yes: u8, no: u8) -> Self {
        Self::jump(JGE, number, yes, no)
    }

    /// Skips `yes` instructions if the loaded value has any of the bits of `mask`, else `no`.
    #[must_use]
    pub const fn any_of(mask: u32, yes: u8, no: u8) -> Self {
        Self::jump(JSET, mask, yes, no)
    }

    /// Ends the program: the whole datagram is queued.
    #[must_use]
    pub const fn pass() -> Self {
        Self::new(RET, u32::MAX)
    }

    /// Ends the program: the datagram is dropped.
    #[must_use]
    pub const fn drop() -> Self {
        Self::new(RET, 0)
    }
}

//! Attribute policies: what the kernel refuses of an attribute before anybody looks at it (`lib/nlattr.c`).
//!
//! Not for what a value means. Attributes without a policy, and numbers above the highest, pass unseen unless the parse
//! is strict.

use super::request::{Attributes, EINVAL, ERANGE, Refusal};

/// What an attribute has to look like.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    U8,
    /// At most this (`NLA_POLICY_MAX`).
    U8Max(u8),
    /// No other bits than these (`NLA_POLICY_MASK`).
    U8Mask(u8),
    U16,
    U32,
    /// No other bits than these (`NLA_POLICY_MASK`).
    U32Mask(u32),
    U64,
    /// `NLA_UNSPEC` with a length: at least so many bytes.
    AtLeast(usize),
    /// `NLA_BINARY`: at most so many bytes.
    AtMost(usize),
    /// `NLA_STRING`: at least one byte, at most so many before a final NUL.
    Text(usize),
    /// `NLA_NESTED`: empty, or room for one attribute's header.
    Nested,
    /// `NLA_REJECT`: the kernel tells it, and nobody may.
    Never,
}

/// The attributes of one kind of message.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) shapes: &'static [(u16, Shape)],
    /// The highest number known (`*_MAX`).
    pub(crate) max: u16,
    /// From this number on every parse is strict (`strict_start_type`).
    pub(crate) strict_from: u16,
}

impl Policy {
    /// Looks at all attributes, also those that come twice.
    ///
    /// A `strict` parse is that of GET requests under strict checking: unknown numbers and left-over bytes are refused.
    ///
    /// # Errors
    ///
    /// `ERANGE` for most lengths and ranges, `EINVAL` for the rest.
    pub(crate) fn check(&self, attributes: Attributes<'_>, strict: bool) -> Result<(), Refusal> {
        let mut rest = attributes.bytes;
        while let Some(&[a, b, c, d]) = rest.first_chunk::<4>() {
            let length = usize::from(u16::from_ne_bytes([a, b]));
            let Some(payload) = rest.get(4..length) else {
                break;
            };
            self.check_one(u16::from_ne_bytes([c, d]), payload, strict)?;
            rest = rest.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        }
        if strict && !rest.is_empty() {
            return Err(Refusal::errno(EINVAL).because("bytes leftover after parsing attributes"));
        }
        Ok(())
    }

    fn check_one(&self, raw: u16, payload: &[u8], strict: bool) -> Result<(), Refusal> {
        const NLA_F_NESTED: u16 = 0x8000;
        const NLA_TYPE_MASK: u16 = 0x3fff;
        let number = raw & NLA_TYPE_MASK;
        if number == 0 || number > self.max {
            return if strict {
                Err(Refusal::errno(EINVAL).because("Unknown attribute type"))
            } else {
                Ok(())
            };
        }
        let exact = number >= self.strict_from;
        let shape = self.shapes.iter().find(|(n, _)| *n == number);
        let Some((_, shape)) = shape else {
            return if exact {
                Err(Refusal::errno(EINVAL).because("Unsupported attribute"))
            } else {
                Ok(())
            };
        };
        if matches!(shape, Shape::Never) {
            return Err(Refusal::errno(EINVAL).because("Attribute failed policy validation"));
        }
        let width = shape.width();
        if exact {
            if width.is_some_and(|width| payload.len() != width) {
                return Err(Refusal::errno(EINVAL).because("invalid attribute length"));
            }
            match (shape, raw & NLA_F_NESTED != 0) {
                (Shape::Nested, false) => {
                    return Err(Refusal::errno(EINVAL).because("NLA_F_NESTED is missing"));
                }
                (Shape::Nested | Shape::AtLeast(_), _) | (_, false) => {}
                (_, true) => {
                    return Err(Refusal::errno(EINVAL).because("NLA_F_NESTED not expected"));
                }
            }
        }
        let fits = match shape {
            Shape::AtLeast(length) => payload.len() >= *length,
            Shape::AtMost(length) => payload.len() <= *length,
            Shape::Text(length) => {
                let text = payload.strip_suffix(&[0]).unwrap_or(payload);
                !payload.is_empty() && text.len() <= *length
            }
            Shape::Nested => payload.is_empty() || payload.len() >= 4,
            _ => width.is_none_or(|width| payload.len() >= width),
        };
        if !fits {
            return Err(Refusal::errno(ERANGE).because("Attribute failed policy validation"));
        }
        match (shape, payload.first(), payload.first_chunk::<4>()) {
            (Shape::U8Max(max), Some(value), _) if value > max => {
                Err(Refusal::errno(ERANGE).because("integer out of range"))
            }
            (Shape::U8Mask(mask), Some(value), _) if value & !mask != 0 => {
                Err(Refusal::errno(EINVAL).because("reserved bit set"))
            }
            (Shape::U32Mask(mask), _, Some(value)) if u32::from_ne_bytes(*value) & !mask != 0 => {
                Err(Refusal::errno(EINVAL).because("reserved bit set"))
            }
            _ => Ok(()),
        }
    }
}

impl Shape {
    /// Bytes of a number.
    fn width(&self) -> Option<usize> {
        match self {
            Self::U8 | Self::U8Max(_) | Self::U8Mask(_) => Some(1),
            Self::U16 => Some(2),
            Self::U32 | Self::U32Mask(_) => Some(4),
            Self::U64 => Some(8),
            Self::AtLeast(_) | Self::AtMost(_) | Self::Text(_) | Self::Nested | Self::Never => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::push_attribute;

    const POLICY: Policy = Policy {
        shapes: &[
            (1, Shape::U32),
            (2, Shape::Text(3)),
            (3, Shape::AtMost(2)),
            (5, Shape::U8Max(9)),
            (6, Shape::Nested),
        ],
        max: 7,
        strict_from: 5,
    };

    fn verdict(number: u16, payload: &[u8], strict: bool) -> i32 {
        let mut bytes = Vec::new();
        push_attribute(&mut bytes, number, payload);
        match POLICY.check(Attributes::new(&bytes), strict) {
            Ok(()) => 0,
            Err(refusal) => refusal.errno,
        }
    }

    #[test]
    fn lengths_are_refused_as_the_kernel_does() {
        assert_eq!(verdict(1, &[0; 3], false), ERANGE);
        assert_eq!(verdict(1, &[0; 5], false), 0, "longer is let through");
        assert_eq!(verdict(2, b"", false), ERANGE);
        assert_eq!(verdict(2, b"abc\0", false), 0);
        assert_eq!(verdict(2, b"abcd", false), ERANGE);
        assert_eq!(verdict(3, &[0; 3], false), ERANGE);
        assert_eq!(verdict(4, &[0; 99], false), 0, "without a policy");
    }

    #[test]
    fn new_attributes_are_held_to_their_length() {
        assert_eq!(verdict(5, &[9], false), 0);
        assert_eq!(verdict(5, &[10], false), ERANGE);
        assert_eq!(verdict(5, &[0, 0], false), EINVAL);
        assert_eq!(verdict(0x8005, &[0], false), EINVAL, "not a nest");
        assert_eq!(verdict(6, &[0; 4], false), EINVAL, "no nest flag");
        assert_eq!(verdict(0x8006, &[0; 3], false), ERANGE);
        assert_eq!(verdict(0x8006, &[0; 4], false), 0);
        assert_eq!(verdict(7, &[], false), EINVAL, "without a policy");
    }

    #[test]
    fn unknown_numbers_and_left_over_bytes_matter_when_strict() {
        assert_eq!(verdict(8, &[], false), 0);
        assert_eq!(verdict(8, &[], true), EINVAL);
        let cut = [5, 0, 1, 0];
        assert!(POLICY.check(Attributes::new(&cut), false).is_ok());
        assert!(POLICY.check(Attributes::new(&cut), true).is_err());
    }
}

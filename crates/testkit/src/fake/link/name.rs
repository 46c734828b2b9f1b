//! Names of links (`dev_valid_name`, `dev_alloc_name`).

use super::super::request::{EEXIST, EINVAL, Refusal};
use super::Links;

const IFNAMSIZ: usize = 16;
/// `ENFILE`.
const TOO_MANY: i32 = 23;
/// So many links are numbered by a pattern at most: the bits of a page.
const NUMBERS: usize = 32 * 1024;

impl Links {
    /// The name that a link gets which asks for this one: itself, or the first free one of a pattern such as `veth%d`.
    pub(super) fn valid_name(&self, wanted: &[u8]) -> Result<Vec<u8>, Refusal> {
        if !is_valid(wanted) {
            return Err(EINVAL.into());
        }
        let Some(at) = wanted.iter().position(|byte| *byte == b'%') else {
            return match self.named(wanted) {
                Some(_) => Err(EEXIST.into()),
                None => Ok(wanted.to_vec()),
            };
        };
        let (head, tail) = (&wanted[..at], wanted.get(at + 2..).unwrap_or(&[]));
        if wanted.get(at + 1) != Some(&b'd') || tail.contains(&b'%') {
            return Err(EINVAL.into());
        }
        (0..NUMBERS)
            .map(|number| {
                let mut name = [head, number.to_string().as_bytes(), tail].concat();
                name.truncate(IFNAMSIZ - 1);
                name
            })
            .find(|name| self.named(name).is_none())
            .ok_or(TOO_MANY.into())
    }
}

fn is_valid(name: &[u8]) -> bool {
    let space = |byte: &u8| matches!(byte, b'\t'..=b'\r' | b' ' | 0xa0);
    !name.is_empty()
        && name.len() < IFNAMSIZ
        && name != b"."
        && name != b".."
        && !name
            .iter()
            .any(|byte| matches!(byte, b'/' | b':') || space(byte))
}

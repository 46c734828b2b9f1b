//! Requests as bytes, for those without words in `ip`: `KIND VERB HEADER [NUMBER=BYTES]...`.

use trueup_testkit::{Action, Kind, RawMessage};

/// A raw message with its flags.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct RawRequest {
    pub(super) message: RawMessage,
    pub(super) flags: u16,
}

/// A problem: its place (in bytes from the start of the line), and the remedy.
pub(super) type Problem = (usize, String);

impl RawRequest {
    /// Parses a line; `index` returns an interface's index by its name.
    pub(super) fn parse(
        text: &str,
        index: impl Fn(&str) -> Option<u32>,
    ) -> Result<RawRequest, Problem> {
        let mut words = text
            .split(' ')
            .scan(0, |end, word| {
                let start = *end;
                *end += word.len() + 1;
                Some((start, word))
            })
            .filter(|(_, word)| !word.is_empty());
        let mut next = |what: &str| {
            let missing = (text.len(), format!("{what} is missing"));
            words.next().ok_or(missing)
        };
        let (at, word) = next("the kind of object")?;
        let kind = Kind::ALL.into_iter().find(|kind| kind.word() == word);
        let kind = kind.ok_or_else(|| (at, format!("{word:?} is no kind of object")))?;
        let (at, word) = next("a verb")?;
        let (action, flags) = verb(word).ok_or_else(|| {
            let remedy = "write del, new, or flags: create, excl, replace and append, joined by +";
            (at, format!("{word:?} is no verb: {remedy}"))
        })?;
        let (at, word) = next("the header")?;
        let header = bytes(word, &index).map_err(|message| (at, message))?;
        if header.len() != kind.header_len() {
            let wanted = kind.header_len();
            return Err((at, format!("the header of this kind has {wanted} bytes")));
        }
        let mut message = RawMessage { kind, action, header, attrs: [].into() };
        for (at, word) in words {
            let attribute = word
                .split_once('=')
                .and_then(|(number, value)| Some((number.parse().ok()?, value)));
            let Some((number, value)) = attribute else {
                return Err((at, format!("{word:?} is no attribute: write NUMBER=BYTES")));
            };
            let value = bytes(value, &index).map_err(|message| (at, message))?;
            message.attrs.insert(number, value);
        }
        Ok(RawRequest { message, flags })
    }
}

fn verb(word: &str) -> Option<(Action, u16)> {
    if word == "del" {
        return Some((Action::Del, 0));
    }
    let mut flags = 0;
    for flag in word.split('+') {
        flags |= match flag {
            "new" => 0,
            "replace" => 0x100,
            "excl" => 0x200,
            "create" => 0x400,
            "append" => 0x800,
            _ => return None,
        };
    }
    Some((Action::New, flags))
}

/// Parses hexadecimal digits; `{v0}` stands for v0's index.
fn bytes(text: &str, index: impl Fn(&str) -> Option<u32>) -> Result<Vec<u8>, String> {
    let mut bytes = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        if let Some((name, after)) = rest.strip_prefix('{').and_then(|rest| rest.split_once('}')) {
            let index = index(name).ok_or_else(|| format!("there never was a {name}"))?;
            bytes.extend(index.to_ne_bytes());
            rest = after;
            continue;
        }
        let digits = rest.split_at_checked(2);
        let byte = digits.and_then(|(two, after)| Some((u8::from_str_radix(two, 16).ok()?, after)));
        let Some((byte, after)) = byte else {
            return Err(format!(
                "{text:?}: write two hexadecimal digits for each byte, and {{v0}} for the index of v0"
            ));
        };
        bytes.push(byte);
        rest = after;
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_read_as_bytes() {
        let read = RawRequest::parse("address create+excl 02180000{v0} 11=74 1=0a070001", |name| {
            (name == "v0").then_some(7)
        });
        let RawRequest { message, flags } = read.unwrap();
        assert_eq!((message.kind, message.action), (Kind::Address, Action::New));
        assert_eq!((message.device(), flags), (7, 0x600));
        assert_eq!(message.protocol(), Some(116));
        assert_eq!(message.attrs[&1], [10, 7, 0, 1]);
    }

    #[test]
    fn a_problem_has_a_place() {
        for (text, at, message) in [
            ("door new 00", 0, "no kind"),
            ("route push 00", 6, "no verb"),
            ("route new 0", 10, "two hexadecimal digits"),
            ("route new 00", 10, "12 bytes"),
            ("route new", 9, "the header is missing"),
            ("address new 02180000{v7}", 12, "never was a v7"),
            ("address new 0218000000000000 x=00", 29, "NUMBER=BYTES"),
        ] {
            let problem = RawRequest::parse(text, |_| None).unwrap_err();
            assert!(problem.0 == at && problem.1.contains(message), "{text}: {problem:?}");
        }
    }
}

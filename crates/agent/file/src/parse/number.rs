//! Numbers, ranges of numbers, and times.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use trueup_net::FOREVER;

use crate::value::{Node, Result, Value, fault, text};

/// Reads a whole number in a range.
pub(crate) fn number<T>(range: RangeInclusive<T>) -> impl Fn(&Value<'_>) -> Result<T>
where
    T: TryFrom<i64> + PartialOrd + Display,
{
    move |value| match value.node {
        Node::Integer(number) => in_range(value.at, number, &range),
        _ => value.unexpected(format_args!("a number {}", to(&range))),
    }
}

fn to<T: Display>(range: &RangeInclusive<T>) -> String {
    format!("from {} to {}", range.start(), range.end())
}

pub(super) fn in_range<T>(at: usize, number: i64, range: &RangeInclusive<T>) -> Result<T>
where
    T: TryFrom<i64> + PartialOrd + Display,
{
    match T::try_from(number) {
        Ok(number) if range.contains(&number) => Ok(number),
        _ => fault(at, format!("{number} is out of range: write a number {}", to(range))),
    }
}

/// Reads a whole number, or the same in hex as a string: `"0x10"`.
pub(crate) fn bits<T>(range: RangeInclusive<T>) -> impl Fn(&Value<'_>) -> Result<T>
where
    T: TryFrom<i64> + PartialOrd + Display,
{
    move |value| match &value.node {
        Node::Integer(number) => in_range(value.at, *number, &range),
        Node::Text(text) => {
            let hex = text.strip_prefix("0x").filter(|hex| !hex.starts_with('+'));
            match hex.and_then(|hex| i64::from_str_radix(hex, 16).ok()) {
                Some(number) => in_range(value.at, number, &range),
                None => fault(value.at, format!("`{text}` is no number: write 16 or \"0x10\"")),
            }
        }
        _ => value.unexpected(format_args!("a number {} or \"0x...\"", to(&range))),
    }
}

/// Reads a number, or a range as `"FIRST-LAST"`.
pub(crate) fn span<T>(range: RangeInclusive<T>) -> impl Fn(&Value<'_>) -> Result<RangeInclusive<T>>
where
    T: TryFrom<i64> + PartialOrd + Display + Copy,
{
    move |value| {
        let text = match &value.node {
            Node::Integer(number) => {
                let number = in_range(value.at, *number, &range)?;
                return Ok(number..=number);
            }
            Node::Text(text) => text,
            _ => {
                return value.unexpected(format_args!("a number {} or \"FIRST-LAST\"", to(&range)));
            }
        };
        let (first, last) = text.split_once('-').unwrap_or((text, text));
        let (Some(first), Some(last)) = (decimal(first), decimal(last)) else {
            let message = format!("`{text}` is no range: write a number or \"FIRST-LAST\"");
            return fault(value.at, message);
        };
        let (first, last) = (in_range(value.at, first, &range)?, in_range(value.at, last, &range)?);
        if last < first {
            return fault(value.at, format!("the range is empty: write \"{last}-{first}\""));
        }
        Ok(first..=last)
    }
}

/// Reads a text of digits. `None` for anything else.
fn decimal(text: &str) -> Option<i64> {
    text.bytes().all(|b| b.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}

/// The reverse of [`span`].
pub(crate) fn span_node(first: u32, last: u32) -> Node<'static> {
    if first == last { first.into() } else { text(format_args!("{first}-{last}")) }
}

/// Reads a lifetime in seconds, or `"forever"`.
pub(crate) fn lifetime(value: &Value<'_>) -> Result<u32> {
    match &value.node {
        Node::Text(text) if text == "forever" => Ok(FOREVER),
        Node::Integer(number) => in_range(value.at, *number, &(0..=FOREVER - 1)),
        _ => value.unexpected("seconds as a number from 0 to 4294967294, or \"forever\""),
    }
}

/// The reverse of [`lifetime`].
pub(crate) fn lifetime_node(lifetime: u32) -> Node<'static> {
    match lifetime {
        FOREVER => Node::Text("forever".into()),
        seconds => seconds.into(),
    }
}

/// Reads seconds, which may have a fraction, up to `max`.
pub(crate) fn seconds(value: &Value<'_>, max: u32) -> Result<Duration> {
    let seconds = match value.node {
        Node::Integer(number) => {
            return in_range(value.at, number, &(0..=max)).map(|n| Duration::from_secs(n.into()));
        }
        Node::Fraction(seconds) => seconds,
        _ => return value.unexpected(format_args!("seconds as a number from 0 to {max}")),
    };
    match Duration::try_from_secs_f64(seconds) {
        Ok(time) if time <= Duration::from_secs(max.into()) => Ok(time),
        _ => {
            let remedy = format!("write seconds as a number from 0 to {max}");
            fault(value.at, format!("{seconds:?} is out of range: {remedy}"))
        }
    }
}

/// The reverse of [`seconds`].
pub(crate) fn seconds_node(time: Duration) -> Node<'static> {
    match time.subsec_nanos() {
        0 => Node::Integer(i64::try_from(time.as_secs()).unwrap_or(i64::MAX)),
        _ => Node::Fraction(time.as_secs_f64()),
    }
}

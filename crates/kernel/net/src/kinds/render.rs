//! The display of objects in iproute2's words.

use std::fmt;

use super::{Action, ObjectKind};
use crate::devices::Devices;

/// The part of an object to write.
#[derive(Debug)]
pub(crate) enum Words<'a, K> {
    /// Every field.
    All,
    /// The fields that identify it, as a delete needs them.
    Key,
    /// The fields that create it.
    Create,
    /// The fields that change it. Contains the object as it was, if it existed.
    Update(Option<&'a K>),
}

/// The display of a kind's objects.
pub(crate) trait Render: ObjectKind {
    /// iproute2's word for the kind, such as `addr` in `ip addr add`.
    const IP_OBJECT: &'static str;

    /// Returns the option of `ip` needed before the kind's word, with a space.
    fn ip_option(&self) -> &'static str {
        ""
    }

    /// Returns the word that gives the family, with a space, if no other word does.
    fn family_word(&self) -> String {
        String::new()
    }

    /// Returns the kind's word and the verb.
    fn verb(&self, action: Action) -> String {
        let verb = match action {
            Action::Create => "add",
            Action::Update => "replace",
            Action::Delete => "del",
        };
        format!("{} {verb}", Self::IP_OBJECT)
    }

    /// Returns the whole command, if it is not `ip OBJECT VERB`.
    fn own_command(&self, _action: Action) -> Option<String> {
        None
    }

    /// Writes the words after the verb.
    fn write_words(
        &self,
        f: &mut fmt::Formatter<'_>,
        words: &Words<'_, Self>,
        devices: &Devices,
    ) -> fmt::Result;

    /// Returns the value of a field, by the name that [`compare`](super::ObjectKind::compare) uses.
    fn field(&self, field: &str, devices: &Devices) -> Option<String>;
}

/// Returns a value's text, or `none` if it is absent.
pub(crate) fn or_none(value: Option<impl ToString>) -> Option<String> {
    Some(value.map_or_else(|| "none".to_owned(), |value| value.to_string()))
}

/// Returns words without leading space, or `none` if there are none.
pub(crate) fn words_or_none(words: impl ToString) -> Option<String> {
    let text = words.to_string();
    let words = text.trim_start();
    or_none((!words.is_empty()).then_some(words))
}

/// Returns `on` or `off`.
pub(crate) fn on_or_off(on: bool) -> Option<String> {
    Some(if on { "on" } else { "off" }.to_owned())
}

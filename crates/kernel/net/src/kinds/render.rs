//! How objects of a kind are shown, in iproute2's words.

use std::fmt;

use super::{Action, ObjectKind};
use crate::devices::Devices;

/// Which of an object's words are shown.
#[derive(Debug)]
pub(crate) enum Words<'a, K> {
    /// All of it.
    All,
    /// What tells it from any other, as a delete needs it.
    Key,
    /// What creates it.
    Create,
    /// What changes it; the object as it was, where it was there before.
    Update(Option<&'a K>),
}

/// How objects of a kind are shown.
pub(crate) trait Render: ObjectKind {
    /// iproute2's word for the kind: `addr` of `ip addr add`.
    const IP_OBJECT: &'static str;

    /// The option of `ip` that such an object needs before the word for its kind, with a space.
    fn ip_option(&self) -> &'static str {
        ""
    }

    /// What has to be said before the object where no word of it tells the family, with a space.
    fn family_word(&self) -> String {
        String::new()
    }

    /// The word for the kind, and the verb.
    fn verb(&self, action: Action) -> String {
        let verb = match action {
            Action::Create => "add",
            Action::Update => "replace",
            Action::Delete => "del",
        };
        format!("{} {verb}", Self::IP_OBJECT)
    }

    /// The whole command, where it is another than `ip OBJECT VERB`.
    fn own_command(&self, _action: Action) -> Option<String> {
        None
    }

    /// Writes what follows the verb.
    fn write_words(
        &self,
        f: &mut fmt::Formatter<'_>,
        words: &Words<'_, Self>,
        devices: &Devices,
    ) -> fmt::Result;

    /// The value of a field, by the name that [`compare`](super::ObjectKind::compare) has for it.
    fn field(&self, field: &str, devices: &Devices) -> Option<String>;
}

/// A value that may be absent, as it is read.
pub(crate) fn or_none(value: Option<impl ToString>) -> Option<String> {
    Some(value.map_or_else(|| "none".to_owned(), |value| value.to_string()))
}

/// Words that may be none, as they are read.
pub(crate) fn words_or_none(words: impl ToString) -> Option<String> {
    let text = words.to_string();
    let words = text.trim_start();
    or_none((!words.is_empty()).then_some(words))
}

/// A switch, as it is read.
pub(crate) fn on_or_off(on: bool) -> Option<String> {
    Some(if on { "on" } else { "off" }.to_owned())
}

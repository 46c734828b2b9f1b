//! Objects: a key, configuration fields, and a run state.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::hash::{Hash, Hasher};

/// A field's value: a text that may be secret.
///
/// `Debug` and `Display` show a secret as `<secret>`, so it is in no log, report or status. Two
/// values are equal if their texts are, whether secret or not.
///
/// ```
/// use trueup_control::Value;
///
/// let password = Value::secret("hunter2");
/// assert_eq!(password.to_string(), "<secret>");
/// assert_eq!(password.expose(), "hunter2");
/// assert_eq!(Value::from("1024").to_string(), "1024");
/// ```
#[derive(Clone)]
pub struct Value {
    text: String,
    is_secret: bool,
}

/// Objects by key. An object that is not in the map does not exist.
pub type Objects = BTreeMap<String, Object>;

/// An object, as desired or as observed. Its key is in the map that contains it.
///
/// ```
/// use trueup_control::Object;
///
/// let guest = Object::new().with("memory", "1024").with_run_state("running");
/// assert_eq!(guest.fields["memory"].expose(), "1024");
/// assert!(!guest.fields.contains_key("cpus")); // unmanaged
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Object {
    /// Its configuration by field. If a desired object lacks a field, the field is unmanaged.
    pub fields: BTreeMap<String, Value>,
    /// Its run state, such as `running`. If a desired object has none, the run state is unmanaged.
    pub run_state: Option<Value>,
}

impl Value {
    /// Creates a value that may be shown.
    pub fn new(text: impl Into<String>) -> Value {
        Value { text: text.into(), is_secret: false }
    }

    /// Creates a secret value, shown as `<secret>`.
    pub fn secret(text: impl Into<String>) -> Value {
        Value { text: text.into(), is_secret: true }
    }

    /// Returns true if the value was made by [`secret`](Self::secret): `Debug` and `Display` do not
    /// show it.
    pub fn is_secret(&self) -> bool {
        self.is_secret
    }

    /// Returns the text, even of a secret value: for the backend, never for a log.
    pub fn expose(&self) -> &str {
        &self.text
    }

    /// Returns a value with the text changed by `change`; it is secret if this one is.
    pub(crate) fn map(&self, change: impl FnOnce(&str) -> String) -> Value {
        Value { text: change(&self.text), is_secret: self.is_secret }
    }
}

impl Object {
    /// Creates an object without fields and without a run state: as a desired one, it only has to
    /// exist.
    pub fn new() -> Object {
        Object::default()
    }

    /// Sets a field, and replaces an earlier value of it.
    #[must_use]
    pub fn with(mut self, field: impl Into<String>, value: impl Into<Value>) -> Object {
        self.fields.insert(field.into(), value.into());
        self
    }

    /// Sets the run state, such as `running`.
    #[must_use]
    pub fn with_run_state(mut self, state: impl Into<Value>) -> Object {
        self.run_state = Some(state.into());
        self
    }
}

impl<T: Into<String>> From<T> for Value {
    fn from(text: T) -> Value {
        Value::new(text)
    }
}

impl PartialEq for Value {
    fn eq(&self, other: &Value) -> bool {
        self.text == other.text
    }
}

impl Eq for Value {}

impl PartialOrd for Value {
    fn partial_cmp(&self, other: &Value) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Value {
    fn cmp(&self, other: &Value) -> Ordering {
        self.text.cmp(&other.text)
    }
}

impl Hash for Value {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.text.hash(state);
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_secret { f.write_str("<secret>") } else { self.text.fmt(f) }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(if self.is_secret { "<secret>" } else { &self.text })
    }
}

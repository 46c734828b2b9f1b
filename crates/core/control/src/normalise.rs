//! Normalisers: the canonical form of a field, so that what a backend rewrites is no drift.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::{Object, Value};

type Normaliser = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// The normalisers by field. A field without one is compared as it is.
///
/// A normaliser maps each text that a backend stores alike to one text. It is applied to the
/// desired and to the observed value, and only for the comparison: an action writes the desired
/// value as declared. It has to be idempotent. `check_backend` in [trueup-contracts](https://docs.rs/trueup-contracts)
/// checks all of them against a real backend.
#[derive(Clone, Default)]
pub struct Normalisers {
    by_field: BTreeMap<String, Normaliser>,
}

impl Normalisers {
    /// Makes an empty registry.
    pub fn new() -> Normalisers {
        Normalisers::default()
    }

    /// Adds a normaliser for a field; `run_state` is the run state. A second one for the same field
    /// is applied after the first.
    #[must_use]
    pub fn with(
        mut self,
        field: impl Into<String>,
        normaliser: impl Fn(&str) -> String + Send + Sync + 'static,
    ) -> Normalisers {
        let name = field.into();
        let both: Normaliser = match self.by_field.remove(&name) {
            Some(first) => Arc::new(move |text| normaliser(&first(text))),
            None => Arc::new(normaliser),
        };
        self.by_field.insert(name, both);
        self
    }

    /// Returns the canonical form of a value of a field. It is secret if the value is.
    pub fn value(&self, field: &str, value: &Value) -> Value {
        match self.by_field.get(field) {
            Some(normaliser) => value.map(|text| normaliser(text)),
            None => value.clone(),
        }
    }

    /// Returns the canonical form of an object.
    pub fn object(&self, object: &Object) -> Object {
        let fields =
            object.fields.iter().map(|(field, value)| (field.clone(), self.value(field, value)));
        let run_state = object.run_state.as_ref();
        Object {
            fields: fields.collect(),
            run_state: run_state.map(|state| self.value("run_state", state)),
        }
    }

    /// Returns true if two values of a field have the same canonical form.
    pub fn is_equal(&self, field: &str, a: &Value, b: &Value) -> bool {
        a == b || self.value(field, a) == self.value(field, b)
    }

    /// Returns true if both are none, or have the same canonical form.
    pub(crate) fn is_same(&self, field: &str, a: Option<&Value>, b: Option<&Value>) -> bool {
        match (a, b) {
            (Some(a), Some(b)) => self.is_equal(field, a, b),
            (a, b) => a.is_none() && b.is_none(),
        }
    }
}

impl fmt::Debug for Normalisers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.by_field.keys()).finish()
    }
}

/// Normalises a text by removing white space at its end: a backend adds a newline, or removes it.
pub fn trim_end(text: &str) -> String {
    text.trim_end().to_owned()
}

/// Normalises a text whose case means nothing, such as a MAC address or a UUID.
pub fn lower_case(text: &str) -> String {
    text.to_ascii_lowercase()
}

/// Returns a normaliser of numbers that a backend rounds up to a multiple of `step`: memory in
/// bytes to MiB. A text that is no number, or a multiple beyond `u64`, stays as it is.
pub fn round_up(step: u64) -> impl Fn(&str) -> String + Send + Sync + 'static {
    move |text| {
        let number = text.trim().parse::<u64>().ok();
        let rounded = number.and_then(|number| number.checked_next_multiple_of(step.max(1)));
        rounded.map_or_else(|| text.to_owned(), |number| number.to_string())
    }
}

//! Normalisers: the canonical form of a field, so that a backend's rewriting does not count as
//! drift.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use crate::{Object, Value};

type Normaliser = Arc<dyn Fn(&str) -> String + Send + Sync>;

/// The normalisers by field. A field without one is compared unchanged.
///
/// A normaliser maps all texts that a backend stores alike to one text. It is applied to the
/// desired and the observed value, only for the comparison: an action writes the desired value as
/// declared. It must be idempotent. `check_backend` in
/// [trueup-contracts](https://docs.rs/trueup-contracts) checks all of them against a real backend.
///
/// ```
/// use trueup_control::{Normalisers, lower_case, round_up};
///
/// let normalisers = Normalisers::new().with("mac", lower_case).with("memory", round_up(1024));
/// assert!(normalisers.is_equal("mac", &"02:00:AB:00:00:01".into(), &"02:00:ab:00:00:01".into()));
/// assert!(normalisers.is_equal("memory", &"1000".into(), &"1024".into()));
/// assert!(!normalisers.is_equal("name", &"A".into(), &"a".into()));
/// ```
#[derive(Clone, Default)]
pub struct Normalisers {
    by_field: BTreeMap<String, Normaliser>,
}

impl Normalisers {
    /// Creates a registry in which each value equals only itself.
    pub fn new() -> Normalisers {
        Normalisers::default()
    }

    /// Adds a normaliser for a field; `run_state` names the run state. A second one for the same
    /// field is applied after the first.
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

    /// Returns a value's canonical form. It is secret if the value is.
    pub fn value(&self, field: &str, value: &Value) -> Value {
        match self.by_field.get(field) {
            Some(normaliser) => value.map(|text| normaliser(text)),
            None => value.clone(),
        }
    }

    /// Returns an object's canonical form: its fields' and its run state's.
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

    /// Returns true if both are `None`, or have the same canonical form.
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

/// Removes white space at a text's end, for backends that add or remove a newline.
pub fn trim_end(text: &str) -> String {
    text.trim_end().to_owned()
}

/// Converts a text to lower case, if its case has no meaning, as in a MAC address or a UUID.
pub fn lower_case(text: &str) -> String {
    text.to_ascii_lowercase()
}

/// Returns a normaliser for numbers that a backend rounds up to a multiple of `step`, such as
/// memory in bytes to MiB. Leaves a text unchanged if it is not a number, or its multiple is beyond
/// `u64`.
///
/// ```
/// let to_mib = trueup_control::round_up(1 << 20);
/// assert_eq!(to_mib("3000000"), "3145728");
/// assert_eq!(to_mib("much"), "much"); // not a number
/// ```
pub fn round_up(step: u64) -> impl Fn(&str) -> String + Send + Sync + 'static {
    move |text| {
        let number = text.trim().parse::<u64>().ok();
        let rounded = number.and_then(|number| number.checked_next_multiple_of(step.max(1)));
        rounded.map_or_else(|| text.to_owned(), |number| number.to_string())
    }
}

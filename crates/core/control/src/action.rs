//! Actions: the requests to a backend.

use std::fmt;

use crate::{Object, Value};

/// An action on one object, from a plan or a job.
///
/// ```
/// use trueup_control::{Action, Verb};
///
/// let action = Action::new("vm7", Verb::Configure).with("memory", "2048").with_reason("differs");
/// assert_eq!(action.to_string(), "vm7: configure (memory: 2048)");
/// assert_eq!(action.new_value("memory").map(|it| it.expose()), Some("2048"));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Action {
    /// The object's key, as in [`Objects`](crate::Objects).
    pub key: String,
    /// The effect on the object: create, configure, change the run state, destroy, or a job's own.
    pub verb: Verb,
    /// The fields to set, with their old and new values; for a verb of the backend, its parameters.
    pub changes: Vec<Change>,
    /// The old and the new run state, for [`Verb::SetRunState`] and [`Verb::Create`].
    pub run_state: Option<Change>,
    /// The reason for the action, for reports and logs.
    pub reason: String,
}

/// The effect of an action on its object.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Verb {
    /// Creates the object with all desired fields.
    Create,
    /// Changes fields of the object's configuration.
    Configure,
    /// Brings the object into another run state.
    SetRunState,
    /// Ends the object's existence, as far as the backend can.
    Destroy,
    /// A verb of the backend, for jobs, such as `snapshot` or `migrate`.
    Other(String),
}

/// A field's change, with its old and its new value.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Change {
    /// The field's name; `run_state` for the run state.
    pub field: String,
    /// The old value, as observed; `None` if the field had none.
    pub old: Option<Value>,
    /// The new value, as desired.
    pub new: Value,
}

impl Action {
    /// Creates an action without changes, for a job:
    /// `Action::new("vm7", Verb::Other("snapshot"…))`.
    pub fn new(key: impl Into<String>, verb: Verb) -> Action {
        Action {
            key: key.into(),
            verb,
            changes: Vec::new(),
            run_state: None,
            reason: "requested".to_owned(),
        }
    }

    /// Adds a field to set, or a parameter.
    #[must_use]
    pub fn with(mut self, field: impl Into<String>, new: impl Into<Value>) -> Action {
        self.changes.push(Change { field: field.into(), old: None, new: new.into() });
        self
    }

    /// Sets the run state to reach, such as `running`.
    #[must_use]
    pub fn with_run_state(mut self, new: impl Into<Value>) -> Action {
        self.run_state = Some(Change::run_state(None, new.into()));
        self
    }

    /// Sets the reason, for reports and logs.
    #[must_use]
    pub fn with_reason(mut self, reason: impl Into<String>) -> Action {
        self.reason = reason.into();
        self
    }

    /// Returns the new value of a field or a parameter; `None` if the action does not set it.
    pub fn new_value(&self, field: &str) -> Option<&Value> {
        let change = self.changes.iter().find(|change| change.field == field);
        change.map(|change| &change.new)
    }

    /// Returns all changes, with the run state's last.
    pub fn all_changes(&self) -> impl Iterator<Item = &Change> {
        self.changes.iter().chain(&self.run_state)
    }

    /// Fills in the old values, so that the object later shows if the action took effect.
    pub(crate) fn fill_in_old(&mut self, observed: Option<&Object>) {
        let (Some(object), false) = (observed, matches!(self.verb, Verb::Other(_))) else {
            return;
        };
        for change in &mut self.changes {
            change.old = object.fields.get(&change.field).cloned();
        }
        if let Some(change) = &mut self.run_state {
            change.old.clone_from(&object.run_state);
        }
    }

    /// Applies the action to an object, as a backend without surprises would: to simulate a backend
    /// in tests. A verb of the backend changes nothing.
    pub fn apply_to(&self, object: Option<Object>) -> Option<Object> {
        match self.verb {
            Verb::Destroy => None,
            Verb::Other(_) => object,
            _ => {
                let mut after = object.unwrap_or_default();
                for change in &self.changes {
                    after.fields.insert(change.field.clone(), change.new.clone());
                }
                if let Some(change) = &self.run_state {
                    after.run_state = Some(change.new.clone());
                }
                Some(after)
            }
        }
    }
}

impl Change {
    pub(crate) fn run_state(old: Option<Value>, new: Value) -> Change {
        Change { field: "run_state".to_owned(), old, new }
    }
}

impl fmt::Display for Verb {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Verb::Create => "create",
            Verb::Configure => "configure",
            Verb::SetRunState => "set_run_state",
            Verb::Destroy => "destroy",
            Verb::Other(verb) => verb,
        })
    }
}

/// Formats the change as `memory: 1024 -> 2048`.
impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.old {
            Some(old) => write!(f, "{}: {old} -> {}", self.field, self.new),
            None => write!(f, "{}: {}", self.field, self.new),
        }
    }
}

/// Formats the action as `vm7: configure (memory: 1024 -> 2048)`.
impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.verb)?;
        for (at, change) in self.all_changes().enumerate() {
            write!(f, "{}{change}", if at == 0 { " (" } else { ", " })?;
        }
        if self.all_changes().next().is_some() {
            f.write_str(")")?;
        }
        Ok(())
    }
}

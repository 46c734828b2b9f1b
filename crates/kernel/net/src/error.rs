//! Errors in desired objects.

use std::fmt;

use trueup_diff::Duplicate;

use crate::devices::Problem;
use crate::kinds::Kind;
use crate::routes::Routes;

/// An error in a desired object, with the object's position.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DesiredError {
    kind: Kind,
    index: usize,
    problem: Problem,
}

impl DesiredError {
    pub(crate) fn new(kind: Kind, index: usize, problem: Problem) -> DesiredError {
        DesiredError { kind, index, problem }
    }

    pub(crate) fn duplicate(kind: Kind, Duplicate { first, second }: Duplicate) -> DesiredError {
        DesiredError::new(kind, second, Problem::Duplicate(first))
    }

    /// Translates the position of a route in `part` to the one in `all`. Errors of other kinds stay
    /// as they are.
    #[must_use]
    pub fn among(self, part: &Routes, all: &Routes) -> DesiredError {
        if self.kind != Kind::Route {
            return self;
        }
        let key = part.keys().nth(self.index);
        let index = key.and_then(|key| all.keys().position(|it| it == key)).unwrap_or(self.index);
        DesiredError { index, ..self }
    }

    /// Returns the object's kind.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the position among the kind's objects in [`crate::Desired`], in key order.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Describes the error, with the places of the other objects involved. `place` returns the
    /// place of the object at a position of the same kind, such as "that at file:3:1".
    pub fn describe(&self, place: impl Fn(usize) -> String) -> String {
        self.problem.describe(place)
    }
}

impl fmt::Display for DesiredError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = self.describe(|index| format!("item {index} of this kind"));
        write!(f, "{} {}: {what}", self.kind, self.index)
    }
}

impl std::error::Error for DesiredError {}

#[cfg(test)]
mod tests;

//! What is wrong with a desired object, and which it is.

use std::fmt;

use trueup_diff::Duplicate;

use crate::devices::Problem;
use crate::kinds::Kind;
use crate::routes::Routes;

/// What is wrong with a desired object.
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

    /// Returns the error of a part of the desired routes, with the position of its route among
    /// `all`. Of other kinds it is as before.
    #[must_use]
    pub fn among(self, part: &Routes, all: &Routes) -> DesiredError {
        if self.kind != Kind::Route {
            return self;
        }
        let key = part.keys().nth(self.index);
        let index = key.and_then(|key| all.keys().position(|it| it == key)).unwrap_or(self.index);
        DesiredError { index, ..self }
    }

    /// The kind of the object.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Its position in the list of its kind in [`crate::Desired`]; of a route in their order.
    pub fn index(&self) -> usize {
        self.index
    }

    /// What is wrong, with the places of the other objects that have a part in it; `place` says where
    /// the one at a position of the same list is, such as "that at file:3:1".
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

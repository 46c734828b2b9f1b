//! What an edge is to the child, and the kinds of change that it passes on.

use std::collections::BTreeSet;
use std::sync::Arc;

/// What a parent is to a child, which in any case runs after it where both are to run. Of several
/// edges between two vertices the last of these counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeKind {
    /// That order is all: [`after_tried`](crate::VertexSpec::after_tried).
    AfterTried,
    /// A run of the parent makes the child run, and one that fails holds it back:
    /// [`after`](crate::VertexSpec::after).
    After,
    /// And its changes of some kinds are refreshes of the child:
    /// [`refreshed_by_kind`](crate::VertexSpec::refreshed_by_kind).
    RefreshedByKinds,
    /// All of its changes are:
    /// [`refreshed_by`](crate::VertexSpec::refreshed_by).
    RefreshedBy,
}

impl EdgeKind {
    /// Returns the item of a child in the list of its parent. One of a larger number is larger, and
    /// of one child that of the last kind.
    pub(crate) fn to(self, child: u32) -> u32 {
        child.saturating_mul(4) | self as u32
    }

    /// Returns the child of an item.
    pub(crate) fn child(item: u32) -> u32 {
        item >> 2
    }

    /// Returns the kind of an item.
    pub(crate) fn of(item: u32) -> Self {
        match item & 3 {
            0 => EdgeKind::AfterTried,
            1 => EdgeKind::After,
            2 => EdgeKind::RefreshedByKinds,
            _ => EdgeKind::RefreshedBy,
        }
    }

    /// True if the parent makes the child of this item run.
    pub(crate) fn leads(item: u32) -> bool {
        EdgeKind::of(item) != EdgeKind::AfterTried
    }

    /// Returns the item of the parent in the list of its child.
    pub(crate) fn from(self, parent: u32) -> u32 {
        parent.saturating_mul(2) | u32::from(self != EdgeKind::AfterTried)
    }

    /// Returns the parent of an item.
    pub(crate) fn parent(item: u32) -> u32 {
        item >> 1
    }

    /// True if a parent of this item holds back the child if it fails.
    pub(crate) fn is_needed(item: u32) -> bool {
        item & 1 == 1
    }
}

/// Kinds of change, by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kinds {
    /// Every kind: the run does not say which, or the edge passes on all.
    All,
    Of(BTreeSet<Arc<str>>),
}

impl Kinds {
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Kinds::Of(kinds) if kinds.is_empty())
    }

    /// True if a kind is in both.
    pub(crate) fn meets(&self, other: &Kinds) -> bool {
        match (self, other) {
            (Kinds::Of(one), Kinds::Of(other)) => !one.is_disjoint(other),
            _ => !self.is_empty() && !other.is_empty(),
        }
    }

    /// Returns the names; none if these are all.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        let names = match self {
            Kinds::All => None,
            Kinds::Of(kinds) => Some(kinds),
        };
        names.into_iter().flatten().map(|it| &**it)
    }

    pub(crate) fn add(&mut self, more: Kinds) {
        match (self, more) {
            (Kinds::Of(kinds), Kinds::Of(more)) => kinds.extend(more),
            (kinds, Kinds::All) => *kinds = Kinds::All,
            (Kinds::All, Kinds::Of(_)) => {}
        }
    }
}

/// None at all.
impl Default for Kinds {
    fn default() -> Self {
        Kinds::Of(BTreeSet::new())
    }
}

impl<T: Into<Arc<str>>> FromIterator<T> for Kinds {
    fn from_iter<I: IntoIterator<Item = T>>(kinds: I) -> Self {
        Kinds::Of(kinds.into_iter().map(Into::into).collect())
    }
}

#[cfg(test)]
mod tests;

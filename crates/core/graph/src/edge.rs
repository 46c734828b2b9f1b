//! The meaning of an edge for the child, and the kinds of change that it passes on.

use std::collections::BTreeSet;
use std::sync::Arc;

/// The meaning of a parent for a child. If both are to run, the child always runs after the parent.
/// If two vertices have several edges, the later variant counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum EdgeKind {
    /// Only the order: [`after_tried`](crate::VertexSpec::after_tried).
    AfterTried,
    /// A run of the parent also makes the child run, and a failed parent holds the child back:
    /// [`after`](crate::VertexSpec::after).
    After,
    /// In addition, the parent's changes of some kinds refresh the child:
    /// [`refreshed_by_kind`](crate::VertexSpec::refreshed_by_kind).
    RefreshedByKinds,
    /// In addition, all changes of the parent refresh the child:
    /// [`refreshed_by`](crate::VertexSpec::refreshed_by).
    RefreshedBy,
}

impl EdgeKind {
    /// Encodes a child and the edge's kind as an item of the parent's list. Items sort by child,
    /// then by kind.
    pub(crate) fn to(self, child: u32) -> u32 {
        child.saturating_mul(4) | self as u32
    }

    /// Returns the child encoded in an item.
    pub(crate) fn child(item: u32) -> u32 {
        item >> 2
    }

    /// Returns the edge's kind encoded in an item.
    pub(crate) fn of(item: u32) -> Self {
        match item & 3 {
            0 => EdgeKind::AfterTried,
            1 => EdgeKind::After,
            2 => EdgeKind::RefreshedByKinds,
            _ => EdgeKind::RefreshedBy,
        }
    }

    /// True if the parent's run makes the child run.
    pub(crate) fn leads(item: u32) -> bool {
        EdgeKind::of(item) != EdgeKind::AfterTried
    }

    /// Encodes a parent, and the edge's kind, as an item of the child's list.
    pub(crate) fn from(self, parent: u32) -> u32 {
        parent.saturating_mul(2) | u32::from(self != EdgeKind::AfterTried)
    }

    /// Returns the parent encoded in an item.
    pub(crate) fn parent(item: u32) -> u32 {
        item >> 1
    }

    /// True if a failed parent holds the child back.
    pub(crate) fn is_needed(item: u32) -> bool {
        item & 1 == 1
    }
}

/// A set of kinds of change, by name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kinds {
    /// Every kind: the run names none, or the edge passes on all.
    All,
    Of(BTreeSet<Arc<str>>),
}

impl Kinds {
    pub(crate) fn is_empty(&self) -> bool {
        matches!(self, Kinds::Of(kinds) if kinds.is_empty())
    }

    /// True if the two sets have a kind in common.
    pub(crate) fn meets(&self, other: &Kinds) -> bool {
        match (self, other) {
            (Kinds::Of(one), Kinds::Of(other)) => !one.is_disjoint(other),
            _ => !self.is_empty() && !other.is_empty(),
        }
    }

    /// Returns the names; none for [`All`](Self::All).
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

/// The empty set.
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

//! The names from which edges are made.

use std::sync::Arc;

use crate::EdgeKind;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Links {
    /// Vertices, each with the edge from it.
    pub(crate) after: Names,
    /// The kinds of change by which some of them refresh, each with the name of the vertex.
    pub(crate) kinds: Vec<(String, Arc<str>)>,
    pub(crate) needs: Vec<String>,
    /// As `needs`, but nothing has to provide it.
    pub(crate) wants: Vec<String>,
    pub(crate) provides: Vec<String>,
}

/// Names, each with an edge, in one text: a graph has many more edges than vertices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    text: String,
    /// Where each name ends.
    ends: Vec<(usize, EdgeKind)>,
}

impl Names {
    pub(crate) fn push(&mut self, name: &str, edge: EdgeKind) {
        self.text.push_str(name);
        self.ends.push((self.text.len(), edge));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, EdgeKind)> {
        let mut begin = 0;
        self.ends.iter().map(move |&(end, edge)| {
            let name = &self.text[begin..end];
            begin = end;
            (name, edge)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_as_they_were_added() {
        let mut names = Names::default();
        assert!(names.is_empty());
        let (one, other) = (EdgeKind::AfterTried, EdgeKind::RefreshedBy);
        let all = [("a", one), ("", other), ("\u{fc}ber", other), ("a", other)];
        all.iter().for_each(|(name, edge)| names.push(name, *edge));
        assert!(!names.is_empty());
        assert_eq!(names.iter().collect::<Vec<_>>(), all);
    }
}

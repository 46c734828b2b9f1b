//! The names from which edges are made.

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Links {
    /// Vertices, each with true if it notifies.
    pub(crate) after: Names,
    pub(crate) needs: Vec<String>,
    pub(crate) provides: Vec<String>,
}

/// Names, each with a mark, in one text: a graph has many more edges than vertices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    text: String,
    /// Where each name ends.
    ends: Vec<(usize, bool)>,
}

impl Names {
    pub(crate) fn push(&mut self, name: &str, mark: bool) {
        self.text.push_str(name);
        self.ends.push((self.text.len(), mark));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, bool)> {
        let mut begin = 0;
        self.ends.iter().map(move |&(end, mark)| {
            let name = &self.text[begin..end];
            begin = end;
            (name, mark)
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
        let all = [("a", true), ("", false), ("\u{fc}ber", false), ("a", false)];
        all.iter().for_each(|(name, mark)| names.push(name, *mark));
        assert!(!names.is_empty());
        assert_eq!(names.iter().collect::<Vec<_>>(), all);
    }
}

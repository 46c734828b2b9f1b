//! Lists of numbers, one a vertex, in two arrays.

/// For each vertex a list, ascending and without duplicates.
#[derive(Clone, Debug, Default)]
pub(crate) struct Adjacency {
    /// Where the list of each vertex begins, and the last one ends.
    pub(crate) offsets: Box<[u32]>,
    pub(crate) items: Box<[u32]>,
}

impl Adjacency {
    /// Makes the lists of `pairs` of vertex and item. Of items that `same` calls one, the largest
    /// stays. Takes time linear in vertices and pairs, but for the sorting of each list.
    pub(crate) fn new(
        vertices: usize,
        pairs: impl Iterator<Item = (u32, u32)> + Clone,
        same: fn(u32) -> u32,
    ) -> Self {
        let mut ends = vec![0u32; vertices + 1];
        pairs.clone().for_each(|(at, _)| ends[at as usize + 1] += 1);
        for at in 0..vertices {
            ends[at + 1] += ends[at];
        }
        let mut items = vec![0; ends[vertices] as usize];
        for (at, item) in pairs {
            // From here on it is where the next item goes.
            let next = &mut ends[at as usize];
            items[*next as usize] = item;
            *next += 1;
        }
        let (mut begin, mut kept) = (0, 0);
        for end in &mut ends[..vertices] {
            let list = begin..*end as usize;
            begin = list.end;
            let first = kept;
            items[list.clone()].sort_unstable_by_key(|&item| (same(item), item));
            for from in list {
                match kept > first && same(items[kept - 1]) == same(items[from]) {
                    true => items[kept - 1] = items[from],
                    false => {
                        items[kept] = items[from];
                        kept += 1;
                    }
                }
            }
            *end = kept as u32;
        }
        items.truncate(kept);
        ends.rotate_right(1);
        ends[0] = 0;
        Adjacency { offsets: ends.into(), items: items.into() }
    }

    /// Returns the list of a vertex.
    pub(crate) fn of(&self, vertex: u32) -> &[u32] {
        let at = vertex as usize;
        &self.items[self.offsets[at] as usize..self.offsets[at + 1] as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_sorted_and_the_largest_of_equal_items_stays() {
        let pairs = [(2, 4), (0, 3), (2, 5), (2, 0), (0, 2), (2, 4)];
        let lists = Adjacency::new(4, pairs.into_iter(), |item| item >> 1);
        assert_eq!(lists.of(0), [3]);
        assert_eq!(lists.of(1), [0u32; 0]);
        assert_eq!(lists.of(2), [0, 5]);
        assert_eq!(lists.of(3), [0u32; 0]);
    }
}

//! A graph without cycles.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::edge::Kinds;
use crate::error::ErrorKind;
use crate::{EdgeKind, Error, GraphBuilder, VertexSpec};

/// A vertex's number, valid within one graph only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct VertexId(pub(crate) u32);

/// Each semaphore's identifier and count.
pub(crate) type SemaphoreCounts = Box<[(Arc<str>, u32)]>;

/// Checked vertices and edges: names are unique, there is no cycle, and each semaphore has one
/// count.
///
/// Within a [`State`](crate::State), the graph lists after its own vertices one reversal for each
/// vertex that left with a replacement: [`is_reversal`](Self::is_reversal).
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    pub(crate) vertices: Box<[VertexSpec]>,
    /// The number of vertices that are not reversals; they come first.
    pub(crate) own: usize,
    /// The own vertices, sorted by name.
    pub(crate) by_name: Box<[u32]>,
    /// Each vertex's parents with the kinds of the edges: [`EdgeKind::from`].
    pub(crate) parents: Adjacency,
    /// Each vertex's children with the kinds of the edges: [`EdgeKind::to`].
    pub(crate) children: Adjacency,
    /// The kinds of change that an edge passes on, by parent and child, for edges limited to some
    /// kinds.
    pub(crate) kinds: BTreeMap<(u32, u32), Kinds>,
    /// True if a vertex has a parent that may fail.
    pub(crate) has_tried: bool,
    /// All vertices, parents before children.
    pub(crate) order: Box<[u32]>,
    /// Each vertex's semaphores, as indices into `semaphores`.
    pub(crate) holds: Adjacency,
    pub(crate) semaphores: SemaphoreCounts,
    pub(crate) groups: Groups,
}

/// The groups of vertices that share a call.
#[derive(Clone, Debug, Default)]
pub(crate) struct Groups {
    /// The number of each vertex's group, or a number out of range. Empty if there is no group.
    of: Box<[u32]>,
    pub(crate) count: usize,
}

impl Groups {
    /// Numbers the groups. Vertices of different threads are in different groups.
    pub(crate) fn new(vertices: &[VertexSpec]) -> Self {
        let mut numbers = BTreeMap::new();
        let mut number = |vertex: &VertexSpec| {
            let group = vertex.rare().group.clone()?;
            let next = numbers.len() as u32;
            Some(*numbers.entry((group, vertex.rare().thread.clone())).or_insert(next))
        };
        let of: Box<[u32]> = if vertices.iter().any(|it| it.rare().group.is_some()) {
            vertices.iter().map(|it| number(it).unwrap_or(u32::MAX)).collect()
        } else {
            Box::default()
        };
        let count = numbers.len();
        Groups { of, count }
    }

    pub(crate) fn of(&self, vertex: u32) -> Option<usize> {
        let group = *self.of.get(vertex as usize)? as usize;
        (group < self.count).then_some(group)
    }
}

impl Graph {
    /// Returns a builder of an empty graph.
    pub(crate) fn builder() -> GraphBuilder {
        GraphBuilder::default()
    }

    /// Builds a graph with the edges that the vertices name.
    ///
    /// # Errors
    ///
    /// See [`GraphBuilder::build`].
    pub(crate) fn new(vertices: impl IntoIterator<Item = VertexSpec>) -> Result<Self, Error> {
        let mut builder = Self::builder();
        for vertex in vertices {
            builder.vertex(vertex);
        }
        builder.build()
    }

    /// Returns the number of vertices, reversals included.
    pub(crate) fn len(&self) -> usize {
        self.vertices.len()
    }

    /// Returns the own vertex of a name; does not find reversals.
    pub(crate) fn find(&self, name: &str) -> Option<VertexId> {
        let by_name = &self.by_name;
        let at = by_name.binary_search_by(|&at| (**self.name(at)).cmp(name)).ok()?;
        Some(VertexId(by_name[at]))
    }

    /// Returns all vertices, parents before children.
    pub(crate) fn order(&self) -> impl Iterator<Item = VertexId> {
        self.order.iter().map(|&at| VertexId(at))
    }

    /// Returns a vertex's declaration, without the names that became edges. `None` if the number
    /// belongs to another graph.
    pub(crate) fn vertex(&self, vertex: VertexId) -> Option<&VertexSpec> {
        self.vertices.get(vertex.0 as usize)
    }

    /// True if the vertex has left the graph and waits to be reversed.
    pub(crate) fn is_reversal(&self, vertex: VertexId) -> bool {
        vertex.0 as usize >= self.own
    }

    /// Returns a vertex's parents; none if the number belongs to another graph.
    pub(crate) fn parents(&self, vertex: VertexId) -> impl Iterator<Item = VertexId> {
        let known = self.vertex(vertex).is_some();
        let parents = if known { self.parents.of(vertex.0) } else { &[] };
        parents.iter().map(|&it| VertexId(EdgeKind::parent(it)))
    }

    /// Returns a vertex's children, each with the edge's kind; none if the number belongs to
    /// another graph.
    pub(crate) fn children(&self, vertex: VertexId) -> impl Iterator<Item = (VertexId, EdgeKind)> {
        let known = self.vertex(vertex).is_some();
        let children = if known { self.children.of(vertex.0) } else { &[] };
        children.iter().map(|&it| (VertexId(EdgeKind::child(it)), EdgeKind::of(it)))
    }

    /// Returns a builder with the own vertices and the edges between them.
    pub(crate) fn to_builder(&self) -> GraphBuilder {
        let own = self.own as u32;
        let mut edges = Vec::new();
        for parent in 0..own {
            let children = self.children.of(parent).iter().filter(|&&it| EdgeKind::child(it) < own);
            edges.extend(children.map(|&child| (parent, child)));
        }
        let kinds = self.kinds.iter().filter(|((one, other), _)| (*one).max(*other) < own);
        GraphBuilder {
            vertices: self.vertices[..self.own].to_vec(),
            edges,
            kinds: kinds.map(|(edge, kinds)| (*edge, kinds.clone())).collect(),
        }
    }

    pub(crate) fn name(&self, vertex: u32) -> &Arc<str> {
        &self.vertices[vertex as usize].name
    }

    /// Returns the children to refresh by changes of these kinds, each with the kinds that its edge
    /// passes on.
    pub(crate) fn notified(
        &self,
        vertex: u32,
        changed: &Kinds,
    ) -> impl Iterator<Item = (u32, &Kinds)> {
        let children = self.children.of(vertex).iter();
        children.filter_map(move |&item| {
            let child = EdgeKind::child(item);
            let passed = match EdgeKind::of(item) {
                EdgeKind::AfterTried | EdgeKind::After => None,
                EdgeKind::RefreshedByKinds => self.kinds.get(&(vertex, child)),
                EdgeKind::RefreshedBy => Some(&Kinds::All),
            };
            passed.filter(|it| it.meets(changed)).map(|it| (child, it))
        })
    }

    /// Returns the parents that hold a vertex back if they fail.
    pub(crate) fn needed(&self, vertex: u32) -> impl Iterator<Item = u32> {
        let parents = self.parents.of(vertex).iter().copied();
        let needed = parents.filter(|it| EdgeKind::is_needed(*it));
        needed.map(EdgeKind::parent)
    }
}

/// Returns the vertices with parents before children, or an error that names a cycle.
pub(crate) fn order(graph: &Graph) -> Result<Box<[u32]>, Error> {
    let vertices = 0..graph.vertices.len() as u32;
    let mut waits: Vec<u32> =
        vertices.clone().map(|at| graph.parents.of(at).len() as u32).collect();
    let mut order: Vec<u32> = vertices.clone().filter(|&at| waits[at as usize] == 0).collect();
    let mut next = 0;
    while let Some(&at) = order.get(next) {
        next += 1;
        for child in graph.children.of(at) {
            let child = EdgeKind::child(*child);
            waits[child as usize] -= 1;
            if waits[child as usize] == 0 {
                order.push(child);
            }
        }
    }
    let Some(start) = vertices.into_iter().find(|&at| waits[at as usize] > 0) else {
        return Ok(order.into());
    };
    // Each remaining vertex has a remaining parent, so the way up must repeat a vertex.
    let (mut path, mut place) = (Vec::new(), HashMap::new());
    let mut at = start;
    while !place.contains_key(&at) {
        place.insert(at, path.len());
        path.push(at);
        let mut parents = graph.parents.of(at).iter().map(|it| EdgeKind::parent(*it));
        let left = parents.find(|it| waits[*it as usize] > 0);
        at = left.unwrap_or(at);
    }
    let cycle = path[place[&at]..].iter().rev().chain(path.last());
    let names: Vec<&str> = cycle.map(|&it| &**graph.name(it)).collect();
    Err(Error::new(
        ErrorKind::Cycle,
        format!("cycle: {}; remove one of these edges", names.join(" -> ")),
    ))
}

/// An ascending list without duplicates for each vertex.
#[derive(Clone, Debug, Default)]
pub(crate) struct Adjacency {
    /// The start of each vertex's list, and the end of the last one.
    pub(crate) offsets: Box<[u32]>,
    pub(crate) items: Box<[u32]>,
}

impl Adjacency {
    /// Builds the lists from `pairs` of vertex and item. If `same` says that two items are one, the
    /// larger stays. Takes time linear in vertices and pairs, except for sorting each list.
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
            // From here on, the entry is the place of the next item.
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
                if kept > first && same(items[kept - 1]) == same(items[from]) {
                    items[kept - 1] = items[from]
                } else {
                    items[kept] = items[from];
                    kept += 1;
                }
            }
            *end = kept as u32;
        }
        items.truncate(kept);
        ends.rotate_right(1);
        ends[0] = 0;
        Adjacency { offsets: ends.into(), items: items.into() }
    }

    /// Returns a vertex's list.
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

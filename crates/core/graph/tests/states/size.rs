//! The memory that a graph takes.

use crate::state::Slot;
use crate::{Graph, VertexSpec};

#[test]
fn a_vertex_costs_at_most_200_bytes_besides_its_own_with_ten_edges() {
    let count = 1_000;
    let vertices = (0..count).map(|at: usize| {
        let parents = at.saturating_sub(10)..at;
        let spec = VertexSpec::new(&at.to_string());
        parents.fold(spec, |spec, parent| spec.refreshed_by(&parent.to_string()))
    });
    let graph = Graph::new(vertices).unwrap();
    let lists: usize = [&graph.parents, &graph.children, &graph.holds]
        .map(|it| 4 * (it.offsets.len() + it.items.len()))
        .iter()
        .sum();
    let per_vertex = lists / count + 4 * 2 + size_of::<Slot>();
    assert!(per_vertex <= 200, "{per_vertex}");
}

//! How much memory a graph takes.

use crate::state::Slot;
use crate::{Graph, VertexSpec};

#[test]
fn a_vertex_costs_at_most_200_bytes_besides_its_own_with_ten_edges() {
    let count = 1_000;
    let mut builder = Graph::builder();
    let vertices: Vec<_> =
        (0..count).map(|at| builder.vertex(VertexSpec::new(&at.to_string()))).collect();
    for at in 0..count {
        let children = &vertices[(at + 1).min(count)..(at + 11).min(count)];
        children.iter().for_each(|child| builder.notify(vertices[at], *child));
    }
    let graph = builder.build().unwrap();
    let lists: usize = [&graph.parents, &graph.children, &graph.holds]
        .map(|it| 4 * (it.offsets.len() + it.items.len()))
        .iter()
        .sum();
    let per_vertex = lists / count + 4 * 2 + size_of::<Slot>();
    assert!(per_vertex <= 200, "{per_vertex}");
}

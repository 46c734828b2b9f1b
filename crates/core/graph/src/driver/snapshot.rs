//! A running graph as data, as text, and as a picture.

use std::collections::BTreeMap;
use std::fmt;

use super::shared::Core;
use crate::one_line::one_line;
use crate::sync::now;
use crate::{EdgeKind, Explanation, Graph, Verdict, VertexId};

/// A graph at one moment. Its text has a line for each vertex, parents before children.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// The vertices, parents before children.
    pub vertices: Vec<Explanation>,
    /// The edges: places of parent and child in `vertices`, and what the edge is to the child.
    pub edges: Vec<(usize, usize, EdgeKind)>,
    kinds: BTreeMap<(usize, usize), Vec<String>>,
}

impl Snapshot {
    /// Returns the kinds of change that an edge passes on, by the places of its parent and child.
    /// None are named of an edge that passes on all, or nothing.
    pub fn kinds(&self, parent: usize, child: usize) -> &[String] {
        self.kinds.get(&(parent, child)).map_or(&[], |it| it)
    }

    /// Returns the graph in the language of Graphviz: notifying edges are dashed, those from
    /// vertices that may fail dotted; red has failed, yellow runs or waits, blue would change,
    /// green is in place.
    pub fn to_dot(&self) -> String {
        let mut dot = "digraph {\n  rankdir=LR; node [shape=box, style=filled];\n".to_owned();
        for (at, vertex) in self.vertices.iter().enumerate() {
            let color = color(vertex);
            let (name, tip) = (quoted(&vertex.name), quoted(&vertex.to_string()));
            dot += &format!("  {at} [label={name}, tooltip={tip}, fillcolor={color}];\n");
        }
        for (parent, child, kind) in &self.edges {
            let style = match kind {
                EdgeKind::AfterTried => " [style=dotted]",
                EdgeKind::After => "",
                EdgeKind::RefreshedBy | EdgeKind::RefreshedByKinds => " [style=dashed]",
            };
            dot += &format!("  {parent} -> {child}{style};\n");
        }
        dot + "}\n"
    }
}

/// Returns the colour of a vertex, by a name that Graphviz and SVG know.
pub(crate) fn color(vertex: &Explanation) -> &'static str {
    let is_waiting = vertex.cause.is_some() || !vertex.waits.is_empty();
    match (vertex.last, is_waiting || vertex.running) {
        (Some(Err(_)), _) => "salmon",
        (_, true) => "khaki",
        (Some(Ok(Verdict::WouldChange)), _) => "lightblue",
        _ => "palegreen",
    }
}

fn quoted(text: &str) -> String {
    let text = one_line(text).replace('\\', "\\\\");
    format!("\"{}\"", text.replace('"', "\\\""))
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.vertices.iter().try_for_each(|it| writeln!(f, "{it}"))
    }
}

impl Core {
    /// Explains a vertex, with the message of its failure.
    pub(super) fn explain(&self, vertex: VertexId) -> Option<Explanation> {
        let mut explained = self.state.explain(now(), vertex)?;
        explained.message = self.message(vertex);
        Some(explained)
    }

    fn message(&self, vertex: VertexId) -> Option<String> {
        self.messages.get(&vertex).cloned()
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        // In the order of the graph, as the snapshot is.
        let mut explained = self.state.explain_all(now()).into_iter();
        of(self.state.graph(), |vertex| {
            let mut explained = explained.next()?;
            explained.message = self.message(vertex);
            Some(explained)
        })
    }
}

/// Makes a snapshot of a graph of which each vertex is explained.
pub(crate) fn of(
    graph: &Graph,
    mut explain: impl FnMut(VertexId) -> Option<Explanation>,
) -> Snapshot {
    let order: Vec<VertexId> = graph.order().collect();
    let mut places = vec![0; graph.len()];
    for (place, vertex) in order.iter().enumerate() {
        places[vertex.0 as usize] = place;
    }
    let edges = order.iter().flat_map(|parent| {
        let children = graph.children(*parent);
        children.map(move |(child, kind)| (*parent, child, kind))
    });
    let place = |vertex: VertexId| places[vertex.0 as usize];
    let kinds = graph.kinds.iter().map(|(&(parent, child), kinds)| {
        let edge = (place(VertexId(parent)), place(VertexId(child)));
        (edge, kinds.names().map(str::to_owned).collect())
    });
    Snapshot {
        kinds: kinds.collect(),
        edges: edges.map(|(parent, child, kind)| (place(parent), place(child), kind)).collect(),
        vertices: order.iter().filter_map(|it| explain(*it)).collect(),
    }
}

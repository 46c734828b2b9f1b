//! A running graph as data, text and drawings.

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};

use super::shared::Core;
use crate::state::one_line;
use crate::sync::now;
use crate::{EdgeKind, Explanation, Graph, Verdict, VertexId};

/// A graph at one moment. Its text has one line for each vertex, parents before children.
///
/// ```
/// use trueup_graph::{RunContext, Verdict, Vertex, VertexSpec, check};
/// use trueup_reconcile::MemoryLedger;
///
/// let vertex = |_: &RunContext, _: bool| Ok(Verdict::InPlace);
/// let vertices = [("b", Some("a")), ("a", None)].map(|(name, parent)| {
///     let spec = VertexSpec::new(name);
///     let spec = parent.into_iter().fold(spec, VertexSpec::after);
///     (spec, Box::new(vertex) as Box<dyn Vertex>)
/// });
/// let snapshot = check(vertices, &MemoryLedger::default())?;
/// assert_eq!(snapshot.vertices[0].name, "a"); // parents first
/// assert!(snapshot.to_dot().starts_with("digraph"));
/// # Ok::<(), trueup_graph::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Snapshot {
    /// Each vertex's explanation, parents before children.
    pub vertices: Vec<Explanation>,
    /// The edges: indices of parent and child in `vertices`, and the edge's meaning for the child.
    pub edges: Vec<(usize, usize, EdgeKind)>,
    kinds: BTreeMap<(usize, usize), Vec<String>>,
}

impl Snapshot {
    /// Returns the kinds of change that an edge passes on; `parent` and `child` are indices in
    /// `vertices`. Empty if the edge passes on all kinds, or none.
    pub fn kinds(&self, parent: usize, child: usize) -> &[String] {
        self.kinds.get(&(parent, child)).map_or(&[], |it| it)
    }

    /// Returns the graph in Graphviz's DOT language. Refreshing edges are dashed, edges from
    /// vertices that may fail are dotted. Red has failed, yellow runs or waits, blue would change,
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

/// Returns a vertex's colour, by a name that Graphviz and SVG know.
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
    /// Explains a vertex, with its failure's message.
    pub(super) fn explain(&self, vertex: VertexId) -> Option<Explanation> {
        let message = self.messages.get(&vertex).cloned();
        Some(Explanation { message, ..self.state.explain(now(), vertex)? })
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        // Both lists are in the graph's order.
        let mut all = self.state.explain_all(now()).into_iter();
        of(self.state.graph(), |vertex| {
            let message = self.messages.get(&vertex).cloned();
            Some(Explanation { message, ..all.next()? })
        })
    }
}

/// Makes a snapshot of a graph from its vertices' explanations.
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
    let kinds = graph.kinds.iter().map(|(&(parent, child), kinds)| {
        let edge = (places[parent as usize], places[child as usize]);
        (edge, kinds.names().map(str::to_owned).collect())
    });
    Snapshot {
        kinds: kinds.collect(),
        edges: edges
            .map(|(parent, child, kind)| {
                (places[parent.0 as usize], places[child.0 as usize], kind)
            })
            .collect(),
        vertices: order.iter().filter_map(|it| explain(*it)).collect(),
    }
}

/// The drawing's sizes, in pixels.
const WIDTH: usize = 200;
const HEIGHT: usize = 44;
const GAP: usize = 60;
const SPACE: usize = 20;

impl Snapshot {
    /// Returns the graph as an SVG drawing, in the colours of [`to_dot`](Self::to_dot). A vertex's
    /// tooltip has its whole explanation.
    pub fn to_svg(&self) -> String {
        let columns = self.columns();
        let mut heights = vec![0; columns.iter().max().map_or(0, |last| last + 1)];
        let mut corners = Vec::with_capacity(columns.len());
        for &column in &columns {
            let row: &mut usize = &mut heights[column];
            corners.push((SPACE + column * (WIDTH + GAP), SPACE + *row * (HEIGHT + SPACE)));
            *row += 1;
        }
        let rows = heights.iter().copied().max().unwrap_or(0);
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{}\" height=\"{}\" \
             font-family=\"sans-serif\" font-size=\"12\">\n<defs><marker id=\"tip\" \
             viewBox=\"0 0 8 8\" refX=\"8\" refY=\"4\" markerWidth=\"8\" markerHeight=\"8\" \
             orient=\"auto\"><path d=\"M0,0 L8,4 L0,8 z\"/></marker></defs>\n",
            2 * SPACE + (heights.len() * (WIDTH + GAP)).saturating_sub(GAP),
            SPACE + rows * (HEIGHT + SPACE),
        );
        for &(parent, child, kind) in &self.edges {
            let ((x1, y1), (x2, y2)) = (corners[parent], corners[child]);
            let dashed = match kind {
                EdgeKind::AfterTried => " stroke-dasharray=\"1 3\"",
                EdgeKind::After => "",
                EdgeKind::RefreshedBy | EdgeKind::RefreshedByKinds => " stroke-dasharray=\"5 3\"",
            };
            // Writing to a string cannot fail.
            let _ = writeln!(
                svg,
                "<path d=\"M{},{} C{},{} {},{} {x2},{}\" fill=\"none\" stroke=\"black\" \
                 marker-end=\"url(#tip)\"{dashed}/>",
                x1 + WIDTH,
                y1 + HEIGHT / 2,
                x1 + WIDTH + GAP / 2,
                y1 + HEIGHT / 2,
                x2 - GAP / 2,
                y2 + HEIGHT / 2,
                y2 + HEIGHT / 2,
            );
        }
        for (vertex, (x, y)) in self.vertices.iter().zip(&corners) {
            let _ = writeln!(
                svg,
                "<g><title>{}</title><rect x=\"{x}\" y=\"{y}\" width=\"{WIDTH}\" \
                 height=\"{HEIGHT}\" rx=\"4\" fill=\"{}\" stroke=\"black\"/>\
                 <text x=\"{}\" y=\"{}\">{}</text></g>",
                escaped(&vertex.to_string()),
                color(vertex),
                x + 8,
                y + HEIGHT / 2 + 4,
                escaped(&shortened(&vertex.name)),
            );
        }
        svg + "</svg>\n"
    }

    /// Returns each vertex's column. Parents come before children.
    fn columns(&self) -> Vec<usize> {
        let mut columns = vec![0; self.vertices.len()];
        let mut edges: Vec<_> = self.edges.iter().collect();
        edges.sort_unstable_by_key(|(parent, ..)| *parent);
        for &&(parent, child, _) in &edges {
            columns[child] = columns[child].max(columns[parent] + 1);
        }
        columns
    }
}

/// Returns the name, shortened to fit into its box.
fn shortened(name: &str) -> String {
    const ROOM: usize = 26;
    if name.chars().count() > ROOM {
        name.chars().take(ROOM - 1).chain(['…']).collect()
    } else {
        name.to_owned()
    }
}

fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            // XML allows no other control characters.
            it if it.is_control() => escaped.push(' '),
            it => escaped.push(it),
        }
    }
    escaped
}

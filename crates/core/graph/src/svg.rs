//! A snapshot as a drawing: parents left of children, one column for each length of the way from a
//! vertex without parents.

use std::fmt::Write as _;

use crate::{EdgeKind, Snapshot};

/// The sizes, in pixels.
const WIDTH: usize = 200;
const HEIGHT: usize = 44;
const GAP: usize = 60;
const SPACE: usize = 20;

impl Snapshot {
    /// Returns the graph as an SVG drawing, in the colours of [`to_dot`](Self::to_dot). The whole
    /// explanation of a vertex is its tooltip.
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
                super::driver::snapshot::color(vertex),
                x + 8,
                y + HEIGHT / 2 + 4,
                escaped(&shortened(&vertex.name)),
            );
        }
        svg + "</svg>\n"
    }

    /// Returns the column of each vertex. Parents come before children.
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

/// Returns as much of a name as has room.
fn shortened(name: &str) -> String {
    const ROOM: usize = 26;
    match name.chars().count() > ROOM {
        true => name.chars().take(ROOM - 1).chain(['…']).collect(),
        false => name.to_owned(),
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
            // XML has no others of these.
            it if it.is_control() => escaped.push(' '),
            it => escaped.push(it),
        }
    }
    escaped
}

//! How works grow, as a picture: wall time over the number of objects, both axes logarithmic, so that what grows in
//! proportion is a straight line of the same slope everywhere. A panel a work, a line a program.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use super::record::{Record, rank, seconds};
use super::series::steps;
use crate::works::Work;
use trueup_diff::Family;

/// The works that have a panel.
const PANELS: [Work; 6] = [
    Work::RouteNoop(Family::Inet),
    Work::FewNoop,
    Work::RouteCreate(Family::Inet),
    Work::RouteGateway,
    Work::RouteDelete(Family::Inet),
    Work::RouteCreate(Family::Inet6),
];

const COLUMNS: usize = 2;
/// A panel with its labels, and the margins within.
const PANEL: (f64, f64) = (460.0, 320.0);
const LEFT: f64 = 64.0;
const RIGHT: f64 = 120.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 40.0;

/// Of floor, of trueup, and of the others in turn.
const COLOURS: [&str; 8] = [
    "#444444", "#c2410c", "#2563eb", "#15803d", "#7e22ce", "#0e7490", "#a16207", "#be185d",
];

/// The picture of a record, as SVG.
pub fn svg(record: &Record) -> String {
    let rows = PANELS.len().div_ceil(COLUMNS);
    let (width, height) = (PANEL.0 * COLUMNS as f64, PANEL.1 * rows as f64);
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\" \
         font-size=\"11\">\n<rect width=\"{width}\" height=\"{height}\" fill=\"white\"/>\n"
    );
    for (at, work) in PANELS.iter().enumerate() {
        let x = (at % COLUMNS) as f64 * PANEL.0;
        let y = (at / COLUMNS) as f64 * PANEL.1;
        let _ = writeln!(text, "<g transform=\"translate({x} {y})\">");
        panel(&mut text, record, *work);
        text.push_str("</g>\n");
    }
    text.push_str("</svg>\n");
    text
}

/// A program's line: size, and wall time in nanoseconds.
struct Line<'a> {
    program: &'a str,
    /// The same in all panels.
    colour: &'static str,
    points: Vec<(usize, u64)>,
}

fn panel(text: &mut String, record: &Record, work: Work) {
    let title = steps().find(|(step, _)| step.work == work);
    let title = title.map_or("", |(step, _)| step.title);
    // What follows a comma says against what; that is the line beside.
    let title = title.split(", against").next().unwrap_or(title);
    let _ = writeln!(
        text,
        "<text x=\"{LEFT}\" y=\"20\" font-size=\"13\">{title}</text>"
    );
    let lines = lines(record, work);
    let points = || lines.iter().flat_map(|line| line.points.iter().copied());
    let decades = |values: &mut dyn Iterator<Item = f64>| {
        let (least, most) = values.fold((f64::MAX, f64::MIN), |(least, most), value| {
            (least.min(value.log10()), most.max(value.log10()))
        });
        (least.floor(), most.ceil().max(least.floor() + 1.0))
    };
    if points().next().is_none() {
        return;
    }
    let x = Axis {
        decades: decades(&mut points().map(|(size, _)| size.max(1) as f64)),
        from: LEFT,
        to: PANEL.0 - RIGHT,
    };
    let y = Axis {
        decades: decades(&mut points().map(|(_, ns)| ns.max(1) as f64)),
        from: PANEL.1 - BOTTOM,
        to: TOP,
    };
    grid(text, &x, &y);
    for line in &lines {
        draw(text, line, &x, &y);
    }
    names(text, &lines, &y);
}

/// The lines of a work: floor, trueup, and the others by name.
fn lines(record: &Record, work: Work) -> Vec<Line<'_>> {
    let name = work.to_string();
    let mut lines: Vec<Line<'_>> = Vec::new();
    for size in record.sizes(&name) {
        let Some(entry) = record.entry(&name, size) else {
            continue;
        };
        for program in entry.programs() {
            let Some(figures) = entry.figures(program, "floor") else {
                continue;
            };
            let point = (size, figures.median.wall_ns);
            match lines.iter_mut().find(|line| line.program == program) {
                Some(line) => line.points.push(point),
                None => lines.push(Line {
                    program,
                    colour: colour(record, program),
                    points: vec![point],
                }),
            }
        }
    }
    lines.sort_by_key(|line| (rank(line.program), line.program));
    lines
}

/// Powers of ten, laid out from one place to another.
struct Axis {
    decades: (f64, f64),
    from: f64,
    to: f64,
}

impl Axis {
    fn at(&self, value: f64) -> f64 {
        let (least, most) = self.decades;
        let share = (value.max(1.0).log10() - least) / (most - least);
        self.from + share * (self.to - self.from)
    }

    /// The powers of ten themselves.
    fn ticks(&self) -> impl Iterator<Item = u64> {
        let (least, most) = self.decades;
        (least as u32..=most as u32).map(|power| 10_u64.saturating_pow(power))
    }
}

fn grid(text: &mut String, x: &Axis, y: &Axis) {
    for size in x.ticks() {
        let at = x.at(size as f64);
        let _ = writeln!(
            text,
            "<path d=\"M{at:.1} {} V{}\" stroke=\"#dddddd\"/>\
             <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{}</text>",
            y.from,
            y.to,
            y.from + 16.0,
            short(size),
        );
    }
    for ns in y.ticks() {
        let at = y.at(ns as f64);
        let _ = writeln!(
            text,
            "<path d=\"M{} {at:.1} H{}\" stroke=\"#dddddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            x.from,
            x.to,
            x.from - 6.0,
            at + 4.0,
            round(ns),
        );
    }
}

/// A power of ten in little room.
fn short(size: u64) -> String {
    match size {
        0..1_000 => size.to_string(),
        1_000..1_000_000 => format!("{}k", size / 1_000),
        _ => format!("{}M", size / 1_000_000),
    }
}

/// A power of ten without the digits that are zero.
fn round(ns: u64) -> String {
    seconds(ns).replace(".00", "").replace(".0", "")
}

fn draw(text: &mut String, line: &Line<'_>, x: &Axis, y: &Axis) {
    let (colour, rank) = (line.colour, rank(line.program));
    let width = if rank < 2 { 2 } else { 1 };
    let dashes = if rank == 0 {
        " stroke-dasharray=\"5 3\""
    } else {
        ""
    };
    let mut path = String::new();
    for (at, (size, ns)) in line.points.iter().enumerate() {
        let verb = if at == 0 { 'M' } else { 'L' };
        let _ = write!(
            path,
            "{verb}{:.1} {:.1} ",
            x.at(*size as f64),
            y.at(*ns as f64)
        );
    }
    let path = path.trim_end();
    let _ = writeln!(
        text,
        "<path d=\"{path}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\"{dashes}/>"
    );
    for (size, ns) in &line.points {
        let (x, y) = (x.at(*size as f64), y.at(*ns as f64));
        let _ = writeln!(
            text,
            "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.5\" fill=\"{colour}\"/>"
        );
    }
}

/// The names beside the ends of the lines, the slowest at the top, none on another.
fn names(text: &mut String, lines: &[Line<'_>], y: &Axis) {
    const HEIGHT: f64 = 13.0;
    let end = |line: &Line<'_>| {
        line.points
            .last()
            .map_or(y.from, |(_, ns)| y.at(*ns as f64))
    };
    let mut ends: Vec<(f64, usize)> = lines.iter().map(end).zip(0..).collect();
    ends.sort_by(|(a, _), (b, _)| a.total_cmp(b));
    let mut free = y.to;
    for (end, at) in ends {
        let place = end.max(free);
        free = place + HEIGHT;
        let _ = writeln!(
            text,
            "<text x=\"{}\" y=\"{:.1}\" fill=\"{}\">{}</text>",
            PANEL.0 - RIGHT + 8.0,
            place + 4.0,
            lines[at].colour,
            lines[at].program,
        );
    }
}

fn colour(record: &Record, program: &str) -> &'static str {
    let programs = record.entries.iter().flat_map(|entry| entry.took.keys());
    let programs: BTreeSet<(u8, &str)> = programs.map(|name| (rank(name), &**name)).collect();
    let before = programs.iter().take_while(|(_, name)| *name != program);
    COLOURS[before.count() % COLOURS.len()]
}

#[cfg(test)]
mod tests {
    use super::super::record::Entry;
    use super::*;
    use crate::clock::Took;

    #[test]
    fn what_grows_in_proportion_is_a_straight_line() {
        let mut record = Record::default();
        for size in [1, 1_000, 1_000_000] {
            let mut entry = Entry::new("route-create".to_owned(), size);
            for (program, each) in [("floor", 5_000), ("trueup", 6_000)] {
                let took = Took {
                    wall_ns: each * size as u64,
                    ..Took::default()
                };
                entry.add(program, 0, took);
            }
            record.put(entry);
        }
        let lines = lines(&record, Work::RouteCreate(Family::Inet));
        assert_eq!(lines.len(), 2);
        let y = Axis {
            decades: (3.0, 10.0),
            from: 280.0,
            to: 30.0,
        };
        for line in &lines {
            let at: Vec<f64> = line.points.iter().map(|(_, ns)| y.at(*ns as f64)).collect();
            assert!((at[0] - at[1] - (at[1] - at[2])).abs() < 1e-9, "{at:?}");
        }
        let text = svg(&record);
        assert_eq!(text.matches("stroke-dasharray").count(), 1);
        assert_eq!(text.matches("<circle").count(), 6);
        assert!(
            text.contains(">100k<") && text.contains(">10 µs<"),
            "{text}"
        );
        assert_eq!(text, svg(&record));
    }
}

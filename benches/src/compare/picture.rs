//! The picture of `docs/performance.md`: wall time over the number of objects, with a panel for
//! each work and a line for each program. Both axes are logarithmic, so proportional growth is a
//! straight line with the same slope in every panel.

use std::collections::BTreeSet;

use anyhow::Result;
use plotters::coord::Shift;
use plotters::coord::combinators::BindKeyPoints as _;
use plotters::prelude::*;

use super::record::{Record, rank};
use super::series::steps;
use crate::text::seconds;
use trueup_works::Family;
use trueup_works::Work;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// The works with a panel.
const PANELS: [Work; 6] = [
    Work::RouteNoop(Family::Inet),
    Work::FewNoop,
    Work::RouteCreate(Family::Inet),
    Work::RouteGateway,
    Work::RouteDelete(Family::Inet),
    Work::RouteCreate(Family::Inet6),
];

const COLUMNS: usize = 2;
/// The width and height of a panel with its labels, in pixels.
const PANEL: (u32, u32) = (460, 320);
/// The width beside the lines for the programs' names, in pixels.
const NAMES: u32 = 112;

/// The colours of floor, trueup, and the others in turn.
const COLOURS: [RGBColor; 8] = [
    RGBColor(0x44, 0x44, 0x44),
    RGBColor(0xc2, 0x41, 0x0c),
    RGBColor(0x25, 0x63, 0xeb),
    RGBColor(0x15, 0x80, 0x3d),
    RGBColor(0x7e, 0x22, 0xce),
    RGBColor(0x0e, 0x74, 0x90),
    RGBColor(0xa1, 0x62, 0x07),
    RGBColor(0xbe, 0x18, 0x5d),
];

/// Returns the picture of a record as SVG.
pub(super) fn svg(record: &Record) -> Result<String> {
    let mut text = String::new();
    let rows = PANELS.len().div_ceil(COLUMNS);
    let size = (PANEL.0 * COLUMNS as u32, PANEL.1 * rows as u32);
    let root = SVGBackend::with_string(&mut text, size).into_drawing_area();
    root.fill(&WHITE)?;
    for (area, work) in root.split_evenly((rows, COLUMNS)).iter().zip(PANELS) {
        panel(area, record, work)?;
    }
    root.present()?;
    drop(root);
    Ok(text)
}

/// A program's line: pairs of size and wall time in nanoseconds.
struct Line<'a> {
    program: &'a str,
    colour: RGBColor,
    points: Vec<(f64, f64)>,
}

fn panel(area: &Area<'_>, record: &Record, work: Work) -> Result<()> {
    let title = steps()
        .find(|(step, _)| step.work == work)
        // The picture itself shows the comparison after the comma.
        .and_then(|(step, _)| step.title.split(", against").next());
    let titled = area.titled(title.unwrap_or_default(), ("sans-serif", 17))?;
    let lines = lines(record, work);
    let points: Vec<_> = lines.iter().flat_map(|line| line.points.iter().copied()).collect();
    if points.is_empty() {
        return Ok(());
    }
    let sizes = decades(points.iter().map(|(size, _)| *size));
    let times = decades(points.iter().map(|(_, ns)| *ns));
    let [across, up] = [&sizes, &times].map(|ticks| {
        let ends = ticks[0]..ticks[ticks.len() - 1];
        ends.log_scale().with_key_points(ticks.clone())
    });
    let mut chart = ChartBuilder::on(&titled)
        .margin(8)
        .margin_right(NAMES)
        .x_label_area_size(24)
        .y_label_area_size(56)
        .build_cartesian_2d(across, up)?;
    chart
        .configure_mesh()
        .light_line_style(TRANSPARENT)
        .bold_line_style(RGBColor(0xdd, 0xdd, 0xdd))
        .label_style(("sans-serif", 14))
        .x_label_formatter(&|size| short(*size as u64))
        .y_label_formatter(&|ns| round(*ns as u64))
        .draw()?;
    let mut ends = Vec::new();
    for line in &lines {
        let points = line.points.iter().copied();
        let rank = rank(line.program);
        let style = line.colour.stroke_width(if rank < 2 { 2 } else { 1 });
        if rank == 0 {
            chart.draw_series(DashedLineSeries::new(points.clone(), 5, 3, style))?;
        } else {
            chart.draw_series(LineSeries::new(points.clone(), style))?;
        }
        let filled = line.colour.filled();
        chart.draw_series(points.map(|point| Circle::new(point, 2, filled)))?;
        if let Some(last) = line.points.last() {
            ends.push((chart.backend_coord(last).1, line));
        }
    }
    let (right, _) = chart.backend_coord(&(sizes[sizes.len() - 1], times[0]));
    names(&titled, right + 8, ends)
}

/// Returns the powers of ten from below the least value to above the greatest.
fn decades(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let (least, most) = values.fold((f64::MAX, f64::MIN), |(least, most), value| {
        (least.min(value.log10()), most.max(value.log10()))
    });
    let (least, most) = (least.floor(), most.ceil().max(least.floor() + 1.0));
    (least as i32..=most as i32).map(|power| 10_f64.powi(power)).collect()
}

/// Writes the names beside the ends of the lines, the slowest at the top, without overlaps.
fn names(area: &Area<'_>, x: i32, mut ends: Vec<(i32, &Line<'_>)>) -> Result<()> {
    const HEIGHT: i32 = 13;
    ends.sort_by_key(|(y, _)| *y);
    let (_, top) = area.get_base_pixel();
    let mut free = i32::MIN;
    for (end, line) in ends {
        let y = end.max(free);
        free = y + HEIGHT;
        let style = ("sans-serif", 14).into_font().color(&line.colour);
        let (left, _) = area.get_base_pixel();
        area.draw(&Text::new(line.program, (x - left, y - top - HEIGHT / 2), style))?;
    }
    Ok(())
}

/// Returns a work's lines: floor, trueup, and the others by name.
fn lines(record: &Record, work: Work) -> Vec<Line<'_>> {
    // A program has the same colour in all panels.
    let all = record.entries.iter().flat_map(|entry| entry.took.keys());
    let all: BTreeSet<(u8, &str)> = all.map(|name| (rank(name), &**name)).collect();
    let lines = all.into_iter().enumerate().map(|(at, (_, program))| {
        // Zero has no logarithm.
        let points = record.of(work).filter_map(|entry| {
            let wall = entry.figures(program, "floor")?.median.wall_ns.max(1) as f64;
            Some((entry.size.max(1) as f64, wall))
        });
        Line { program, colour: COLOURS[at % COLOURS.len()], points: points.collect() }
    });
    lines.filter(|line| !line.points.is_empty()).collect()
}

/// Formats a power of ten in few characters.
fn short(size: u64) -> String {
    match size {
        0..1_000 => size.to_string(),
        1_000..1_000_000 => format!("{}k", size / 1_000),
        _ => format!("{}M", size / 1_000_000),
    }
}

/// Formats a power of ten as seconds, without zero digits.
fn round(ns: u64) -> String {
    seconds(ns).replace(".00", "").replace(".0", "")
}

#[cfg(test)]
mod tests {
    use super::super::record::Entry;
    use super::*;
    use trueup_works::clock::Took;

    #[test]
    fn what_grows_in_proportion_is_a_straight_line() {
        let mut record = Record::default();
        for size in [1, 1_000, 1_000_000] {
            let work = "route-create".to_owned();
            let mut entry = Entry { work, size, ..Entry::default() };
            for (program, each) in [("floor", 5_000), ("trueup", 6_000)] {
                let took = Took { wall_ns: each * size as u64, ..Took::default() };
                entry.add(program, 0, took);
            }
            record.put(entry);
        }
        let text = svg(&record).unwrap();
        let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("<polyline")).collect();
        let [floors, ours] = ["#444444", "#C2410C"]
            .map(|colour| lines.iter().filter(|line| line.contains(colour)).collect::<Vec<_>>());
        assert!(floors.len() > 10, "the floor's line is dashed");
        let [line] = ours[..] else { panic!("{ours:?}") };
        let points = line
            .split_once("points=\"")
            .unwrap()
            .1
            .trim_end_matches(['"', '/', '>'])
            .split_whitespace();
        let points: Vec<(i32, i32)> = points
            .map(|point| {
                let (x, y) = point.split_once(',').unwrap();
                (x.parse().unwrap(), y.parse().unwrap())
            })
            .collect();
        let [(x0, y0), (x1, y1), (x2, y2)] = points[..] else { panic!("{line}") };
        assert!(((x1 - x0) - (x2 - x1)).abs() <= 1, "{line}");
        assert!(((y0 - y1) - (y1 - y2)).abs() <= 1 && y1 < y0, "{line}");
        assert_eq!(text.matches("<circle").count(), 6);
        for label in ["\n100k\n", "\n10 µs\n", "\nfloor\n", "\ntrueup\n"] {
            assert!(text.contains(label), "{label}: {text}");
        }
        assert_eq!(text, svg(&record).unwrap());
    }
}

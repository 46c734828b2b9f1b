use std::time::Duration;

use super::section::tries_text;
use super::*;

fn texts(view: &View, now: Instant, height: usize, width: usize) -> Vec<String> {
    let [mut failed, contended, conflicts] = Section::of_statuses(&[], now);
    if view.verdict().is_some_and(|it| it != "converged") {
        let lines = (0..10).map(|n| format!("! route 10.9.{n}.0/24   (failed: no)"));
        failed.lines = lines.collect();
        failed.more = 90;
    }
    let statuses = [Section::of_graph(None), failed, contended, conflicts];
    let lines = view.lines(now, &Stats::default(), statuses, height, width);
    lines.into_iter().map(|line| line.text).collect()
}

fn view(now: Instant) -> View {
    let mut view = View::new("trueup watch f.toml".into());
    view.set_managed(&[("link", 1), ("address", 2), ("route", 0)]);
    for n in 0..50 {
        view.change(now, format!("+ route 10.{n}.0.0/16"));
    }
    view.pass(now, Some("100 failed".into()));
    view
}

#[test]
fn the_head_says_what_is_managed_and_how_it_stands() {
    let start = Instant::now();
    let mut view = view(start);
    let now = start + Duration::from_secs(75);
    let shown = texts(&view, now, 100, 200);
    assert_eq!(shown[0], "trueup watch f.toml");
    assert_eq!(shown[1], "not converged for 1 min 15 s: 100 failed");
    assert_eq!(shown[2], "manages 1 link, 2 addresses, 0 routes");
    assert!(shown.iter().any(|line| line == "  and 90 more"), "{shown:?}");
    let newest = shown.iter().position(|line| line.contains("10.49.0.0/16"));
    let oldest = shown.iter().position(|line| line.contains("10.48.0.0/16"));
    assert!(newest < oldest, "the newest first: {shown:?}");
    view.pass(now, None);
    view.pass(now + Duration::from_secs(1), None);
    let shown = texts(&view, now + Duration::from_secs(4), 100, 200);
    assert_eq!(shown[1], "converged for 4 s", "since the first such pass");
}

#[test]
fn an_object_that_failed_says_how_often_and_when_it_is_tried_again() {
    let left = Some(Duration::from_secs(64));
    assert_eq!(tries_text(0, None), "");
    assert_eq!(tries_text(1, left), ", tried once, again in 1 min 04 s");
    assert_eq!(tries_text(3, None), ", tried 3 times");
}

#[test]
fn no_size_is_exceeded_and_each_section_has_its_share() {
    let now = Instant::now();
    let view = view(now);
    for height in 0..60 {
        for width in [1, 2, 10, 80] {
            let shown = texts(&view, now, height, width);
            assert!(shown.len() <= height, "{height}: {shown:?}");
            assert!(shown.iter().all(|line| line.chars().count() <= width));
        }
    }
    let shown = texts(&view, now, 24, 80);
    assert_eq!(shown.len(), 24, "the screen is filled");
    for title in ["could not be done", "last changes"] {
        assert!(shown.iter().any(|line| line == title), "{title}: {shown:?}");
    }
}

#[test]
fn what_is_hostile_is_shown_as_what_it_is() {
    let now = Instant::now();
    let mut view = View::new("t".into());
    view.change(now, "~ link x alias \x1b[2J\nsecond".into());
    let shown = texts(&view, now, 24, 80).concat();
    assert!(shown.contains("\\x1b[2J\\nsecond"), "{shown}");
    assert!(!shown.contains(char::is_control), "{shown}");
}

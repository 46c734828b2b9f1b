//! Vertices that poll and have no events: only time makes them run again.

use super::*;

#[test]
fn a_vertex_that_polls_runs_again_after_each_interval_and_is_quiet_between() {
    let mut driver = Driver::new(1, [VertexSpec::new("a").unwatched().with_poll(seconds(60))]);
    driver.end_all(&[]);
    assert_eq!(driver.state.poll_timeout(), Some(driver.now + seconds(60)));
    driver.wait(seconds(1));
    assert!(driver.state.is_converged(driver.now));
    assert!(driver.state.is_vertex_converged(driver.now, driver.id("a")));
    driver.wait(seconds(59));
    assert!(!driver.state.is_converged(driver.now));
    assert!(!driver.state.is_vertex_converged(driver.now, driver.id("a")));
    driver.end_all(&[]);
    assert_eq!(driver.ran(), ["a", "a"]);
}

/// Ends each run of `a` with this failure, and returns the number of runs within a time.
fn failed_runs(driver: &mut Driver, class: ErrorClass, time: Duration) -> usize {
    let end = driver.now + time;
    let mut count = 0;
    loop {
        while !driver.going.is_empty() {
            driver.end("a", Err(class));
            count += 1;
        }
        match driver.state.poll_timeout() {
            Some(at) if at <= end => driver.wait(at - driver.now),
            _ => break,
        }
    }
    driver.wait(end - driver.now);
    count
}

#[test]
fn a_poll_goes_on_after_every_failure_at_the_pace_of_the_retries_delay() {
    for class in ErrorClass::ALL.into_iter().filter(|it| !it.is_done()) {
        let mut driver =
            Driver::new(1, [VertexSpec::new("a").unwatched().with_poll(seconds(1) / 10)]);
        let runs = [(); 5].map(|()| failed_runs(&mut driver, class, seconds(2)));
        // One run at the start, and each other one after the retry delay of 1 s.
        assert_eq!(runs, [3, 2, 2, 2, 2], "{class}");
        let failed = format!("last run: failed ({class}), 11 in a row");
        let explained = driver.explain("a");
        assert!(explained.ends_with(&failed), "{explained}");
        assert!(explained.contains("waits for 1s"), "{explained}");
        driver.wait(seconds(1));
        driver.end_all(&[]);
        driver.wait(seconds(1));
        assert!(!driver.going.is_empty(), "the poll's interval counts again");
    }
}

#[test]
fn a_poll_that_failed_for_good_waits_for_its_interval_or_for_a_parent() {
    let vertices = || {
        [
            VertexSpec::new("parent"),
            VertexSpec::new("a").unwatched().after("parent").with_poll(seconds(60)),
            VertexSpec::new("tried").after_tried("a"),
        ]
    };
    let mut driver = Driver::new(1, vertices());
    driver.end("parent", Ok(Verdict::InPlace));
    driver.end("a", Err(ErrorClass::Invalid));
    assert_eq!(driver.ran(), ["parent", "a", "tried"], "it does not hold it back");
    driver.end("tried", Ok(Verdict::InPlace));
    driver.wait(seconds(59));
    driver.event("parent");
    driver.end_all(&[]);
    assert_eq!(driver.ran(), ["parent", "a"], "at once after its parent");
}

#[test]
fn a_poll_that_failed_for_good_goes_on_in_a_graph_that_is_replaced() {
    let vertices = || [VertexSpec::new("a").unwatched().with_poll(seconds(60))];
    let mut driver = Driver::new(1, vertices());
    driver.end("a", Err(ErrorClass::Invalid));
    driver.wait(seconds(30));
    driver.replace(vertices().into_iter().chain([VertexSpec::new("b")]));
    driver.end("b", Ok(Verdict::InPlace));
    driver.ran();
    driver.wait(seconds(30));
    assert_eq!(driver.ran(), ["a"]);
    driver.end_all(&[]);
}

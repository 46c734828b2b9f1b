//! Searches with vertices that run although a parent has failed.

use super::world::Budget;
use super::{NO_GROUP, NO_SEMAPHORES, NOTHING, SEMAPHORES, most, search_tried};

#[test]
fn vertices_after_tried_ones_among_events_and_failures() {
    let budget = Budget { events: 1, failures: 2, ..NOTHING };
    search_tried(most(), &NO_SEMAPHORES, &NO_GROUP, budget);
}

#[test]
fn vertices_after_tried_ones_among_a_failure_and_a_kill() {
    let budget = Budget { failures: 1, kills: 1, ..NOTHING };
    search_tried(most(), &NO_SEMAPHORES, &NO_GROUP, budget);
}

#[test]
fn vertices_after_tried_ones_with_semaphores_an_event_a_failure_and_a_pause() {
    let budget = Budget { events: 1, failures: 1, pauses: 1, ..NOTHING };
    search_tried(most(), &SEMAPHORES, &NO_GROUP, budget);
}

#[test]
fn vertices_after_tried_ones_among_an_event_a_failure_and_a_replacement() {
    let budget = Budget { events: 1, failures: 1, replacements: 1, ..NOTHING };
    search_tried(3, &NO_SEMAPHORES, &NO_GROUP, budget);
}

#[test]
fn vertices_after_tried_ones_with_records_a_failure_and_a_kill_after_which_some_are_missing() {
    let budget = Budget { failures: 1, departures: 1, recorded: [true; 4], ..NOTHING };
    search_tried(most(), &NO_SEMAPHORES, &NO_GROUP, budget);
}

//! Searches with records of the vertices' work.

use super::world::Budget;
use super::{NO_GROUP, NO_SEMAPHORES, NOTHING, all_groups, most, search};

#[test]
fn records_among_failures_and_a_kill_after_which_vertices_are_missing() {
    let budget = Budget { failures: 1, departures: 1, recorded: [true; 4], ..NOTHING };
    search(most(), &NO_SEMAPHORES, &NO_GROUP, budget);
}

#[test]
fn records_on_both_sides_of_a_vertex_without() {
    let budget =
        Budget { events: 1, departures: 1, recorded: [true, false, true, true], ..NOTHING };
    search(most(), &NO_SEMAPHORES, &NO_GROUP, budget);
}

#[test]
fn records_among_replacements_and_two_kills() {
    let budget =
        Budget { kills: 1, replacements: 1, departures: 1, recorded: [true; 4], ..NOTHING };
    search(most() - 1, &NO_SEMAPHORES, &NO_GROUP, budget);
}

#[test]
fn vertices_that_make_another_thing_among_failures_and_a_kill() {
    let budget = Budget { failures: 1, kills: 1, exchanges: 1, recorded: [true; 4], ..NOTHING };
    search(most(), &NO_SEMAPHORES, &NO_GROUP, budget);
}

#[test]
fn vertices_that_make_other_things_among_replacements_and_failures() {
    let budget =
        Budget { failures: 1, exchanges: 2, replacements: 1, recorded: [true; 4], ..NOTHING };
    search(most() - 1, &NO_SEMAPHORES, &NO_GROUP, budget);
}

#[test]
fn groups_with_records_among_failures_and_a_kill_after_which_vertices_are_missing() {
    let budget = Budget { failures: 1, departures: 1, recorded: [true; 4], ..NOTHING };
    search(most(), &NO_SEMAPHORES, &all_groups(), budget);
}

#[test]
fn groups_of_vertices_with_records_and_without_among_replacements_and_a_kill() {
    let budget =
        Budget { kills: 1, replacements: 1, recorded: [true, false, true, true], ..NOTHING };
    search(most(), &NO_SEMAPHORES, &all_groups(), budget);
}

#[test]
fn groups_of_vertices_that_make_other_things_among_events() {
    let budget = Budget { events: 1, exchanges: 1, recorded: [true; 4], ..NOTHING };
    search(most(), &NO_SEMAPHORES, &all_groups(), budget);
}

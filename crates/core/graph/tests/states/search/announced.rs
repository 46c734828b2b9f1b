//! Searches with vertices that announce their changes, and edges for some kinds.

use super::world::Budget;
use super::{NO_GROUP, NOTHING, all_groups, most, search_kinds};

const MIXED: [bool; 4] = [true, false, true, true];

#[test]
fn kinds_of_change_among_events_a_failure_and_a_kill() {
    let budget = Budget { events: 1, failures: 1, kills: 1, announcing: MIXED, ..NOTHING };
    search_kinds(most(), &NO_GROUP, budget);
}

#[test]
fn kinds_of_change_among_failures_a_pause_and_a_kill() {
    let budget = Budget { failures: 2, pauses: 1, kills: 1, announcing: [true; 4], ..NOTHING };
    search_kinds(most(), &NO_GROUP, budget);
}

#[test]
fn kinds_of_change_among_a_failure_and_a_replacement() {
    let budget = Budget { failures: 1, replacements: 1, announcing: [true; 4], ..NOTHING };
    search_kinds(most(), &NO_GROUP, budget);
}

#[test]
fn kinds_of_change_of_vertices_with_records_and_without_among_a_failure_and_departures() {
    let budget = Budget {
        failures: 1,
        departures: 1,
        recorded: [true, false, true, false],
        announcing: [true; 4],
        ..NOTHING
    };
    search_kinds(most(), &NO_GROUP, budget);
}

#[test]
fn kinds_of_change_of_groups_among_an_event_and_a_kill() {
    let budget = Budget { events: 1, kills: 1, announcing: MIXED, ..NOTHING };
    search_kinds(most(), &all_groups(), budget);
}

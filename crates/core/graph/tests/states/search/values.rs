//! Searches with values that vertices send.

use super::world::Budget;
use super::{NO_GROUP, NO_SEMAPHORES, NOTHING, most, search};

#[test]
fn values_among_silent_runs_events_failures_and_a_kill() {
    let budget = Budget { events: 1, failures: 1, kills: 1, ports: true, silences: 1, ..NOTHING };
    search(most(), &NO_SEMAPHORES, &NO_GROUP, budget);
}

#[test]
fn values_among_silent_runs_and_replacements() {
    let budget = Budget { events: 1, replacements: 2, ports: true, silences: 1, ..NOTHING };
    search(most() - 1, &NO_SEMAPHORES, &NO_GROUP, budget);
}

//! Step by step: the other writer acts, then our pass runs, and the namespace is checked after
//! each.

use trueup_e2e::property;
use trueup_testkit::quiet_netns;

use crate::act::{self, Case};
use crate::run::{Run, desired};

pub(crate) fn whatever_he_does_between_our_passes_his_stays_and_ours_comes() {
    property::run("turns", 20, act::case, |case| turns(case, false));
}

/// A desired object replaces the other writer's object on its key, and nothing else does. Once it
/// is no longer desired, the old object is restored, unless the other writer touched it meanwhile.
/// Here the other writer does not use our marker.
pub(crate) fn what_is_taken_from_him_is_given_back() {
    property::run("take", 10, act::case, |case| {
        let mut case = case.clone();
        case.stays = true;
        for act in case.turns.iter_mut().flat_map(|turn| &mut turn.acts) {
            *act = act.clone().without_our_marker();
        }
        turns(&case, true)
    });
}

fn turns(case: &Case, take: bool) -> Result<(), String> {
    quiet_netns();
    let mut run = Run::start(case, take);
    in_turn(&mut run, case).map_err(|wrong| run.describe(&wrong))
}

fn in_turn(run: &mut Run, case: &Case) -> Result<(), String> {
    let desired = case.desired.each_ref().map(desired);
    let mut wanted = &desired[0];
    run.say_desired(wanted);
    run.pass(wanted)?;
    for turn in &case.turns {
        run.invade(&turn.acts);
        wanted = &desired[turn.desired];
        run.say_desired(wanted);
        run.pass(wanted)?;
    }
    run.end(wanted, case.stays)
}

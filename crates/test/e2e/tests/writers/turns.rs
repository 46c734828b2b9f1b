//! Step by step: the other writer acts, then a pass of ours runs, and between them the namespace is
//! looked at.

use trueup_e2e::property;
use trueup_testkit::quiet_netns;

use crate::act::{self, Case};
use crate::run::{Run, desired};

pub(crate) fn whatever_he_does_between_our_passes_his_stays_and_ours_comes() {
    property::run("turns", 20, act::case, |case| turns(case, false));
}

/// What is desired takes the place of what is his there, nothing else does, and once it is no
/// longer desired he has it back as it was, unless he laid hands on it meanwhile. He writes nothing
/// under our marker here.
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

//! Two actors in one namespace: our passes, and another writer with objects of every kind, who also
//! deletes, replaces, renames and recreates our objects. No op of ours may change the other
//! writer's objects. Once the other writer is quiet, we come to rest, and its objects stay. Ours
//! can still be deleted.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "test code, though without #[test]")]

mod act;
mod actor;
mod doubtful;
mod found;
mod oracle;
mod ours;
mod owners;
mod race;
mod run;
mod taken;
mod turns;

trueup_testkit::kernel_tests![
    turns::whatever_he_does_between_our_passes_his_stays_and_ours_comes,
    turns::what_is_taken_from_him_is_given_back,
    found::a_link_under_the_name_of_an_end_that_goes_is_ours,
    found::a_neighbour_without_a_protocol_is_given_back_without,
    found::what_he_removed_while_it_was_taken_is_not_given_back,
    doubtful::what_was_not_announced_of_needed_no_look,
    race::whatever_he_does_while_we_pass_his_stays_and_ours_comes,
];

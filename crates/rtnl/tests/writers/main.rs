//! Two actors in one namespace: passes of ours, and another writer who writes objects of every
//! kind, and also deletes, writes over, renames and makes again what is ours. Whatever he does, no
//! op of ours changes what is his; once he is quiet we come to rest, and what he holds stands; and
//! what is ours can be taken away.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, though without #[test]"
)]

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
mod world;

#[path = "../common/property.rs"]
mod property;

// The generators of desired states and the oracle of what the kernel then holds are those of the
// other kernel tests.
#[path = "../kernel/judge/author.rs"]
mod author;
#[path = "../kernel/judge/expect.rs"]
mod expect;
#[path = "../kernel/judge/links.rs"]
mod links;
#[path = "../kernel/judge/objects.rs"]
mod objects;
#[path = "../kernel/judge/other_writer.rs"]
mod other_writer;
#[path = "../kernel/judge/route.rs"]
mod route;
#[path = "../kernel/judge/row.rs"]
mod row;
#[path = "../kernel/judge/spec.rs"]
#[allow(dead_code, reason = "what cases of that test alone have")]
mod spec;

trueup_testkit::kernel_tests![
    turns::whatever_he_does_between_our_passes_his_stays_and_ours_comes,
    turns::what_is_taken_from_him_is_given_back,
    found::a_link_under_the_name_of_an_end_that_goes_is_ours,
    found::a_neighbour_without_a_protocol_is_given_back_without,
    found::what_he_removed_while_it_was_taken_is_not_given_back,
    doubtful::what_was_not_announced_of_needed_no_look,
    race::whatever_he_does_while_we_pass_his_stays_and_ours_comes,
];

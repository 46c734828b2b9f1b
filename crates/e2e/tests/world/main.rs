//! Several agents that exchange routes on a real etcd, each test in a namespace of its own.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests; clippy knows only those of the usual harness"
)]

#[allow(dead_code, reason = "shared with the tests of one agent")]
#[path = "../cli/agent.rs"]
mod agent;
mod command;
mod demo;
mod host;
mod mesh;
mod outages;
mod routes;

use command::*;
use outages::*;
use routes::*;

trueup_testkit::kernel_tests![
    a_route_of_one_host_is_in_the_kernel_of_another_and_goes_with_it,
    a_changed_file_changes_what_is_exported_and_collected,
    what_is_not_within_is_refused_and_why_says_so,
    while_etcd_is_stopped_routes_stay_and_it_is_said_since_when,
    a_restart_while_etcd_is_stopped_deletes_nothing,
    by_policy_routes_are_withdrawn_in_a_partition,
    one_shot_commands_without_the_store_change_nothing,
    a_lost_lease_exports_again_and_touches_no_route,
    init_makes_users_who_do_what_is_theirs,
    deploys_are_read_as_they_were_added,
    changes_are_printed_and_the_doctor_names_what_is_wrong,
    a_flood_of_exports_is_cut_and_others_are_collected,
    what_cannot_be_asked_of_a_store_is_refused,
    demo::the_demo_ends_as_it_says,
    mesh::a_mesh_in_one_process,
    mesh::a_mesh_on_etcd_without_a_host_that_died,
];

//! Several agents exchange routes through a real etcd; each test has its own namespace.

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
mod graph;
mod host;
mod hostile;
mod mesh;
mod outages;
mod overlaps;
mod prefixes;
mod routes;
mod tls;

use command::*;
use outages::*;
use routes::*;

trueup_testkit::kernel_tests![
    a_route_of_one_host_is_in_the_kernel_of_another_and_goes_with_it,
    the_routes_of_a_dead_host_are_gone_within_twice_its_time_to_live,
    overlaps::overlapping_routes_have_a_winner_that_every_host_picks_alike,
    prefixes::the_owner_of_a_prefix_is_told_who_took_it_while_it_was_away,
    prefixes::with_grants_a_hostile_export_is_refused_and_an_old_list_is_too,
    tls::hosts_speak_tls_and_a_wrong_authority_is_named_with_its_file,
    the_doctor_reads_its_file_from_the_standard_input_once,
    a_store_that_a_running_watch_has_is_named_with_the_remedy,
    hostile_names_reach_no_terminal_and_a_store_only_if_it_can_hold_them,
    a_changed_file_changes_what_is_exported_and_collected,
    what_is_not_within_is_refused_and_why_says_so,
    while_etcd_is_stopped_routes_stay_and_it_is_said_since_when,
    a_restart_while_etcd_is_stopped_deletes_nothing,
    by_policy_routes_are_withdrawn_in_a_partition,
    one_shot_commands_without_the_store_change_nothing,
    a_lost_lease_exports_again_and_touches_no_route,
    outages::the_second_of_two_machines_with_one_name_exports_nothing,
    outages::a_store_that_is_another_one_ends_the_agent,
    init_makes_users_who_do_what_is_theirs,
    a_process_with_a_password_leaves_no_core_dump,
    deploys_are_read_as_they_were_added,
    prune_removes_what_no_deploy_refers_to_also_while_deploys_are_added,
    the_doctor_says_that_etcd_is_full_and_how_to_make_room,
    changes_are_printed_and_the_doctor_names_what_is_wrong,
    a_flood_of_exports_is_cut_and_others_are_collected,
    what_cannot_be_asked_of_a_store_is_refused,
    graph::commands_run_after_what_is_collected_and_what_is_exported,
    graph::without_the_store_the_network_is_made_and_exports_are_tried_again,
    hostile::what_covers_the_store_or_an_own_address_is_refused_and_withdrawn,
    hostile::what_the_kernel_refuses_keeps_no_collector_from_converging,
    hostile::a_dead_host_s_route_that_stays_is_not_converged,
    hostile::an_export_that_changes_all_the_time_costs_few_changes_of_routes,
    demo::the_demo_ends_as_it_says,
    mesh::a_mesh_in_one_process,
    mesh::a_mesh_on_etcd_without_a_host_that_died,
];

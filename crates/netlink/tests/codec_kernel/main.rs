//! The codecs with the kernel as judge: what is encoded, created, dumped and decoded is the object
//! that was desired, in canonical form; a delete takes that one and leaves its likes alone.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod addresses;
mod echoes;
mod links;
mod markers;
mod neighbours;
mod net;
mod nexthops;
mod routes;
mod rules;

trueup_testkit::kernel_tests![
    addresses::ipv4_addresses_come_back_as_desired_and_go_alone,
    addresses::ipv6_addresses_come_back_as_desired_and_go_alone,
    addresses::ipv4_addresses_that_differ_in_prefix_or_peer_go_alone,
    addresses::a_replace_changes_what_the_model_says_can_change,
    addresses::a_temporary_ipv6_address_is_the_kernels,
    addresses::dumps_are_filtered_by_device,
    addresses::a_planned_device_is_no_index,
    echoes::an_echoed_route_is_the_row_of_the_dump,
    echoes::an_ipv4_replace_that_changes_nothing_is_told_to_nobody,
    echoes::a_delete_of_several_next_hops_is_echoed_for_each_in_ipv6,
    echoes::what_else_is_echoed_and_what_is_not,
    echoes::every_message_is_echoed_however_small_the_queue,
    echoes::a_lost_echo_is_unknown_and_never_silence,
    echoes::an_error_is_the_outcome_of_its_own_message_among_echoes,
    links::links_come_up_as_desired_and_go_alone,
    links::a_link_takes_the_index_that_was_asked_for,
    links::a_master_is_changed_alone_and_then_up_is_told_again,
    links::a_change_brings_about_all_that_can_change_in_place,
    links::a_peer_in_another_namespace_is_none,
    links::one_link_is_asked_for_by_name,
    links::what_netlink_cannot_create_is_refused,
    markers::a_marker_said_to_be_kept_comes_back_and_no_other,
    markers::asking_changes_nothing_and_takes_no_privilege,
    markers::a_kernel_that_does_not_check_strictly_keeps_those_of_rules_alone,
    markers::without_a_rule_nothing_is_said_of_rules,
    neighbours::ipv4_neighbours_come_back_as_desired_and_go_alone,
    neighbours::ipv6_neighbours_come_back_as_desired_and_go_alone,
    neighbours::a_replace_changes_in_place,
    neighbours::dumps_are_filtered_by_device,
    neighbours::what_the_kernel_moves_is_not_declared,
    nexthops::nexthop_objects_come_back_as_desired_and_go_alone,
    nexthops::a_replace_moves_all_routes_of_an_object,
    nexthops::what_the_model_does_not_hold_is_told,
    nexthops::what_has_no_number_or_no_device_is_refused,
    routes::ipv4_routes_come_back_as_desired_and_go_alone,
    routes::ipv6_routes_come_back_as_desired_and_go_alone,
    routes::ipv6_routes_from_a_source_come_back_where_the_kernel_has_them,
    routes::a_delete_passes_over_another_gateway,
    routes::a_replace_changes_in_place,
    routes::dumps_are_filtered_where_the_kernel_can,
    routes::what_would_match_more_is_refused,
    routes::as_many_next_hops_as_can_be_written_can_be_read_back,
    routes::a_route_through_a_nexthop_object_is_seen_and_goes_alone,
    routes::a_reject_route_goes_and_not_the_gateway_route_of_its_key,
    rules::rules_come_back_as_desired_and_go_alone,
    rules::rules_of_one_priority_are_told_apart,
    rules::what_the_model_does_not_hold_is_told,
    rules::an_l3mdev_rule_comes_back_where_the_kernel_has_them,
    rules::the_kernels_first_rules_are_understood,
    rules::what_would_match_any_is_refused,
];

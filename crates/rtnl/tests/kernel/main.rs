//! The source against the kernel that runs it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, though without #[test]"
)]

mod addresses;
mod attack;
mod changes;
mod collateral;
mod cost;
mod delete_limit;
mod duplicates;
mod facts;
mod freed;
mod kinds;
mod links;
mod many;
mod order;
mod ownership;
mod pass;
mod routes;
mod sockets;
mod support;

trueup_testkit::kernel_tests![
    pass::from_nothing_to_everything_and_back,
    pass::what_waits_for_a_link_that_fails_is_reported_once,
    sockets::a_pass_without_a_socket_for_its_dump_deletes_nothing_and_says_so,
    routes::a_local_route_is_made_anew_to_lead_elsewhere,
    routes::a_changed_gateway_is_one_replace_and_no_delete,
    routes::a_route_that_is_offered_and_refused_keeps_nothing_from_converging,
    routes::a_changed_metric_leaves_exactly_one_route,
    routes::one_impossible_gateway_among_a_hundred_fails_alone,
    routes::a_foreign_route_on_a_desired_key_is_a_conflict_and_stays,
    routes::an_equal_foreign_route_serves_and_is_not_ours_to_delete,
    routes::what_the_kernel_stores_otherwise_is_recognized,
    routes::a_permuted_multipath_route_is_the_same_route,
    routes::an_ipv6_source_waits_for_its_address,
    routes::a_route_deleted_between_plan_and_apply_counts_as_deleted,
    routes::a_route_follows_its_gateway_to_another_device,
    routes::a_key_taken_between_plan_and_apply_is_left_to_the_writer,
    delete_limit::deletes_beyond_a_share_are_held_until_they_are_allowed_once,
    duplicates::a_duplicate_address_is_never_called_converged,
    duplicates::a_duplicate_address_is_a_failed_object_and_usable_once_its_rival_has_left,
    freed::no_event_has_a_key_tried_that_another_writer_has,
    freed::a_key_that_is_freed_ends_the_backoff_of_its_create,
    many::a_new_gateway_for_very_many_routes_leaves_all_that_is_not_ours,
    many::a_source_that_listens_knows_very_many_routes_after_another_writer_has_changed_some,
    addresses::a_primary_with_a_foreign_secondary_is_held,
    addresses::another_first_address_of_a_subnet_and_its_routes_take_one_pass,
    addresses::an_ipv6_address_that_is_a_foreign_route_s_source_is_held,
    addresses::the_same_ipv6_address_with_another_prefix_length_is_made_anew,
    addresses::an_endless_ipv4_address_has_no_finite_preference,
    addresses::labels_and_flags_round_trip,
    addresses::a_foreign_route_s_source_on_our_link_holds_its_delete,
    links::a_link_that_carries_what_is_no_longer_declared_stays,
    links::a_bridge_can_be_declared_not_to_filter,
    links::another_vxlan_id_recreates_the_link_and_all_on_it_in_one_pass,
    links::a_link_made_again_by_a_writer_is_not_ours,
    links::an_index_used_again_is_not_ours,
    links::a_writer_on_our_bridge_holds_its_delete,
    links::a_writer_on_our_link_holds_the_changes_that_would_cost_him_his_objects,
    links::a_lost_ledger_costs_links_alone,
    links::kinds_that_are_not_managed_are_not_touched,
    links::a_mark_without_a_mask_is_a_whole_mark,
    links::a_writer_on_the_other_end_holds_the_pair,
    attack::what_a_writer_made_again_is_his,
    attack::a_foreign_route_to_an_ipv6_subnet_holds_our_address_in_it,
    attack::a_foreign_route_through_a_nexthop_object_holds_its_link,
    attack::a_foreign_link_on_ours_holds_a_smaller_mtu,
    attack::own_writes_bring_no_further_pass,
    collateral::a_foreign_nexthop_object_holds_its_link,
    collateral::a_foreign_group_over_our_link_holds_it_as_it_would_shrink,
    collateral::a_nexthop_object_on_the_other_end_holds_what_takes_its_carrier,
    collateral::a_nexthop_object_on_a_bridge_holds_its_last_port,
    collateral::a_nexthop_object_on_a_bridge_holds_one_of_its_last_two_ports,
    collateral::a_forwarding_entry_holds_its_port_and_its_tunnel,
    collateral::a_neighbour_on_a_bridge_holds_the_port_that_would_change_its_address,
    collateral::a_neighbour_that_is_not_permanent_holds_what_takes_its_carrier,
    collateral::an_object_on_a_port_holds_what_makes_it_a_vrfs where "vrf",
    collateral::a_link_local_address_that_was_made_by_hand_holds_its_link,
    collateral::what_is_of_ipv4_holds_an_mtu_that_is_too_small_for_it,
    collateral::a_macvtap_of_another_writer_holds_a_smaller_mtu where "macvtap",
    collateral::a_reject_route_of_ipv6_holds_the_loopback_device_up,
    collateral::a_vlan_that_is_down_holds_nothing where "vlan",
    changes::a_route_that_comes_and_goes_is_one_message_each,
    changes::no_route_is_read_to_verify_a_changed_one,
    changes::a_route_whose_new_gateway_is_refused_stays_as_it_is,
    changes::a_route_that_another_writer_has_changed_for_us_is_not_changed_again,
    changes::a_route_that_a_writer_took_unheard_is_not_put_behind_his,
    changes::a_route_that_went_unheard_takes_none_of_another_metric_along,
    changes::a_change_to_and_fro_is_no_message,
    changes::a_new_key_that_a_writer_has_is_left_to_him,
    changes::a_writers_twin_in_front_of_ours_survives_every_change,
    changes::a_writers_twin_in_front_of_ours_survives_a_whole_pass,
    changes::a_conflict_that_is_changed_hides_nothing_else,
    changes::a_route_that_lost_one_next_hop_is_deleted_whole,
    changes::what_waits_for_another_op_follows_it,
    changes::a_writers_route_that_served_is_not_taken_for_ours,
    changes::a_list_changed_in_its_place_is_seen,
    changes::no_route_is_read_to_change_one_by_an_object,
    changes::a_writers_twin_in_front_of_one_by_an_object_survives_every_change,
    changes::a_route_by_an_object_is_changed_whatever_a_writer_did_unheard,
    changes::an_object_that_failed_is_tried_again_without_a_read_of_routes,
    changes::a_create_that_is_put_off_has_no_foreign_routes_read,
    changes::events_cover_what_a_source_that_listens_has_read,
    changes::another_gateway_by_an_object_is_one_message,
    changes::another_gateway_beside_other_changes_is_not_taken_for_one_of_objects_alone,
    changes::another_gateway_after_a_writer_took_the_object_puts_all_back,
    order::addresses_before_and_after_their_link_comes_up_are_alike,
    order::many_links_go_in_one_message_and_no_writer_with_them,
    order::few_links_go_one_by_one_and_what_is_gone_is_no_failure,
    ownership::a_desired_state_changed_in_its_place_is_no_contention,
    ownership::with_a_ledger_each_runs_of_one_agent_share_a_namespace,
    ownership::with_default_options_a_second_run_deletes_what_the_first_made,
    ownership::a_ledger_s_scope_is_one_namespace_in_one_boot,
    cost::what_the_marker_proves_costs_no_write,
    cost::a_link_that_another_writer_renames_meanwhile_is_noticed,
    cost::a_pass_that_leaves_links_alone_reads_them_once,
    cost::what_waits_for_a_device_costs_no_second_read,
    cost::what_the_ledger_proves_costs_two_syncs_a_pass_and_none_when_still,
    facts::a_port_costs_its_bridge_the_neighbours,
    facts::an_ipv6_gateway_on_link_is_refused_where_it_is_elsewhere,
    facts::a_neighbour_waits_for_its_device_to_have_ipv6,
    facts::an_ipv6_table_s_local_default_catches_its_gateways,
    kinds::what_the_kernel_can_is_reported,
    kinds::a_dummy_comes_changes_and_goes where "dummy",
    kinds::a_vlan_comes_changes_and_goes where "vlan",
    kinds::a_vlan_s_tag_can_be_another_and_its_id_can_be_swapped where "vlan",
    kinds::a_bond_takes_new_ports_and_lets_them_go where "bond",
    kinds::a_bond_changes_its_mode where "bond",
    kinds::a_link_that_is_up_is_no_bond_s_port where "bond",
    kinds::a_writer_on_a_link_is_not_lost_to_a_bond where "bond",
    kinds::a_vrf_takes_ports_rules_and_routes_and_goes where "vrf",
    kinds::a_wireguard_link_that_exists_is_set_up_and_stays where "wireguard",
];

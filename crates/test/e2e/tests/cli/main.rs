//! The program on a real kernel; each test has its own namespace.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "tests; clippy knows only those of the usual harness"
)]

mod agent;
mod containers;
mod convergence;
mod doctor;
mod journal;
mod json;
mod limits;
mod live;
mod memory;
mod metrics;
mod migration;
mod observing;
mod options;
mod outcomes;
mod ownership;
mod page;
mod readme;
mod refusals;
mod reload;
mod removed_state;
mod sections;
mod sections_nft;
mod service;
mod settings;
mod stored;
mod trust;
mod watch;
mod why;
mod world;

use containers::*;
use convergence::*;
use doctor::*;
use journal::*;
use json::*;
use limits::*;
use live::*;
use memory::*;
use metrics::*;
use migration::*;
use observing::*;
use options::*;
use outcomes::*;
use ownership::*;
use page::*;
use readme::*;
use refusals::*;
use reload::*;
use removed_state::*;
use sections::*;
use sections_nft::*;
use service::*;
use settings::*;
use stored::*;
use trust::*;
use watch::{
    a_deleted_route_is_restored, a_limit_to_changes_spreads_them,
    a_missing_device_is_named_once_and_nothing_else_waits_for_it,
    a_namespace_recreated_under_its_name_is_not_taken_for_the_old_one, a_notice_is_printed_once,
    a_pass_that_cannot_run_is_reported_and_so_is_the_first_that_runs_again,
    a_signal_ends_it_in_the_middle_of_a_pass,
    both_signals_end_it_well_and_its_links_are_remembered, each_event_is_a_line_of_json,
    the_second_signal_ends_what_is_stuck,
    what_another_writer_takes_is_restored_when_it_is_heard_of,
    what_is_being_written_is_not_taken_up_in_part,
    what_is_on_a_renamed_link_stays_until_a_link_of_its_name_comes,
    who_takes_the_same_again_and_again_is_told_of,
};
use why::{
    a_foreign_object_is_shown_with_its_proof, a_question_changes_nothing_and_takes_no_privilege,
    the_text_of_a_route_that_is_ours, the_text_on_the_page_is_what_is_printed,
    what_cannot_be_told_exits_with_one, what_is_held_and_what_waits_is_told,
    what_is_ours_is_told_with_its_proof_for_each_kind,
    what_was_adopted_or_taken_is_told_with_what_it_was,
};
use world::*;

trueup_testkit::kernel_tests![
    a_second_container_leaves_the_first_and_each_goes_alone,
    containers_at_the_same_time_each_get_theirs,
    the_page_on_agents_shows_it,
    the_example_keeps_its_route,
    the_example_of_the_loop_measures,
    the_example_of_a_daemon_goes_on_beside_what_cannot_be,
    the_readme_shows_it,
    the_pictures_are_what_is_printed,
    the_first_file_is_that_of_the_readme_and_does_as_it_shows,
    an_agent_with_a_section_of_its_own_keeps_files_and_routes,
    the_page_on_sources_shows_the_rules_of_a_section,
    rules_of_a_section_are_kept_among_foreign_ones,
    rules_with_one_comment_become_one,
    a_handle_that_is_another_programs_by_now_is_not_used,
    a_rule_of_a_section_that_is_stored_otherwise_is_written_once,
    an_agent_with_rules_is_killed_at_each_call_of_nft,
    from_nothing_to_the_example_in_one_apply,
    a_route_moves_to_another_gateway_in_one_replace,
    a_changed_metric_leaves_one_route,
    canonical_forms_need_no_second_pass,
    an_address_and_a_route_on_a_veth_of_the_same_file,
    ip_batch_takes_the_commands_of_a_plan,
    the_json_of_the_commands_is_as_the_page_shows,
    the_events_of_watch_are_as_the_pages_show,
    the_commands_of_the_page_are_those_of_the_help,
    the_options_of_the_page_are_those_of_the_help,
    the_page_of_the_world_names_each_task_and_option,
    foreign_state_is_bit_identical_through_all_of_our_life,
    a_foreign_route_on_our_key_is_a_conflict,
    an_empty_section_removes_ours_and_an_absent_one_touches_nothing,
    one_impossible_gateway_among_a_hundred,
    what_waits_names_what_it_waits_for,
    errors_in_the_file_change_nothing,
    without_net_admin_nothing_is_changed,
    a_namespace_that_does_not_exist_is_told_with_where_it_was_looked_for,
    a_namespace_by_name_path_or_pid_is_the_one_that_is_changed,
    a_state_that_cannot_be_written_stops_a_pass_before_it_starts,
    a_second_writer_is_refused,
    usage_errors_exit_with_one_and_help_with_zero,
    a_reader_that_goes_away_is_no_failure,
    a_file_may_come_through_a_pipe_and_as_json,
    without_its_ledger_only_links_are_left_behind,
    the_ledger_of_another_boot_is_none,
    a_link_that_is_ours_stays_ours_over_runs_until_it_is_replaced,
    markers_and_namespaces_have_ledgers_of_their_own,
    state_is_kept_under_run_else_in_the_users_runtime_directory,
    a_damaged_journal_stops_a_pass_until_it_is_repaired,
    a_repair_leaves_a_file_that_is_no_journal_as_it_is,
    a_repair_that_loses_nothing_needs_no_flag,
    what_is_no_whole_journal_is_told_and_left,
    a_journal_that_is_held_can_be_read_and_not_repaired,
    without_journals_there_is_nothing_to_do_and_nothing_is_made,
    a_pass_without_changes_writes_nothing,
    nothing_is_made_that_could_not_be_remembered,
    a_plan_of_what_is_observed_is_empty,
    a_portable_file_converges_on_a_sister_host,
    what_a_link_has_without_a_key_is_named,
    the_options_of_a_bond_and_the_vlans_of_a_port_are_named where "bond",
    what_a_file_cannot_say_is_left_out_and_told,
    a_pair_that_ends_elsewhere_is_observed_as_it_is,
    the_commands_of_what_is_observed_make_it_again,
    our_routes_over_nexthop_objects_are_observed,
    a_host_of_another_tool_is_taken_over_and_moved,
    a_host_that_is_not_taken_over_hears_what_it_keeps,
    the_commands_set_up_links_that_must_exist,
    what_ip_batch_cannot_be_given_is_a_comment_and_never_another_name,
    no_text_holds_a_character_that_a_terminal_obeys,
    a_name_that_the_kernel_would_number_is_refused,
    what_can_never_come_right_is_invalid,
    both_signals_end_it_well_and_its_links_are_remembered,
    what_is_on_a_renamed_link_stays_until_a_link_of_its_name_comes,
    a_deleted_route_is_restored,
    a_changed_file_is_taken_up_and_a_broken_one_is_not,
    a_namespace_recreated_under_its_name_is_not_taken_for_the_old_one,
    a_missing_device_is_named_once_and_nothing_else_waits_for_it,
    a_notice_is_printed_once,
    a_pass_that_cannot_run_is_reported_and_so_is_the_first_that_runs_again,
    what_another_writer_takes_is_restored_when_it_is_heard_of,
    each_event_is_a_line_of_json,
    who_takes_the_same_again_and_again_is_told_of,
    a_file_behind_links_is_taken_up_when_they_lead_elsewhere,
    where_changes_of_files_cannot_be_heard_of_they_are_found,
    a_hangup_has_the_file_read_and_all_looked_at,
    what_is_being_written_is_not_taken_up_in_part,
    a_limit_to_changes_spreads_them,
    without_descriptors_watch_goes_on_and_says_so_once,
    changes_of_the_file_are_heard_of_once_they_can_be,
    a_fifo_in_the_place_of_the_file_is_refused_and_watched_on,
    a_fifo_in_the_place_of_the_journal_is_refused_at_once,
    a_device_is_no_file,
    what_stays_unresolved_is_reported_when_it_begins_and_when_it_ends,
    a_reader_that_goes_away_ends_watch,
    watch_prints_no_commands,
    the_limit_to_the_size_of_files_is_an_error_and_no_death,
    a_signal_ends_it_in_the_middle_of_a_pass,
    the_second_signal_ends_what_is_stuck,
    on_a_terminal_it_shows_how_things_stand,
    names_and_aliases_cannot_reach_the_terminal,
    a_line_has_the_colour_of_its_sign_where_colours_are_wanted,
    a_terminal_that_goes_away_ends_it,
    json_is_json_on_a_terminal_too,
    a_service_manager_is_told_of_the_start_of_reloads_and_of_the_end,
    a_watchdog_is_fed_while_there_is_nothing_to_do,
    a_service_manager_that_cannot_be_reached_is_told_before_the_first_pass,
    cap_net_admin_is_all_that_it_takes,
    the_unit_of_the_example_says_what_the_page_says,
    metrics_count_what_was_done,
    a_client_of_the_metrics_holds_up_no_pass,
    the_doctor_names_other_daemons_with_what_to_write,
    a_file_that_others_can_write_is_refused_unless_it_is_trusted,
    a_file_that_others_come_to_write_is_not_taken,
    a_port_that_another_user_has_keeps_nothing_from_starting,
    a_removed_state_directory_is_made_anew,
    an_agent_whose_state_another_one_has_taken_ends,
    an_agent_that_cannot_make_its_state_anew_ends,
    a_report_that_cannot_be_written_is_exit_code_two,
    a_path_of_bytes_that_are_no_text_does_not_break_json,
    a_state_that_was_not_read_whole_is_exit_code_one,
    a_misspelt_device_is_named_with_its_place_and_the_nearest_name,
    an_alternative_name_is_answered_with_the_interfaces_own,
    deletes_beyond_the_limit_are_held_until_they_are_allowed,
    a_refused_route_is_named_with_its_own_place_though_others_are_in_sync,
    by_the_strict_option_a_missing_device_refuses_the_file_and_no_sysctl_is_set,
    what_cannot_be_read_is_not_taken_for_nothing,
    a_directory_that_has_nothing_of_a_namespace_hides_nothing,
    a_usual_directory_of_another_user_is_left_out_of_a_check,
    a_state_directory_that_is_made_can_be_searched_by_all,
    an_empty_boot_id_is_no_boot,
    the_doctor_names_the_remedy_for_a_missing_proc,
    a_read_only_mount_of_proc_sys_is_named,
    a_sysctl_that_the_caller_may_not_read_is_not_a_pending_change,
    a_setting_of_a_link_of_the_same_file_takes_one_apply,
    a_setting_of_the_other_end_of_a_pair_takes_one_apply_too,
    a_setting_that_a_change_of_a_link_resets_is_set_again_at_once,
    settings_are_told_in_the_words_of_sysctl,
    without_the_section_no_setting_is_touched,
    a_setting_that_a_stranger_changes_is_found_by_timer,
    a_setting_does_not_wait_for_a_full_pass,
    a_setting_that_another_writer_changes_is_restored_by_its_event,
    the_doctor_tells_what_is_so_and_changes_nothing,
    the_doctor_takes_no_privilege_and_says_when_one_is_missing,
    the_doctor_tells_who_holds_a_journal,
    the_doctor_tells_what_is_wrong_with_the_state,
    the_doctor_looks_at_the_namespace_that_is_named,
    what_is_ours_is_told_with_its_proof_for_each_kind,
    a_foreign_object_is_shown_with_its_proof,
    what_was_adopted_or_taken_is_told_with_what_it_was,
    what_is_held_and_what_waits_is_told,
    the_text_of_a_route_that_is_ours,
    the_text_on_the_page_is_what_is_printed,
    a_question_changes_nothing_and_takes_no_privilege,
    what_cannot_be_told_exits_with_one,
    every_command_of_the_page_does_as_it_says,
    the_commands_of_the_readme_bring_the_example_up,
    what_the_kernel_would_store_otherwise_is_refused_with_its_place,
    an_address_of_which_the_device_would_cut_off_the_end_waits_by_itself,
    what_is_stored_otherwise_fails_and_shows_both_forms,
    what_is_stored_otherwise_is_written_once_until_it_changes,
    a_bridge_gives_up_its_spanning_tree_before_it_gets_a_delay_without,
    a_nearest_value_is_not_in_place,
    a_time_of_a_bridge_that_is_one_less_is_not_in_place,
    what_the_embedded_store_has_is_collected,
    a_hostile_export_costs_only_itself,
    a_store_that_another_process_has_changes_nothing,
    without_the_feature_endpoints_are_refused,
    the_file_of_the_page_is_one,
    the_blocks_of_output_are_what_is_printed,
];

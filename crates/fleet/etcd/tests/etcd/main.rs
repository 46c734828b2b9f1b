//! The store on real etcd, as processes in namespaces: needs the program `etcd` (Debian's package
//! etcd-server).

#![allow(clippy::unwrap_used, clippy::expect_used)]

mod access;
mod clock;
mod disk;
mod help;
mod known;
mod leases;
mod net;
mod outages;
mod partition;
mod roles;
mod size;

trueup_testkit::kernel_tests![
    access::a_user_does_only_what_its_role_allows,
    access::a_token_that_expired_is_renewed,
    access::a_changed_password_is_read_again,
    access::a_password_is_not_sent_in_clear_unless_allowed,
    access::what_clients_without_user_and_certificate_may_do_is_found,
    access::clients_without_a_certificate_are_refused,
    access::replaced_certificates_are_read_again,
    access::another_authority_takes_over_while_both_are_trusted,
    known::a_keep_alive_of_a_lost_lease_is_no_success,
    known::a_time_to_live_is_rounded_up_and_never_down,
    known::a_watch_of_compacted_changes_ends,
    known::progress_is_reported_when_asked_for,
    known::a_deletion_at_the_compacted_revision_is_not_missed,
    known::a_write_whose_answer_is_lost_is_not_sent_again,
    known::a_write_whose_member_dies_is_not_sent_again,
    known::a_store_restored_from_an_older_copy_is_noticed,
    known::a_session_exports_anew_after_a_store_was_restored,
    known::a_member_whose_data_differs_is_named,
    known::another_cluster_at_the_same_address_is_refused,
    leases::a_dead_host_s_keys_go_after_a_leader_change,
    leases::no_export_of_the_living_goes_unreported_when_a_leader_stalls,
    outages::every_call_ends_in_time,
    outages::calls_go_on_with_another_member,
    outages::without_a_leader_nothing_is_written_and_watches_end,
    outages::a_change_of_leader_loses_and_invents_nothing,
    outages::a_member_that_lost_its_data_joins_again,
    outages::a_full_store_is_read_and_not_written,
    clock::a_wall_clock_that_jumps_changes_nothing_for_a_host,
    disk::a_member_whose_disk_is_full_loses_nothing,
    partition::a_half_open_connection_is_noticed_by_keep_alives,
    partition::keep_alives_are_not_too_many_for_etcd,
    partition::a_watch_of_a_member_without_the_others_ends,
    partition::compaction_while_cut_off_is_reported,
    roles::a_host_does_nothing_in_the_name_of_another,
    roles::a_role_is_made_once_and_follows_what_is_granted,
    size::a_large_range_is_read_in_pages_of_one_revision,
    size::large_values_are_read_in_smaller_pages,
    size::a_revision_larger_than_a_message_is_one_event,
    size::a_slow_reader_misses_nothing,
    size::a_host_that_exports_without_end_costs_a_reader_what_it_stores,
];

//! Events and dumps of the running kernel, each test in its own namespace, and of the model kernel.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod dumps;
mod filter;
mod hand;
mod lossy;
mod monitor;

trueup_testkit::kernel_tests![
    monitor::every_change_in_scope_is_named,
    monitor::every_change_in_scope_is_named_on_the_model,
    monitor::what_the_kernel_removes_without_an_event_is_named_by_its_dependency,
    monitor::a_route_that_goes_without_an_event_is_named_by_the_link,
    monitor::a_nexthop_object_names_the_routes,
    monitor::the_queue_is_as_large_as_wanted_and_allowed,
    monitor::an_overrun_is_reported_once_and_nothing_after_it_is_missed,
    monitor::a_burst_of_events_does_not_keep_the_caller,
    monitor::a_namespace_is_identified_by_its_cookie,
    filter::events_of_foreign_objects_fill_no_queue,
    filter::events_of_many_own_writes_fill_no_queue,
    filter::queued_events_of_own_writes_are_ignored,
    filter::a_datagram_of_events_holds_one_message,
    filter::a_wider_scope_passes_more_and_never_less,
    dumps::ipv6_routes_beside_a_writer_at_full_speed,
    dumps::ipv6_routes_beside_a_writer_at_one_change_a_millisecond,
    dumps::rules_beside_a_writer,
    dumps::metrics_of_one_prefix_beside_a_writer,
    dumps::routes_to_elsewhere_do_not_disturb_those_of_ipv4,
    dumps::a_namespace_without_writers_is_read_once_and_completely,
    dumps::a_small_table_is_complete_beside_any_writer,
    dumps::own_writes_do_not_count,
    dumps::an_observer_opened_lazily_listens_to_large_dumps_alone,
    dumps::an_observer_opened_lazily_loses_no_rows_beside_a_writer,
    lossy::a_dump_that_loses_rows_is_never_complete,
    lossy::a_dump_that_recovers_is_complete_and_has_no_deleted_row,
    lossy::proxies_without_events_are_compared,
];

//! Events and dumps of the running kernel, each test in a namespace of its own, and of the fake
//! one.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod dumps;
mod filter;
mod hand;
mod lossy;
mod monitor;

trueup_testkit::kernel_tests![
    monitor::every_change_of_interest_is_named,
    monitor::every_change_of_interest_is_named_on_the_fake,
    monitor::what_goes_without_a_word_is_named_by_what_it_goes_with,
    monitor::a_route_that_goes_where_nobody_is_told_is_named_by_the_link,
    monitor::a_nexthop_object_names_the_routes,
    monitor::the_queue_is_as_large_as_is_wanted_and_allowed,
    monitor::an_overrun_is_told_once_and_nothing_after_it_is_missed,
    monitor::a_burst_keeps_nobody,
    monitor::a_namespace_is_known_by_its_cookie,
    filter::strangers_fill_no_queue,
    filter::our_own_echo_fills_no_queue,
    filter::our_own_echo_of_a_few_is_read_and_no_news,
    filter::a_datagram_of_events_holds_one_message,
    filter::a_wide_interest_passes_more_and_never_less,
    dumps::ipv6_routes_beside_a_writer_at_full_speed,
    dumps::ipv6_routes_beside_a_writer_at_one_change_a_millisecond,
    dumps::rules_beside_a_writer,
    dumps::metrics_of_one_prefix_beside_a_writer,
    dumps::routes_to_elsewhere_do_not_disturb_those_of_ipv4,
    dumps::a_quiet_namespace_is_read_once_and_whole,
    dumps::a_small_table_is_whole_beside_any_writer,
    dumps::own_writes_do_not_count,
    lossy::a_dump_that_loses_rows_is_never_called_whole,
    lossy::a_dump_that_recovers_is_whole_and_has_no_row_that_went,
    lossy::proxies_that_nobody_tells_of_are_compared,
];

//! The source against the kernel that runs it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, though without #[test]"
)]

mod judge;
mod pass;

trueup_testkit::kernel_tests![
    pass::from_nothing_to_everything_and_back,
    judge::valid_states_converge_in_one_pass,
    judge::strangers_are_left_alone,
];

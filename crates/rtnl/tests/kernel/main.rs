//! The source against the kernel that runs it.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "test code, though without #[test]"
)]

mod pass;

trueup_testkit::kernel_tests![pass::from_nothing_to_everything_and_back];

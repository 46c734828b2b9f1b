//! The source against the kernel that runs it.
fn nothing() {}
trueup_testkit::kernel_tests![nothing];

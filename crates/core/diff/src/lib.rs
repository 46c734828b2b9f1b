#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]
#![cfg_attr(docsrs, feature(doc_cfg))]

mod change_log;
mod diff;
mod verdict;
mod walk;

pub use change_log::{ChangeLog, Revision};
pub use diff::{Diff, three_way, two_way};
pub use verdict::{Found, Verdict, decide};
pub use walk::{Duplicate, walk};

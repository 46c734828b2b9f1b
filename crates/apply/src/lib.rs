//! Carries a plan out: ops in batches over netlink, and exactly one outcome for each.
//!
//! - Ops go in the plan's order. One that fails holds back only those that need it, which become
//!   pending and say for whom they wait; the rest goes on.
//! - What is to be deleted and is gone already counts as applied.
//! - Where the kernel's answer was lost, the op failed with class `unknown`: whether it was
//!   carried out only a new observation can tell.
//! - What to change is not decided here, and nothing is tried twice.
//!
//! No message leaves this crate that would touch more than its object: creates are exclusive,
//! replaces go only over what was observed as ours, deletes carry the full key and the marker. The
//! one delete of a group that many links of ours go by is of a group that they alone were put into.

#![forbid(unsafe_code)]

mod error_class;
mod indexes;
mod link_group;
mod message;
mod outcome;
mod run;

pub use trueup_reconcile::ErrorClass;

pub use indexes::{draw_indexes, is_drawn_index};
pub use outcome::{Failure, Outcome, Outcomes, Pending, StoredForms};
pub use run::{apply, apply_with_echo};

/// Runs the examples of the contract page.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/apply.md")]
struct ContractPage;

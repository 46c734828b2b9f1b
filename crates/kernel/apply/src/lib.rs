#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::disallowed_methods))]

mod batch;
mod error_class;
mod indexes;
mod link_group;
mod outcome;
mod run;

pub use trueup_reconcile::ErrorClass;

#[doc(hidden)]
pub use indexes::seed_random;
pub use indexes::{draw_indexes, is_drawn_index};
pub use outcome::{Failure, Outcome, Outcomes, Pending, StoredForms, Wait, stored_otherwise};
pub use run::{apply, apply_with_echo};

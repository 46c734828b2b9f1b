//! The kinds of objects that a file declares: one file each, with all that the format says of the
//! kind, and one row of [`sections`].

mod address;
mod link;
mod neighbour;
mod object;
mod route;
mod rule;
mod section;

use trueup_diff::{Address, IfName, Link, Neighbour, Route, Rule};

use section::Objects;
pub(crate) use section::{Opened, Output, Section, Unwritable, Written};

/// Returns an empty section for each kind, in the order in which they are written.
pub(crate) fn sections() -> Vec<Box<dyn Section>> {
    vec![
        Box::new(Objects::<Link<IfName>>::default()),
        Box::new(Objects::<Address<IfName>>::default()),
        Box::new(Objects::<Neighbour<IfName>>::default()),
        Box::new(Objects::<Route<IfName>>::default()),
        Box::new(Objects::<Rule>::default()),
    ]
}

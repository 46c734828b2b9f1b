//! The benchmark: programs that do the same works in turn, and the figures of it.
//!
//! [`series`] lists the works, [`program`] runs one, [`alternate`] has programs take turns,
//! [`profile`] samples where the time goes, [`record`] keeps the figures, [`page`] and [`picture`]
//! show them. A limit that is missed is shown, and fails nothing.

pub mod alternate;
pub mod page;
pub mod picture;
pub mod profile;
pub mod program;
pub mod record;
pub mod series;

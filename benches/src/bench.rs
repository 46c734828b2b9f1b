//! Works alternated among programs, and what becomes of the figures: [`series`] says what is measured, [`alternate`] has it
//! done, [`profile`] looks where it goes, [`record`] keeps what it took, [`page`] and [`picture`] show it. Judges nothing: a limit
//! that is missed is shown.

pub mod alternate;
pub mod page;
pub mod picture;
pub mod profile;
pub mod record;
pub mod series;

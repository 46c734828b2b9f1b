//! The sections of a file.

use crate::graph::{Exec, ManagedFile};
use crate::kinds;
use crate::section::{Elements, List, Section};
use crate::world::Export;

/// Returns an empty section of each sort, in the order in which they are written.
pub(crate) fn all() -> Vec<Section> {
    let others: [Box<dyn Elements>; 4] = [
        Box::new(List::<Export>::at(|file| &mut file.exports)),
        Box::new(List::at(|file| &mut file.collects)),
        Box::new(List::<ManagedFile>::at(|file| &mut file.files)),
        Box::new(List::<Exec>::at(|file| &mut file.execs)),
    ];
    kinds::sections().into_iter().chain(others).map(Section::new).collect()
}

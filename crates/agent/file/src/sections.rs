//! The sections of a file.

use crate::graph::{Exec, ManagedFile};
use crate::kinds;
use crate::own_section;
use crate::section::{Elements, List, Section};
use crate::world::Export;

/// Returns an empty section of each sort, in the order in which they are written, and then one of
/// each name in `own`.
pub(crate) fn all(own: &[&'static str]) -> Vec<Section> {
    let others: [Box<dyn Elements>; 4] = [
        Box::new(List::<Export>::at(|file| &mut file.exports)),
        Box::new(List::at(|file| &mut file.collects)),
        Box::new(List::<ManagedFile>::at(|file| &mut file.files)),
        Box::new(List::<Exec>::at(|file| &mut file.execs)),
    ];
    let own = own_section::sections(own);
    kinds::sections().into_iter().chain(others).chain(own).map(Section::new).collect()
}

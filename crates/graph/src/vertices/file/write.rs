//! Writes a file at once.

use std::fs;
use std::io::Write as _;

use trueup_path::Place;
use trueup_reconcile::ErrorClass;

use super::attributes::Attributes;
use crate::Failure;
use crate::vertices::at_path::{failed, failure};

/// Writes a new file beside the old one, and puts it in its place if that is still the old one.
pub(super) fn replace(
    place: &Place,
    content: &[u8],
    attributes: Attributes,
    old: Option<&fs::File>,
) -> Result<(), Failure> {
    let mut new = place.replacement(0o600).map_err(failure)?;
    let written = new.file().write_all(content);
    written.map_err(|error| failed(place.path(), "write", &error))?;
    set(place, new.file(), attributes)?;
    new.publish(old).map_err(failure)
}

/// Sets the owner, group and mode of an open file.
pub(super) fn set(place: &Place, file: &fs::File, attributes: Attributes) -> Result<(), Failure> {
    let path = place.path();
    match attributes.set(file) {
        Ok(true) => Ok(()),
        Ok(false) => {
            let message = format!(
                "{}: its mode or owner reads back differently; does its file system keep them?",
                path.display()
            );
            Err(Failure::new(ErrorClass::StoredOtherwise, message))
        }
        Err(error) => Err(failed(path, "set mode and owner", &error)),
    }
}

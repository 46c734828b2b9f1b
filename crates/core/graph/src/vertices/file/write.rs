//! Writes a file at once.

use std::fs;
use std::io::Write as _;

use trueup_path::Place;
use trueup_reconcile::ErrorClass;

use super::attributes::Attributes;
use crate::Failure;
use crate::vertices::at_path::{failed, failure};

/// Writes a new file beside the old one, and puts it in its place if that is still the old one. A
/// file that is mounted there is written in place: the kernel refuses to replace it.
pub(super) fn replace(
    place: &Place,
    content: &[u8],
    attributes: Attributes,
    old: Option<&fs::File>,
) -> Result<(), Failure> {
    if let Some(old) = old
        && place.is_mount_point(old).map_err(failure)?
    {
        return overwrite(place, content, attributes);
    }
    let mut new = place.replacement(0o600).map_err(failure)?;
    let written = new.file().write_all(content);
    written.map_err(|error| failed(place.path(), "write", &error))?;
    if let Some(old) = old {
        let copied = attributes.copy_extended(old, new.file());
        copied.map_err(|error| failed(place.path(), "keep extended attributes", &error))?;
    }
    set(place, new.file(), attributes)?;
    new.publish(old).map_err(failure)
}

/// Writes a file in place: a reader can see a part of it.
fn overwrite(place: &Place, content: &[u8], attributes: Attributes) -> Result<(), Failure> {
    let Some(mut file) = place.open_to_write().map_err(failure)? else {
        let message = format!("{}: it has just gone; it is tried again", place.path().display());
        return Err(Failure::new(ErrorClass::Busy, message));
    };
    let written = file.write_all(content);
    let written = written.and_then(|()| file.set_len(content.len() as u64));
    let written = written.and_then(|()| file.sync_all());
    written.map_err(|error| failed(place.path(), "write", &error))?;
    set(place, &file, attributes)
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

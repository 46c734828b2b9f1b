//! The boot id, which distinguishes the cookies and indexes of one boot from those of another.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use crate::Error;

const BOOT_ID: &str = "/proc/sys/kernel/random/boot_id";
/// More bytes than an id has.
const LIMIT: u64 = 256;

/// Returns the id of this boot (`/proc/sys/kernel/random/boot_id`).
///
/// # Errors
///
/// [`Io`](crate::ErrorKind::Io) if the file cannot be read, for instance without `/proc`, or is
/// empty: two boots without a known id must not count as the same boot.
pub fn boot_id() -> Result<String, Error> {
    read(Path::new(BOOT_ID))
        .map_err(|cause| Error::io("cannot read /proc/sys/kernel/random/boot_id", cause))
}

#[expect(clippy::disallowed_methods, reason = "a file of the kernel's")]
fn read(path: &Path) -> io::Result<String> {
    let mut text = String::new();
    File::open(path)?.take(LIMIT).read_to_string(&mut text)?;
    match text.trim() {
        "" => Err(io::Error::new(io::ErrorKind::InvalidData, "it is empty")),
        id => Ok(id.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_boot_id_is_an_error() {
        for path in ["/dev/null", "/no/such/file"] {
            assert!(read(Path::new(path)).is_err(), "{path}");
        }
        let id = boot_id().unwrap();
        assert_eq!(id.trim(), id);
        assert_eq!(id, boot_id().unwrap());
    }
}

//! The places of several files: different paths can lead to one.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use rustix::fs::fstat;
use trueup_path::Place;
use trueup_reconcile::ErrorClass;

use crate::Failure;

/// The places of the [files](super::File) of one graph, so that no two of them keep the same one.
///
/// A path over a symbolic link of a folder, or into a bind mount, can lead to a file that another
/// path leads to as well. That shows only once both folders are there.
#[derive(Clone, Debug, Default)]
pub struct Places(Arc<Mutex<BTreeMap<Identity, Claim>>>);

/// A folder, by the numbers of its device and inode, and a name in it.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Identity(u64, u64, OsString);

#[derive(Debug)]
struct Claim {
    path: PathBuf,
    /// Gone once its vertex is.
    vertex: Weak<()>,
}

impl Places {
    /// Claims a place for the vertex of a path, which gives up the one that it had.
    ///
    /// # Errors
    ///
    /// When the vertex of another path has it.
    pub(super) fn claim(
        &self,
        place: &Place,
        path: &Path,
        vertex: &Arc<()>,
    ) -> Result<(), Failure> {
        let status = fstat(place.folder()).map_err(|errno| {
            super::failed(path, "look at its folder", &std::io::Error::from(errno))
        })?;
        let identity = Identity(status.st_dev, status.st_ino, place.name().to_owned());
        let mut claims = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        claims.retain(|_, claim| claim.vertex.strong_count() > 0 && claim.path != path);
        if let Some(other) = claims.get(&identity) {
            let message = format!(
                "{}: is the same file as {}, by another path: remove one of the two",
                path.display(),
                other.path.display()
            );
            return Err(Failure::new(ErrorClass::Invalid, message));
        }
        let claim = Claim { path: path.to_owned(), vertex: Arc::downgrade(vertex) };
        claims.insert(identity, claim);
        Ok(())
    }
}

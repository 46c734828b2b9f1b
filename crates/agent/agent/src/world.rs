//! The world, as a file names it: the store of `[world]`, and the routes that `[[collect]]` makes
//! of other hosts' exports.

mod collect;
mod grants;
mod probation;
#[cfg(feature = "etcd")]
mod remedy;
mod store;
mod surroundings;

use std::path::Path;

use trueup_file as file;
use trueup_path::{open_any, read};
use trueup_world::{Error, Export, World};

pub use collect::Collection;
pub(crate) use collect::Retained;
pub(crate) use grants::{follow_grants, recorder};
pub use grants::{grants_check, read_grants};
pub(crate) use probation::Probation;
#[cfg(feature = "etcd")]
pub use store::etcd_config;
pub(crate) use store::open_to_stay;
pub use store::{Use, open};
pub(crate) use surroundings::Surroundings;

/// A callback for the error that the store is not the same one as before.
pub(crate) type OnReplaced = Box<dyn Fn(&Error) + Send + Sync>;

/// The name of the collector's vertex.
pub(crate) const COLLECTOR: &str = "collector";
/// The name of the exporter's vertex.
pub(crate) const EXPORTER: &str = "exporter";

/// Returns a file's exports in the store's form.
pub(crate) fn exports(declared: &[file::Export]) -> Vec<Export> {
    let exports = declared.iter().map(|it| Export {
        to: it.to.clone(),
        ..Export::new(it.kind().name(), it.name.clone(), it.data())
    });
    exports.collect()
}

/// Returns true if the store has these exports, and no others with a lease of this host.
pub(crate) fn is_exported(world: &World, exports: &[Export]) -> Result<bool, Error> {
    let mut own = world.exports()?;
    let are_there = exports.iter().all(|it| {
        let found = own.remove(&it.key(world.host()));
        found.is_some_and(|found| found.lease.is_some() && *found.value == *it.data)
    });
    Ok(are_there && own.values().all(|it| it.lease.is_none()))
}

/// Returns an id that differs between agents with the same host name. It consists of the machine id
/// and the random id in the agent's state directory, because two machines from one image have the
/// same machine id. A restarted process is the same owner. Only one process at a time has the
/// state.
pub fn owner(id: &str) -> String {
    let path = Path::new("/etc/machine-id");
    let machine = open_any(path).and_then(|file| read(path, &file, 1_024)).unwrap_or_default();
    format!("{} {id}", String::from_utf8_lossy(&machine).trim())
}

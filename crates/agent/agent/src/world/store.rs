//! Opens the store.

use std::fs::TryLockError;
use std::path::Path;
use std::sync::Arc;

use crate::error::{Result, bail};
use trueup_file as file;
use trueup_path::Place;
use trueup_world::{Embedded, Store, World};

use super::OnReplaced;
#[cfg(feature = "etcd")]
use super::remedy::WithRemedy;
use crate::state;

/// The name of the embedded store's file in the state directory. All hosts whose files name it, and
/// all commands, share it.
const EMBEDDED: &str = "world.redb";

/// The use that a command makes of the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// Reads only. A missing embedded store counts as empty, and is not made.
    Read,
    /// Reads and writes. A missing embedded store is made.
    Write,
}

/// Opens the store as the host of `[world]`. Members of etcd may be missing at first: each call on
/// the world fails after a timeout while none is reachable. An embedded store is in `directory`,
/// the state directory.
///
/// # Errors
///
/// Fails if the file of an embedded store cannot be opened, for example while another process has
/// it. Fails if the file names members of etcd, and this program was built without etcd.
pub fn open(declared: &file::World, directory: &Path, with: Use) -> Result<World> {
    open_with(declared, directory, with, Box::new(|_| {}))
}

/// Opens the store like [`open`], to write, for as long as this process runs.
///
/// # Errors
///
/// Fails like [`open`].
pub(crate) fn open_to_stay(
    declared: &file::World,
    directory: &Path,
    on_replaced: OnReplaced,
) -> Result<World> {
    open_with(declared, directory, Use::Write, on_replaced)
}

fn open_with(
    declared: &file::World,
    directory: &Path,
    with: Use,
    on_replaced: OnReplaced,
) -> Result<World> {
    let store = match &declared.endpoints {
        None => embedded(directory, with)?,
        Some(endpoints) => etcd(declared, endpoints, on_replaced)?,
    };
    Ok(World::new(store, &declared.prefix, &declared.host)?)
}

/// Opens the embedded store. A user who can open its file may read and write all of it.
fn embedded(directory: &Path, with: Use) -> Result<Arc<dyn Store>> {
    let folder = match with {
        Use::Write => Some(state::make(directory)?),
        Use::Read => state::existing(directory)?,
    };
    let Some(place) = folder.map(|folder| folder.place(EMBEDDED)) else {
        return Ok(Embedded::in_memory().connect());
    };
    if with == Use::Read && place.metadata()?.is_none() {
        return Ok(Embedded::in_memory().connect());
    }
    let path = directory.join(EMBEDDED);
    match Embedded::open(&path) {
        Ok(store) => Ok(store.connect()),
        Err(_) if is_locked(&place) => bail!(
            "the store {} is open in another process, such as `trueup watch`, and one process has \
             it at a time: ask that one, by its output and metrics, or end it first; hosts and \
             commands that work at the same time need etcd, as `endpoints` names it",
            path.display()
        ),
        Err(error) => Err(error.into()),
    }
}

fn is_locked(place: &Place) -> bool {
    let opened = place.open().ok().flatten();
    let locked = opened.map(|file| file.try_lock_shared());
    matches!(locked, Some(Err(TryLockError::WouldBlock)))
}

#[cfg(feature = "etcd")]
fn etcd(
    declared: &file::World,
    endpoints: &[String],
    on_replaced: OnReplaced,
) -> Result<Arc<dyn Store>> {
    let config = etcd_config(declared, endpoints)?;
    let store = trueup_etcd::EtcdStore::open(config)?;
    Ok(Arc::new(WithRemedy::new(store, declared, on_replaced)))
}

/// Returns the configuration of the connections to the members of etcd. From then on the process
/// may hold a password or a private key, so the kernel writes no core dump of it.
#[cfg(feature = "etcd")]
pub fn etcd_config(declared: &file::World, endpoints: &[String]) -> Result<trueup_etcd::Config> {
    crate::core_dumps::forbid()?;
    let mut config = trueup_etcd::Config::new(endpoints.iter().cloned())
        .with_clear_password(declared.allow_clear_password);
    if let Some((user, password_file)) = &declared.credentials {
        config = config.with_user(user, password_file);
    }
    if let Some(ca_file) = &declared.ca_file {
        config = config.with_ca_file(ca_file);
    }
    if let Some((cert_file, key_file)) = &declared.certificate {
        config = config.with_cert_files(cert_file, key_file);
    }
    Ok(config)
}

#[cfg(not(feature = "etcd"))]
fn etcd(_: &file::World, _: &[String], _: OnReplaced) -> Result<Arc<dyn Store>> {
    bail!(
        "[world] names endpoints of etcd, and this trueup was built without the feature `etcd`: \
         build it with `cargo build --features etcd` (with Debian's packages protobuf-compiler and \
         libprotobuf-dev), or write store = \"embedded\""
    )
}

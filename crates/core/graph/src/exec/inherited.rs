//! What a command inherits from this process: no descriptors, a short environment, no capabilities.

use std::env;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt as _;
use std::process::{Child, Command};
use std::sync::Arc;
use std::thread;

use rustix::io::Errno;
use rustix::process::geteuid;
use rustix::thread::{CapabilitySet, capabilities, clear_ambient_capability_set, set_capabilities};

/// The folders in which a command finds programs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Starts a command on a thread that is prepared for it.
type Spawn = dyn Fn(&mut Command) -> io::Result<Child> + Send + Sync;

/// Starts a command on a thread that is prepared for it, if the caller has said how.
#[derive(Clone, Default)]
pub(super) struct Spawner(pub(super) Option<Arc<Spawn>>);

impl Spawner {
    fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        match &self.0 {
            Some(spawn) => spawn(command),
            None => command.spawn(),
        }
    }
}

impl fmt::Debug for Spawner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Spawner").field(&self.0.is_some()).finish()
    }
}

/// What a command gets of what this process has.
#[derive(Clone, Debug, Default)]
pub(super) struct Inherited {
    /// How it is started.
    pub(super) spawner: Spawner,
    /// The ambient capabilities.
    pub(super) ambient: bool,
    /// Variables beside those that each command gets.
    pub(super) variables: Vec<OsString>,
}

impl Inherited {
    /// Starts a command, which gets its standard streams, these variables, and the capabilities of
    /// its user. It begins in the root folder.
    pub(super) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        command
            .env_clear()
            .env("PATH", self.search_path())
            .envs(env::vars_os().filter(|(name, value)| self.has(name, value)))
            .current_dir("/");
        // Ours close at an exec by themselves. These are what we inherited, or what a library of
        // the process has opened otherwise.
        close_fds::set_fds_cloexec_threadsafe(3, &[]);
        if self.ambient {
            return self.spawner.spawn(command);
        }
        // The capabilities are the thread's. So ours stay, and the command has those of a thread
        // that has dropped them.
        thread::scope(|scope| {
            let spawner = thread::Builder::new().name("spawn".into());
            let spawned = spawner.spawn_scoped(scope, || {
                drop_ambient()?;
                self.spawner.spawn(command)
            })?;
            spawned.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Returns the folders in which a program is looked for: those of the command's `PATH`.
    pub(super) fn search_path(&self) -> OsString {
        let passed =
            self.variables.iter().any(|it| it == "PATH").then(|| env::var_os("PATH")).flatten();
        passed.unwrap_or_else(|| PATH.into())
    }

    fn has(&self, name: &OsStr, value: &OsStr) -> bool {
        let is_of_language =
            |name: &str| matches!(name, "LANG" | "LANGUAGE" | "TZ") || name.starts_with("LC_");
        match name.to_str() {
            _ if self.variables.iter().any(|it| it == name) => true,
            // `su` and `sudo` may leave that of another user, whose settings are not ours.
            Some("HOME") => fs::metadata(value).is_ok_and(|it| it.uid() == geteuid().as_raw()),
            Some(name) => is_of_language(name),
            None => false,
        }
    }
}

/// Drops the ambient and the inheritable capabilities of the calling thread.
fn drop_ambient() -> io::Result<()> {
    clear_ambient_capability_set()?;
    let mut sets = capabilities(None)?;
    sets.inheritable = CapabilitySet::empty();
    match set_capabilities(None, sets) {
        // A filter of system calls, such as that of systemd without @privileged. Without ambient
        // ones the inheritable ones count only for a program whose file names them.
        Err(Errno::PERM) => Ok(()),
        dropped => Ok(dropped?),
    }
}

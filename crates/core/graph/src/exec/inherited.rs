//! A command's inheritance from this process: no descriptors, few variables, no capabilities.

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

/// The folders to search for programs.
const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// Starts a command on a thread that is prepared for it.
type Spawn = dyn Fn(&mut Command) -> io::Result<Child> + Send + Sync;

/// The caller's function to start a command; `None` starts it on the current thread.
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

/// The parts of this process's state that a command inherits.
#[derive(Clone, Debug, Default)]
pub(super) struct Inherited {
    /// How to start it.
    pub(super) spawner: Spawner,
    /// True if it keeps the ambient capabilities.
    pub(super) ambient: bool,
    /// Variables in addition to the standard ones.
    pub(super) variables: Vec<OsString>,
}

impl Inherited {
    /// Starts a command with its standard streams, these variables, and its user's capabilities, in
    /// the root folder.
    pub(super) fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        command
            .env_clear()
            .env("PATH", self.search_path())
            .envs(env::vars_os().filter(|(name, value)| self.has(name, value)))
            .current_dir("/");
        // Our own descriptors are close-on-exec. This covers inherited descriptors, and ones that a
        // library of the process opened without the flag.
        close_fds::set_fds_cloexec_threadsafe(3, &[]);
        if self.ambient {
            return self.spawner.spawn(command);
        }
        // Capabilities belong to a thread. A separate thread drops them and starts the command, so
        // ours stay.
        thread::scope(|scope| {
            let spawner = thread::Builder::new().name("spawn".into());
            let spawned = spawner.spawn_scoped(scope, || {
                drop_ambient()?;
                self.spawner.spawn(command)
            })?;
            spawned.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })
    }

    /// Returns the command's `PATH`: the folders to search for a program.
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
            // `su` and `sudo` may keep another user's `HOME`, whose settings must not be used.
            Some("HOME") => fs::metadata(value).is_ok_and(|it| it.uid() == geteuid().as_raw()),
            Some(name) => is_of_language(name),
            None => false,
        }
    }
}

/// Drops the calling thread's ambient and inheritable capabilities.
fn drop_ambient() -> io::Result<()> {
    clear_ambient_capability_set()?;
    let mut sets = capabilities(None)?;
    sets.inheritable = CapabilitySet::empty();
    match set_capabilities(None, sets) {
        // A filter of system calls forbids it, such as systemd's without @privileged. Without
        // ambient capabilities, the inheritable ones matter only for a program whose file names
        // them.
        Err(Errno::PERM) => Ok(()),
        dropped => Ok(dropped?),
    }
}

//! The host: a folder for each guest, and the QEMU that runs it.
//!
//! Each QEMU is a separate process, which outlives the agent. The agent finds it again by its
//! monitor socket in the guest's folder. The folder also has the guest's disks, its backups, and
//! the start parameters.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::process::Pid;
use serde::{Deserialize, Serialize};
use serde_json::json;

use crate::firmware;
use crate::qmp::{Error, Monitor, Result};

/// The program, of Debian's package `qemu-system-x86`.
pub const QEMU: &str = "qemu-system-x86_64";

/// The time limit of a conversation: QEMU answers within milliseconds, unless it hangs or is
/// stopped.
const BOUND: Duration = Duration::from_secs(5);

/// The time limit for a guest that did not answer last time, and the time until it is asked again.
const SILENT_BOUND: Duration = Duration::from_secs(1);

/// The longest path of a socket (`sun_path`, unix(7)) in bytes, without its final NUL.
const MAX_SOCKET_PATH: usize = 107;

/// The longest name of a guest, a disk, a network interface or a backup, in bytes: QEMU's nodes
/// have names of at most 31 bytes, and a backup's name combines two.
pub const MAX_NAME: usize = 15;

/// All guests in a folder.
#[derive(Debug)]
pub struct Host {
    folder: PathBuf,
    pub(crate) traces: Option<PathBuf>,
    /// The times at which guests last failed to answer.
    silent: Mutex<BTreeMap<String, Instant>>,
}

/// The parameters at a guest's start. While it runs, QEMU itself reports the present state.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters {
    /// The size of its memory, in bytes.
    pub memory: u64,
    /// Text for users; empty if there is none.
    pub description: String,
    /// Its disks, by name. Each is a file with the disk's size.
    pub disks: BTreeMap<String, Bounds>,
    /// The MAC addresses of its network interfaces, by name.
    pub nics: BTreeMap<String, String>,
}

/// The bounds of a disk; 0 means no bound.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// The limit in bytes a second.
    pub bps: u64,
    /// The limit in requests a second.
    pub iops: u64,
}

impl Host {
    /// Opens the host of a folder, and creates the folder. With a folder for `traces` each QEMU
    /// writes all commands and answers into a file there, which grows as long as it runs.
    ///
    /// # Errors
    ///
    /// If the folder cannot be written, or its path is too long for sockets in it.
    pub fn open(folder: &Path, traces: Option<&Path>) -> io::Result<Host> {
        fs::create_dir_all(folder)?;
        let folder = folder.canonicalize()?;
        let longest = folder.join("x".repeat(MAX_NAME)).join("events");
        if longest.as_os_str().len() > MAX_SOCKET_PATH {
            let message = format!(
                "{}: this path is too long for the sockets in it, of at most \
                 {MAX_SOCKET_PATH} bytes: choose a shorter folder",
                folder.display()
            );
            return Err(io::Error::new(ErrorKind::InvalidInput, message));
        }
        let (path, image) = (folder.join("firmware"), firmware::image());
        if fs::read(&path).ok().as_ref() != Some(&image) {
            fs::write(path, image)?;
        }
        if let Some(traces) = traces {
            fs::create_dir_all(traces)?;
        }
        let traces = traces.map(Path::canonicalize).transpose()?;
        let silent = Mutex::default();
        Ok(Host { folder, traces, silent })
    }

    /// Returns the names of all guests, running or not.
    ///
    /// # Errors
    ///
    /// If the folder cannot be read.
    pub fn guests(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            // A guest without parameters is not created yet, or already destroyed.
            if let (Some(name), true) = (name, path.join("parameters.json").is_file()) {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Returns the process of a guest's QEMU; `None` if none runs.
    pub fn process(&self, guest: &str) -> Option<Pid> {
        let file = self.guest_folder(guest).join("pid");
        let id = fs::read_to_string(&file).ok()?;
        let id = id.trim().parse().ok()?;
        // A killed QEMU leaves the file behind, and the number may be reused.
        let arguments = fs::read_to_string(format!("/proc/{id}/cmdline")).ok()?;
        let is_ours = arguments.split('\0').any(|argument| Path::new(argument) == file);
        Pid::from_raw(id).filter(|_| is_ours)
    }

    /// Returns the folder of a guest, which may not exist.
    pub fn guest_folder(&self, guest: &str) -> PathBuf {
        self.folder.join(guest)
    }

    /// Begins a conversation with a guest's QEMU. If it did not answer, it is not asked again for a
    /// second, and then with a shorter time limit, so it delays others only once.
    ///
    /// # Errors
    ///
    /// Like [`Monitor::connect`].
    pub fn monitor(&self, guest: &str) -> Result<Monitor> {
        let silent = || self.silent.lock().unwrap_or_else(PoisonError::into_inner);
        let since = silent().get(guest).map(Instant::elapsed);
        let bound = match since {
            Some(since) if since < SILENT_BOUND => {
                return Err(Error::silent());
            }
            Some(_) => SILENT_BOUND,
            None => BOUND,
        };
        let monitor = Monitor::connect(&self.guest_folder(guest).join("qmp"), bound);
        match monitor {
            Err(Error::NoAnswer(_)) => silent().insert(guest.to_owned(), Instant::now()),
            _ => silent().remove(guest),
        };
        monitor
    }

    /// Returns the parameters for a guest's start.
    ///
    /// # Errors
    ///
    /// If its file cannot be read.
    pub fn parameters(&self, guest: &str) -> io::Result<Parameters> {
        let path = self.guest_folder(guest).join("parameters.json");
        let text = fs::read_to_string(&path)?;
        serde_json::from_str(&text).map_err(|error| {
            let message = format!("{}: {error}: remove it to give up the guest", path.display());
            io::Error::new(ErrorKind::InvalidData, message)
        })
    }

    /// Changes the parameters for a guest's start. This creates the guest if there is none.
    ///
    /// # Errors
    ///
    /// If its file cannot be read or written.
    pub fn change_parameters(
        &self,
        guest: &str,
        change: impl FnOnce(&mut Parameters),
    ) -> io::Result<()> {
        let mut parameters = match self.parameters(guest) {
            Err(error) if error.kind() == ErrorKind::NotFound => Parameters::default(),
            parameters => parameters?,
        };
        change(&mut parameters);
        let folder = self.guest_folder(guest);
        let new = folder.join("parameters.new");
        let mut file = File::create(&new)?;
        file.write_all(json!(parameters).to_string().as_bytes())?;
        file.sync_all()?;
        fs::rename(new, folder.join("parameters.json"))
    }

    /// Returns the path of a disk's file, which may not exist.
    pub fn disk_file(&self, guest: &str, disk: &str) -> PathBuf {
        self.guest_folder(guest).join(format!("{disk}.raw"))
    }

    /// Removes a stopped guest, with its disks and backups.
    ///
    /// # Errors
    ///
    /// If its folder cannot be removed.
    pub fn remove(&self, guest: &str) -> io::Result<()> {
        let folder = self.guest_folder(guest);
        // Do this first: even a removal that is cut off has then removed the guest.
        ignore_missing(fs::remove_file(folder.join("parameters.json")))?;
        ignore_missing(fs::remove_dir_all(folder))
    }
}

/// Turns the error for a missing file into success: it may be removed or renamed already.
pub(crate) fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

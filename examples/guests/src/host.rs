//! The host: a folder for each guest, and the QEMU that runs it.
//!
//! A QEMU is a process of its own, which outlives the agent. It is found again by its monitor
//! socket in the guest's folder. Beside it are the guest's disks, its backups, and what QEMU is
//! started with.

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

/// The bound on a conversation: QEMU answers within milliseconds, unless it hangs or is stopped.
const BOUND: Duration = Duration::from_secs(5);

/// The bound for a guest that did not answer the last time, and for how long it is not asked again.
const SILENT_BOUND: Duration = Duration::from_secs(1);

/// The longest path of a socket (`sun_path`, unix(7)), without its final NUL.
const MAX_SOCKET_PATH: usize = 107;

/// The longest name of a guest, a disk, a network interface or a backup: QEMU's nodes have names of
/// at most 31 bytes, and that of a backup consists of two.
pub const MAX_NAME: usize = 15;

/// The guests of a folder.
#[derive(Debug)]
pub struct Host {
    folder: PathBuf,
    pub(crate) traces: Option<PathBuf>,
    /// When a guest did not answer the last time.
    silent: Mutex<BTreeMap<String, Instant>>,
}

/// What a guest's QEMU is started with. While it runs, it reports itself what it has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parameters {
    /// The size of its memory, in bytes.
    pub memory: u64,
    /// Text for people.
    pub description: String,
    /// Its disks, by name. Each is a file, which has the size.
    pub disks: BTreeMap<String, Bounds>,
    /// The MAC addresses of its network interfaces, by name.
    pub nics: BTreeMap<String, String>,
}

/// The bounds of a disk; 0 for none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bounds {
    /// In bytes a second.
    pub bps: u64,
    /// In requests a second.
    pub iops: u64,
}

impl Host {
    /// Makes the host of a folder, which is created. With a folder for `traces` each QEMU writes
    /// all commands and answers into a file there, which grows as long as it runs.
    ///
    /// # Errors
    ///
    /// When the folder cannot be written, or its path is too long for sockets in it.
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
    /// When the folder cannot be read.
    pub fn guests(&self) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.folder)? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str());
            // A guest without parameters was not yet created, or is destroyed already.
            if let (Some(name), true) = (name, path.join("parameters.json").is_file()) {
                names.push(name.to_owned());
            }
        }
        names.sort();
        Ok(names)
    }

    /// Returns the process of a guest's QEMU, if one runs.
    pub fn process(&self, guest: &str) -> Option<Pid> {
        let file = self.guest_folder(guest).join("pid");
        let id = fs::read_to_string(&file).ok()?;
        let id = id.trim().parse().ok()?;
        // The file is left behind by a QEMU that was killed, and the number may be used again.
        let arguments = fs::read_to_string(format!("/proc/{id}/cmdline")).ok()?;
        let is_ours = arguments.split('\0').any(|argument| Path::new(argument) == file);
        Pid::from_raw(id).filter(|_| is_ours)
    }

    /// Returns the folder of a guest.
    pub fn guest_folder(&self, guest: &str) -> PathBuf {
        self.folder.join(guest)
    }

    /// Begins a conversation with a guest's QEMU. One that did not answer is not asked again for a
    /// second, and then with a shorter bound: it holds up others but once.
    ///
    /// # Errors
    ///
    /// Those of [`Monitor::connect`].
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

    /// Returns what a guest's QEMU is, or will be, started with.
    ///
    /// # Errors
    ///
    /// When its file cannot be read.
    pub fn parameters(&self, guest: &str) -> io::Result<Parameters> {
        let path = self.guest_folder(guest).join("parameters.json");
        let text = fs::read_to_string(&path)?;
        serde_json::from_str(&text).map_err(|error| {
            let message = format!("{}: {error}: remove it to give up the guest", path.display());
            io::Error::new(ErrorKind::InvalidData, message)
        })
    }

    /// Changes what a guest's QEMU will be started with. With that the guest exists.
    ///
    /// # Errors
    ///
    /// When its file cannot be read or written.
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

    /// Returns the file of a guest's disk.
    pub fn disk_file(&self, guest: &str, disk: &str) -> PathBuf {
        self.guest_folder(guest).join(format!("{disk}.raw"))
    }

    /// Removes a guest that does not run, with its disks and backups.
    ///
    /// # Errors
    ///
    /// When its folder cannot be removed.
    pub fn remove(&self, guest: &str) -> io::Result<()> {
        let folder = self.guest_folder(guest);
        // First of all: then a removal that is cut off has still removed the guest.
        ignore_missing(fs::remove_file(folder.join("parameters.json")))?;
        ignore_missing(fs::remove_dir_all(folder))
    }
}

/// What is to be removed or renamed may be so already.
pub(crate) fn ignore_missing(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

//! The start of a guest's QEMU, and a check for a start under way.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant};

use crate::devices;
use crate::host::{Host, QEMU};
use crate::qmp::{Error, Result};

/// The time limit for QEMU's start, which takes some tenths of a second.
const START_BOUND: Duration = Duration::from_secs(30);

/// The time limit of the wait for a guest that is being started.
const LOCK_BOUND: Duration = Duration::from_secs(5);

impl Host {
    /// Returns true while a process starts a guest's QEMU, until it is ready. That includes a start
    /// by an agent that was killed: such a guest is not stopped.
    ///
    /// # Errors
    ///
    /// If the guest's folder cannot be read.
    pub fn is_starting(&self, guest: &str) -> io::Result<bool> {
        match File::open(self.start_lock(guest)) {
            Ok(file) => match file.try_lock_shared() {
                Ok(()) => Ok(false),
                Err(TryLockError::WouldBlock) => Ok(true),
                Err(TryLockError::Error(error)) => Err(error),
            },
            // The guest was never started, or is gone.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    fn start_lock(&self, guest: &str) -> PathBuf {
        self.guest_folder(guest).join("lock")
    }

    fn lock_start(&self, guest: &str) -> Result<File> {
        let mut options = File::options();
        let options = options.write(true).create(true).truncate(false);
        let file = options.open(self.start_lock(guest))?;
        let until = Instant::now() + LOCK_BOUND;
        while Instant::now() < until {
            match file.try_lock() {
                Ok(()) => return Ok(file),
                // Another process holds the lock for a moment, to check for a start.
                Err(TryLockError::WouldBlock) => thread::sleep(Duration::from_millis(1)),
                Err(TryLockError::Error(error)) => return Err(error.into()),
            }
        }
        Err(Error::Refused("it is being started already".to_owned()))
    }

    /// Starts a guest's QEMU with all its devices, and with its processor paused.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] with QEMU's reason, also if one runs already: its process id file is
    /// locked. [`Error::NoAnswer`] if it is not ready in time.
    pub fn start(&self, guest: &str) -> Result<()> {
        let folder = self.guest_folder(guest);
        let parameters = self.parameters(guest)?;
        let boot = fs::read_to_string("/proc/sys/kernel/random/uuid")?;
        let file = |disk: &str| Some(self.disk_file(guest, disk)).filter(|file| file.exists());
        let mut command = Command::new(QEMU);
        command
            .current_dir(&folder)
            .args(["-name", guest, "-uuid", boot.trim()])
            .args(["-machine", "pc,accel=tcg", "-cpu", "qemu64,apic=off"])
            .args(["-m", &format!("size={}B", parameters.memory)])
            .args(["-no-user-config", "-nodefaults", "-display", "none"])
            .args(["-bios", "../firmware", "-qmp", "unix:qmp,server=on,wait=off"])
            .args(["-qmp", "unix:events,server=on,wait=off"])
            .args(devices::arguments(&parameters, file))
            .args(["-S", "-daemonize", "-pidfile"])
            .arg(folder.join("pid"));
        // With a log, QEMU also writes errors there.
        let log =
            self.traces.as_ref().map(|traces| traces.join(format!("{guest}.{}", boot.trim())));
        if let Some(log) = &log {
            command.arg("-D").arg(log).args(["-trace", "handle_qmp_command"]);
            command.args(["-trace", "monitor_qmp_respond", "-trace", "job_state_transition"]);
        }
        // The process inherits the lock, and QEMU releases it when it is ready.
        let lock = self.lock_start(guest)?;
        // Use a file, not a pipe: it cannot become full.
        let said = folder.join("start");
        let output = File::create(&said)?;
        let child = command.stdin(lock).stdout(output.try_clone()?).stderr(output).spawn();
        let mut child = child.map_err(|error| {
            Error::Refused(format!("{QEMU}: {error}: install Debian's package qemu-system-x86"))
        })?;
        let until = Instant::now() + START_BOUND;
        // The started process ends once its child, the daemon, is ready.
        while Instant::now() < until {
            match child.try_wait()? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => {
                    let said = fs::read_to_string(log.unwrap_or(said))?;
                    return Err(Error::Refused(format!("{status}: {}", said.trim())));
                }
                None => thread::sleep(Duration::from_millis(5)),
            }
        }
        Err(Error::NoAnswer(format!("not ready within {} s", START_BOUND.as_secs())))
    }
}

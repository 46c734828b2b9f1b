//! A host for one test. Its guests end with the test.

use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Signal, kill_process};
use trueup_guests::host::{Bounds, Host, Parameters};
use trueup_guests::qmp::Monitor;

pub(crate) const MIB: u64 = 1 << 20;

pub(crate) struct TestHost {
    pub(crate) host: Host,
    pub(crate) folder: PathBuf,
}

impl TestHost {
    pub(crate) fn new() -> TestHost {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        // Not below the target directory: a socket's path must be short.
        let folder = std::env::temp_dir().join(format!("trueup-{}-{count}", std::process::id()));
        let host = Host::open(&folder.join("guests"), None).unwrap();
        TestHost { host, folder }
    }

    /// Creates and starts a guest with `memory` bytes.
    pub(crate) fn start(&self, guest: &str, memory: u64) -> Monitor {
        let description = format!("the \"guest\", {guest}");
        let set = |parameters: &mut Parameters| {
            (parameters.memory, parameters.description) = (memory, description);
        };
        fs::create_dir_all(self.host.guest_folder(guest)).unwrap();
        self.host.change_parameters(guest, set).unwrap();
        self.host.start(guest).unwrap();
        self.monitor(guest)
    }

    /// Plugs in a new disk of `size` bytes.
    pub(crate) fn plug(&self, monitor: &mut Monitor, disk: &str, size: u64) {
        let file = self.host.disk_file("web", disk);
        File::create(&file).unwrap().set_len(size).unwrap();
        monitor.plug_disk(disk, &file, Bounds::default()).unwrap();
    }

    pub(crate) fn monitor(&self, guest: &str) -> Monitor {
        self.host.monitor(guest).unwrap()
    }

    pub(crate) fn signal(&self, guest: &str, signal: Signal) {
        kill_process(self.host.process(guest).unwrap(), signal).unwrap();
    }

    /// Stops all threads of its QEMU: a signal alone returns while some can still answer.
    pub(crate) fn stop(&self, guest: &str) {
        self.signal(guest, Signal::STOP);
        let process = self.host.process(guest).unwrap().as_raw_nonzero();
        eventually("all threads have stopped", || {
            let threads = fs::read_dir(format!("/proc/{process}/task")).unwrap();
            let status = threads.map(|thread| thread.unwrap().path().join("status"));
            let mut status = status.filter_map(|status| fs::read_to_string(status).ok());
            status.all(|status| status.contains("State:\tT"))
        });
    }

    pub(crate) fn kill(&self, guest: &str) {
        self.signal(guest, Signal::KILL);
        eventually("the process is gone", || self.host.process(guest).is_none());
    }
}

impl Drop for TestHost {
    fn drop(&mut self) {
        for guest in self.host.guests().unwrap_or_default() {
            if let Some(process) = self.host.process(&guest) {
                let _ = kill_process(process, Signal::KILL);
            }
        }
        match thread::panicking() {
            true => println!("kept, to look at: {}", self.folder.display()),
            false => drop(fs::remove_dir_all(&self.folder)),
        }
    }
}

/// Waits until `holds` returns true, and fails only after an absurdly long time.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    // On an idle machine this takes at most seconds.
    let until = Instant::now() + Duration::from_secs(180);
    while !holds() {
        assert!(Instant::now() < until, "not within three minutes: {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

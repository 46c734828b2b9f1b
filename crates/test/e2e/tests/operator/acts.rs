//! The operator's acts in a burst.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use rustix::process::Signal;
use trueup_testkit::wait_until;

use crate::commands::{mount_bind, unmount};
use crate::edits;
use crate::network;
use crate::process::{Ended, Process};
use crate::site::Site;

/// The acts permitted in a run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Acts {
    All,
    /// All acts except those that end the agent.
    WithoutRestarts,
}

impl Site {
    pub(crate) fn act(&mut self) {
        match self.rng.u8(0..64) {
            0..10 => {
                let (edit, next) = (self.any_edit(), self.next_declared());
                self.declare(edit, next);
            }
            10..15 => {
                let file = self.file();
                let (what, result) = edits::spoil(&file, &mut self.rng);
                self.note(format!("the declaration {what} {result:?}"));
                self.answered.reads += 1;
            }
            15..26 => self.harm_file(),
            26..37 => {
                let n = self.rng.usize(0..self.folders.len());
                let folder = &mut self.folders[n];
                let (what, result) = folder.harm(&mut self.rng);
                if result.is_err() && folder.path().is_dir() && !folder.has_theirs() {
                    folder.lacks_theirs();
                }
                let what = format!("{} {what} {result:?}", folder.path().display());
                self.note(what);
                if n == 0 {
                    self.answered.reads += 1;
                }
            }
            37..42 => {
                let edit = self.any_edit();
                let result = self.write_source(edit);
                self.note(format!("another source {result:?}"));
            }
            42..45 => self.remove_state(),
            45..51 => self.signal(),
            51..53 if self.clock.is_some() => {
                let off = ["+10d", "-300d", "+10y", "+0", "-2s"][self.rng.usize(0..5)];
                self.note(format!("the clock is {off}"));
                self.set_clock(off);
            }
            53..57 => {
                let disk = &self.disks()[self.rng.usize(0..2)];
                let result = Site::fill(disk);
                self.note(format!("{} is full {result:?}", disk.display()));
            }
            57..59 => {
                let disk = &self.disks()[self.rng.usize(0..2)];
                let result = fs::remove_file(disk.join("filler"));
                self.note(format!("{} has space {result:?}", disk.display()));
            }
            59..60 => {
                let result = fs::remove_file(self.root.join("made"));
                self.note(format!("what a command made is removed {result:?}"));
            }
            _ => {
                let what = network::harm(&mut self.rng);
                self.note(what);
            }
        }
    }

    fn harm_file(&mut self) {
        let targets = self.targets();
        let path = &targets[self.rng.usize(0..targets.len())];
        let theirs = path.with_file_name("theirs");
        let remove = || match fs::symlink_metadata(path)?.is_dir() {
            true => fs::remove_dir(path),
            false => fs::remove_file(path),
        };
        // Writing in place follows links, perhaps to another writer's file.
        let is_apart = fs::symlink_metadata(path).is_ok_and(|found| {
            found.is_file() && std::os::unix::fs::MetadataExt::nlink(&found) == 1
        });
        let (what, result) = match self.rng.u8(0..9) {
            0 if is_apart => ("is written", fs::write(path, "harm\n")),
            1 if is_apart => ("is truncated", fs::File::create(path).map(drop)),
            0..=2 => ("is replaced", edits::rename_over(path, "harm\n")),
            3 => ("is removed", remove()),
            4 => ("has another mode", fs::set_permissions(path, fs::Permissions::from_mode(0o600))),
            5 => ("is a link", remove().and_then(|()| symlink("theirs", path))),
            6 => ("is another name of theirs", remove().and_then(|()| fs::hard_link(theirs, path))),
            7 => ("is a folder", remove().and_then(|()| fs::create_dir(path))),
            _ => ("is mounted over", self.bind(path)),
        };
        self.note(format!("{} {what} {result:?}", path.display()));
    }

    /// Mounts another file over a file, or unmounts it.
    fn bind(&self, path: &Path) -> std::io::Result<()> {
        if unmount(path) {
            return Ok(());
        }
        let other = self.root.join("bound");
        fs::write(&other, "bound\n")?;
        if !mount_bind(&other, path) {
            return Err(std::io::Error::other("not mounted"));
        }
        Ok(())
    }

    fn remove_state(&mut self) {
        if self.acts == Acts::WithoutRestarts {
            let is_full = self.root.join("disk/filler").exists();
            if is_full || self.is_stopped {
                return;
            }
        }
        self.note("the state directory is removed");
        self.answered.removals += 1;
        let _absent = fs::remove_dir_all(self.state());
        // A starting agent may not have read the journal yet. One that has writes it again.
        let is_starting = |process: &Process| !process.has_converged_before();
        self.is_state_lost |= self.process.as_ref().is_some_and(is_starting);
        if self.acts == Acts::WithoutRestarts {
            // The agent ends if there is no space for a new one.
            wait_until("the journal is made anew", || self.has_journal());
        }
    }

    fn signal(&mut self) {
        let Some(process) = &mut self.process else {
            return;
        };
        let most = match self.acts {
            Acts::All => 6,
            Acts::WithoutRestarts => 4,
        };
        let what = match self.rng.u8(0..most) {
            0 => {
                if !self.is_stopped {
                    process.wait_until_signals_are_caught();
                } else if !process.has_converged_before() {
                    return;
                }
                process.signal(Signal::HUP);
                self.answered.reads += 1;
                "SIGHUP"
            }
            1 | 2 => {
                process.signal(Signal::STOP);
                self.is_stopped = true;
                "SIGSTOP"
            }
            3 => {
                process.signal(Signal::CONT);
                self.is_stopped = false;
                "SIGCONT"
            }
            4 => {
                process.signal(Signal::KILL);
                let ended = process.wait();
                self.process = None;
                // The agent may have ended by itself just before.
                assert!(matches!(ended, Ended::Signal(9) | Ended::Code(1)), "{ended:?}");
                "SIGKILL"
            }
            _ => {
                process.signal(Signal::CONT);
                process.wait_until_signals_are_caught();
                process.signal(Signal::TERM);
                let ended = process.wait();
                if !matches!(ended, Ended::Code(0 | 1)) {
                    self.fail(&[format!("after SIGTERM: {ended:?}")]);
                }
                self.process = None;
                "SIGTERM"
            }
        };
        self.note(what);
    }
}

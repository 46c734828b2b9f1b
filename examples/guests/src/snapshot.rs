//! Snapshots of disks: an overlay that takes what is written, and the job of QEMU that commits it
//! into the image below.
//!
//! The overlay's file says whether there is one when the guest is started. So it is there before
//! QEMU writes into it, and it is taken away at the one moment at which the image has all of it and
//! nothing is written: while the job waits to be finalized.

use std::fs;
use std::path::{Path, PathBuf};

use qapi::qmp;
use serde_json::json;
use trueup_control::Task;

use crate::backup::Job;
use crate::devices::{image_name, node_name, overlay_name};
use crate::host::ignore_missing;
use crate::overlay;
use crate::qmp::{Error, Monitor, Result};

/// Returns the file of a disk's overlay, which follows from that of its image.
pub fn overlay_of(image: &Path) -> PathBuf {
    image.with_extension("overlay")
}

/// What an overlay is while its job waits to be finalized.
fn committed(image: &Path) -> PathBuf {
    image.with_extension("committed")
}

/// The id of the job that commits a disk's overlay. No backup has one with an underscore.
pub fn commit_job(disk: &str) -> String {
    format!("{disk}_commit")
}

impl Monitor {
    /// Returns true while an overlay is on top of a disk's image, and until its commit is finished.
    pub fn has_snapshot(&mut self, disk: &str) -> Result<bool> {
        let nodes = self.run::<qmp::query_named_block_nodes>(json!({ "flat": true }))?;
        let name = Some(overlay_name(disk));
        let mut overlay = nodes.iter().filter(|node| node.node_name == name);
        Ok(overlay.any(|node| node.backing_file.is_some()))
    }

    /// Puts an overlay on top of a disk's image, unless there is one.
    pub fn take_snapshot(&mut self, disk: &str, image: &Path) -> Result<()> {
        if self.has_snapshot(disk)? {
            return Ok(());
        }
        self.refuse_while_a_job_runs(disk)?;
        // What is left of an attempt that was cut off: nothing was written into it.
        self.remove_overlay(disk)?;
        let file = overlay_of(image);
        overlay::create(&file, fs::metadata(image)?.len())?;
        self.run::<qmp::blockdev_add>(json!({
            "driver": "qcow2", "node-name": overlay_name(disk),
            "file": { "driver": "file", "filename": file },
        }))?;
        let (node, overlay) = (image_name(disk), overlay_name(disk));
        self.run::<qmp::blockdev_snapshot>(json!({ "node": node, "overlay": overlay }))?;
        Ok(())
    }

    /// Removes the node of an overlay that is not in use, if it is there.
    pub(crate) fn remove_overlay(&mut self, disk: &str) -> Result<()> {
        let node = overlay_name(disk);
        if self.node_sizes()?.contains_key(&node) {
            self.run::<qmp::blockdev_del>(json!({ "node-name": node }))?;
        }
        Ok(())
    }

    /// Starts to commit a disk's overlay, unless its job is there already, with at most `speed`
    /// bytes a second; 0 for no bound. Returns false if the disk has none. QEMU refuses it while a
    /// backup of the disk runs.
    pub fn start_commit(&mut self, disk: &str, speed: u64) -> Result<bool> {
        let job = commit_job(disk);
        if self.job(&job)? != Job::Unknown {
            return Ok(true);
        }
        if !self.has_snapshot(disk)? {
            return Ok(false);
        }
        self.run::<qmp::block_commit>(json!({
            "job-id": job, "device": node_name(disk), "top-node": overlay_name(disk),
            "base-node": image_name(disk), "speed": speed,
            "auto-finalize": false, "auto-dismiss": false,
        }))?;
        Ok(true)
    }

    /// Fails while a disk's overlay is committed.
    pub(crate) fn refuse_while_committed(&mut self, disk: &str) -> Result<()> {
        match self.job(&commit_job(disk))? {
            Job::Unknown => Ok(()),
            _ => Err(Error::Refused("its snapshot is being committed".to_owned())),
        }
    }
}

/// Asks about the commit of a disk's overlay, and takes the next step. `monitor` is that of the
/// process in which it began, while that lives.
pub(crate) fn ask_commit(image: &Path, disk: &str, monitor: Option<Monitor>) -> Result<Task> {
    let (job, overlay, committed) = (commit_job(disk), overlay_of(image), committed(image));
    let id = json!({ "id": job });
    let mut monitor = monitor;
    let found = match &mut monitor {
        Some(monitor) => monitor.job(&job)?,
        None => Job::Unknown,
    };
    let progress = match (found, &mut monitor) {
        (Job::Running(done, all), _) => format!("{done} of {all} bytes"),
        (Job::Ready, Some(monitor)) => {
            monitor.run::<qmp::job_complete>(id)?;
            "it is ready, and is completed".to_owned()
        }
        (Job::Pending, Some(monitor)) => {
            // Not found: it was renamed before the agent was killed.
            ignore_missing(fs::rename(overlay, committed))?;
            monitor.run::<qmp::job_finalize>(id)?;
            "it is complete, and is finalized".to_owned()
        }
        (Job::Concluded(result), Some(monitor)) => {
            match &result {
                Ok(()) => {
                    monitor.remove_overlay(disk)?;
                    ignore_missing(fs::remove_file(committed))?;
                }
                // QEMU goes on with the overlay.
                Err(_) => ignore_missing(fs::rename(committed, overlay))?,
            }
            // Last: until then the job is there to be finished.
            monitor.run::<qmp::job_dismiss>(id)?;
            return Ok(result.map_or_else(Task::Failed, |()| Task::Succeeded));
        }
        // With its guest, or the agent was killed before it was recorded.
        _ if overlay.exists() => {
            return Ok(Task::Failed("the job ended with its guest".to_owned()));
        }
        _ => {
            ignore_missing(fs::remove_file(committed))?;
            return Ok(Task::Succeeded);
        }
    };
    let progress = Some(progress);
    Ok(Task::Running { progress })
}

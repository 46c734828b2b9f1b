//! Snapshots of disks: an overlay that takes new writes, and the QEMU job that commits it into the
//! image below.
//!
//! At a guest's start, the overlay's file tells if there is one. So it exists before QEMU writes
//! into it. It is removed at the only moment when the image has all its data and nothing is
//! written: while the job waits to be finalized.

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

/// Returns the path of a disk's overlay, derived from its image's.
pub fn overlay_of(image: &Path) -> PathBuf {
    image.with_extension("overlay")
}

/// Returns the overlay's path while its job waits to be finalized.
fn committed(image: &Path) -> PathBuf {
    image.with_extension("committed")
}

/// Returns the id of the job that commits a disk's overlay. Ids of backups have no underscore.
pub fn commit_job(disk: &str) -> String {
    format!("{disk}_commit")
}

impl Monitor {
    /// Returns true from the time that an overlay is on top of a disk's image until its commit is
    /// finished.
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
        // Left from an attempt that was cut off; it has no data.
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

    /// Removes the node of an unused overlay, if it exists.
    pub(crate) fn remove_overlay(&mut self, disk: &str) -> Result<()> {
        let node = overlay_name(disk);
        if self.node_sizes()?.contains_key(&node) {
            self.run::<qmp::blockdev_del>(json!({ "node-name": node }))?;
        }
        Ok(())
    }

    /// Starts to commit a disk's overlay, unless its job exists, with at most `speed` bytes a
    /// second; 0 for no bound. Returns false if the disk has no overlay. QEMU refuses it while a
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

/// Returns the state of a commit, and makes its next step. `monitor` belongs to the process in
/// which the commit began; `None` once that has ended.
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
            // If it is not found, it was renamed before the agent was killed.
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
                // QEMU keeps using the overlay.
                Err(_) => ignore_missing(fs::rename(committed, overlay))?,
            }
            // Dismiss the job last: until then it can be completed again.
            monitor.run::<qmp::job_dismiss>(id)?;
            return Ok(result.map_or_else(Task::Failed, |()| Task::Succeeded));
        }
        // It ended with its guest, or the agent was killed before it recorded the end.
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

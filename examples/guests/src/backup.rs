//! Backups of disks: the QEMU jobs that make them, and their files.

use std::fs::{self, File};
use std::path::Path;

use qapi::qmp;
use serde_json::json;

use crate::devices::node_name;
use crate::host::ignore_missing;
use crate::qmp::{Error, Monitor, Result};

/// The state of a QEMU job.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Job {
    /// It runs: the bytes done, and all bytes.
    Running(i64, i64),
    /// It has copied everything, keeps copying new writes, and can be completed.
    Ready,
    /// It waits to be finalized, and the disk with it.
    Pending,
    /// It has ended. QEMU keeps it until it is dismissed.
    Concluded(std::result::Result<(), String>),
    /// This process has no such job.
    Unknown,
}

/// A backup of a disk: a QEMU job, and a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// The name of the disk that is copied.
    pub disk: String,
    /// The name, unique among the backups of the disk.
    pub name: String,
}

impl Backup {
    /// Makes the name of a backup.
    pub fn new(disk: &str, name: &str) -> Backup {
        let (disk, name) = (disk.to_owned(), name.to_owned());
        Backup { disk, name }
    }

    /// Returns the backup whose file this is; `None` for another or incomplete file.
    pub fn of_file(file: &str) -> Option<Backup> {
        let (disk, name) = file.strip_suffix(".backup")?.split_once('.')?;
        Some(Backup::new(disk, name))
    }

    /// Returns the job's id, which is also the name of the node to which it writes. QEMU refuses a
    /// second job with the id, and a second node with the name, so a backup cannot run twice.
    pub fn job(&self) -> String {
        format!("{}.{}", self.disk, self.name)
    }

    /// Returns the file's name once the backup is complete.
    pub fn file(&self) -> String {
        format!("{}.{}.backup", self.disk, self.name)
    }

    fn part(&self) -> String {
        format!("{}.{}.part", self.disk, self.name)
    }
}

impl Monitor {
    /// Starts a backup of a disk, unless its job exists. It copies at most `speed` bytes a second;
    /// 0 for no bound.
    pub fn start_backup(&mut self, folder: &Path, backup: &Backup, speed: u64) -> Result<()> {
        let job = backup.job();
        if self.job(&job)? != Job::Unknown {
            return Ok(());
        }
        self.refuse_while_committed(&backup.disk)?;
        let sizes = self.node_sizes()?;
        let size = sizes.get(&node_name(&backup.disk));
        let size = size.ok_or_else(|| Error::Refused(format!("no disk {}", backup.disk)))?;
        if sizes.contains_key(&job) {
            self.run::<qmp::blockdev_del>(json!({ "node-name": job }))?;
        }
        let part = folder.join(backup.part());
        File::create(&part)?.set_len(*size)?;
        self.run::<qmp::blockdev_add>(json!({
            "driver": "raw", "node-name": job, "file": { "driver": "file", "filename": part },
        }))?;
        self.run::<qmp::blockdev_backup>(json!({
            "job-id": job, "device": node_name(&backup.disk), "target": job, "sync": "full",
            "speed": speed, "auto-dismiss": false,
        }))?;
        Ok(())
    }

    /// Returns the state of a job.
    pub fn job(&mut self, id: &str) -> Result<Job> {
        let jobs = self.run::<qmp::query_jobs>(json!({}))?;
        let job = jobs.into_iter().find(|job| job.id == id);
        Ok(job.map_or(Job::Unknown, |job| match job.status {
            qmp::JobStatus::concluded => Job::Concluded(job.error.map_or(Ok(()), Err)),
            qmp::JobStatus::ready => Job::Ready,
            qmp::JobStatus::pending => Job::Pending,
            _ => Job::Running(job.current_progress, job.total_progress),
        }))
    }

    /// Completes a backup whose job is concluded: only now does its file get its final name.
    pub fn finish_backup(
        &mut self,
        folder: &Path,
        backup: &Backup,
        is_complete: bool,
    ) -> Result<()> {
        let job = backup.job();
        if self.node_sizes()?.contains_key(&job) {
            self.run::<qmp::blockdev_del>(json!({ "node-name": job }))?;
        }
        let part = folder.join(backup.part());
        match is_complete {
            // If it is not found, it was renamed before the agent was killed.
            true => ignore_missing(fs::rename(part, folder.join(backup.file())))?,
            false => ignore_missing(fs::remove_file(part))?,
        }
        // Dismiss the job last: until then it can be completed again.
        self.run::<qmp::job_dismiss>(json!({ "id": job }))?;
        Ok(())
    }

    /// Cancels a job; a missing job is an error.
    pub fn cancel_job(&mut self, id: &str) -> Result<()> {
        self.run::<qmp::job_cancel>(json!({ "id": id }))?;
        Ok(())
    }
}

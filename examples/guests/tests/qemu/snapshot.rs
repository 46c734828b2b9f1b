//! Snapshots of disks and their commits, with agents and guests killed in the middle.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use qapi::qmp;
use serde_json::json;
use trueup_control::{Backend as _, Task};
use trueup_guests::agent;
use trueup_guests::backend::Guests;
use trueup_guests::backup::{Backup, Job};
use trueup_guests::host::{Bounds, Host, Parameters};
use trueup_guests::overlay::size_of;
use trueup_guests::qmp::{Error, Monitor};
use trueup_guests::snapshot::{commit_job, overlay_of};

use crate::support::{MIB, TestHost, eventually};

crate::tests![
    a_snapshot_keeps_the_image_and_is_found_at_the_next_start,
    a_disk_that_is_committed_is_left_alone,
    a_commit_that_ends_with_its_guest_loses_nothing,
    a_commit_that_is_cancelled_keeps_the_snapshot,
    a_commit_that_is_finalized_is_not_cancelled,
    a_commit_outlives_its_agent_and_is_finished_by_the_next_one,
];

/// Starts a guest with a disk of 4 MiB, of which a snapshot was taken, and 1 MiB written since.
fn start(test: &TestHost) -> (Monitor, PathBuf) {
    let mut monitor = test.start("web", 32 * MIB);
    let image = test.host.disk_file("web", "root");
    test.plug(&mut monitor, "root", 4 * MIB);
    let plug = |parameters: &mut Parameters| {
        parameters.disks.insert("root".to_owned(), Bounds::default());
    };
    test.host.change_parameters("web", plug).unwrap();
    monitor.take_snapshot("root", &image).unwrap();
    monitor.take_snapshot("root", &image).unwrap();
    write(&mut monitor, 1, "0 1M");
    (monitor, image)
}

/// Writes to the disk as the guest would.
fn write(monitor: &mut Monitor, byte: u8, place: &str) {
    let line = format!("qemu-io -d disk-root \"write -P {byte} {place}\"");
    let said = monitor.run::<qmp::human_monitor_command>(json!({ "command-line": line }));
    assert_eq!(said.unwrap(), "");
}

/// Returns the disk's length, first byte and last byte, read from a backup.
fn read(test: &TestHost) -> (u64, u8, u8) {
    let (folder, backup) = (test.host.guest_folder("web"), Backup::new("root", "check"));
    let mut monitor = test.monitor("web");
    monitor.start_backup(&folder, &backup, 0).unwrap();
    eventually("the disk is read", || {
        monitor.job(&backup.job()).unwrap() == Job::Concluded(Ok(()))
    });
    monitor.finish_backup(&folder, &backup, true).unwrap();
    let data = fs::read(folder.join(backup.file())).unwrap();
    let first = data[0];
    assert!(data[..MIB as usize].iter().all(|byte| *byte == first));
    (data.len() as u64, first, data[data.len() - 1])
}

fn image_has(image: &Path, byte: u8) -> bool {
    fs::read(image).unwrap()[..MIB as usize].iter().all(|it| *it == byte)
}

fn backend(test: &TestHost) -> Guests {
    Guests::new(Host::open(&test.folder.join("guests"), None).unwrap(), 0)
}

fn await_job(monitor: &mut Monitor, state: &Job) {
    eventually("the job's state", || monitor.job(&commit_job("root")).unwrap() == *state);
}

fn a_snapshot_keeps_the_image_and_is_found_at_the_next_start() {
    let test = TestHost::new();
    let (monitor, image) = start(&test);
    drop(monitor);
    assert!(image_has(&image, 0));
    assert_eq!(read(&test), (4 * MIB, 1, 0));
    let mut monitor = test.monitor("web");
    // The overlay has the size, and for a stopped guest its file tells it.
    monitor.resize_disk("root", 8 * MIB - 511).unwrap();
    assert_eq!(fs::metadata(&image).unwrap().len(), 4 * MIB);
    assert_eq!(size_of(&overlay_of(&image)).unwrap(), 8 * MIB);
    drop(monitor);
    test.kill("web");
    let observed = backend(&test).observe().unwrap().objects;
    assert!(observed.contains_key("web/disk/root/snapshot"));
    assert!(format!("{:?}", observed["web/disk/root"]).contains("8388608"));

    test.host.start("web").unwrap();
    let mut monitor = test.monitor("web");
    let disk = monitor.guest().unwrap().disks["root"];
    assert_eq!((disk.size, disk.has_snapshot), (8 * MIB, true));
    drop(monitor);
    assert_eq!(read(&test), (8 * MIB, 1, 0));
    let mut monitor = test.monitor("web");
    // The overlay is unplugged and plugged in with its disk.
    monitor.unplug_disk("root").unwrap();
    monitor.plug_disk("root", &image, Bounds::default()).unwrap();
    assert!(monitor.has_snapshot("root").unwrap());
    drop(monitor);
    assert_eq!(read(&test), (8 * MIB, 1, 0));
}

fn a_disk_that_is_committed_is_left_alone() {
    let test = TestHost::new();
    let (mut monitor, _) = start(&test);
    let (folder, backup) = (test.host.guest_folder("web"), Backup::new("root", "nightly"));
    monitor.start_backup(&folder, &backup, 1).unwrap();
    let refused = monitor.start_commit("root", 1).unwrap_err();
    assert!(matches!(refused, Error::Refused(_)), "{refused}");
    monitor.cancel_job(&backup.job()).unwrap();
    eventually("the backup is over", || {
        matches!(monitor.job(&backup.job()).unwrap(), Job::Concluded(_))
    });
    monitor.finish_backup(&folder, &backup, false).unwrap();

    for _ in 0..2 {
        assert!(monitor.start_commit("root", 1).unwrap());
    }
    assert_eq!(monitor.run::<qmp::query_jobs>(json!({})).unwrap().len(), 1);
    for refused in [
        monitor.resize_disk("root", 8 * MIB).unwrap_err(),
        monitor.refuse_while_a_job_runs("root").unwrap_err(),
        monitor.start_backup(&folder, &backup, 0).unwrap_err(),
    ] {
        assert!(matches!(refused, Error::Refused(_)), "{refused}");
    }
    assert!(monitor.has_snapshot("root").unwrap());
}

/// While the job waits to be finalized, the image has all data, with or without the overlay.
fn a_commit_that_ends_with_its_guest_loses_nothing() {
    for (is_renamed, is_killed) in [(false, true), (true, true), (false, false), (true, false)] {
        let test = TestHost::new();
        let (mut monitor, image) = start(&test);
        let task = format!("web:{}:commit:root", monitor.boot().unwrap());
        assert!(monitor.start_commit("root", 0).unwrap());
        await_job(&mut monitor, &Job::Ready);
        // A write now is in the overlay, and in the image before the job is complete.
        write(&mut monitor, 2, "0 1M");
        let complete = json!({ "id": commit_job("root") });
        monitor.run::<qmp::job_complete>(complete).unwrap();
        await_job(&mut monitor, &Job::Pending);
        assert!(image_has(&image, 2));
        let committed = image.with_extension("committed");
        if is_renamed {
            fs::rename(overlay_of(&image), &committed).unwrap();
        }
        match is_killed {
            true => test.kill("web"),
            false => monitor.stop(true).unwrap(),
        }
        drop(monitor);
        eventually("the process ends", || test.host.process("web").is_none());
        let ended = backend(&test).task(&task).unwrap();
        assert_eq!(ended == Task::Succeeded, is_renamed, "{ended:?}");
        assert!(!committed.exists());
        test.host.start("web").unwrap();
        let has_snapshot = test.monitor("web").has_snapshot("root").unwrap();
        assert_eq!(has_snapshot, !is_renamed);
        assert_eq!(read(&test), (4 * MIB, 2, 0));
    }
}

fn a_commit_that_is_cancelled_keeps_the_snapshot() {
    let test = TestHost::new();
    let (mut monitor, image) = start(&test);
    let task = format!("web:{}:commit:root", monitor.boot().unwrap());
    assert!(monitor.start_commit("root", 0).unwrap());
    await_job(&mut monitor, &Job::Ready);
    drop(monitor);
    let backend = backend(&test);
    backend.cancel(&task).unwrap();
    eventually("the task has failed", || matches!(backend.task(&task).unwrap(), Task::Failed(_)));
    assert!(overlay_of(&image).exists());
    let mut monitor = test.monitor("web");
    assert!(monitor.has_snapshot("root").unwrap());
    write(&mut monitor, 3, "0 1M");
    drop(monitor);
    test.kill("web");
    test.host.start("web").unwrap();
    assert_eq!(read(&test), (4 * MIB, 3, 0));
}

/// An agent was killed before it gave the command to finalize the job: the overlay is already gone.
fn a_commit_that_is_finalized_is_not_cancelled() {
    let test = TestHost::new();
    let (mut monitor, image) = start(&test);
    let task = format!("web:{}:commit:root", monitor.boot().unwrap());
    assert!(monitor.start_commit("root", 0).unwrap());
    await_job(&mut monitor, &Job::Ready);
    let complete = json!({ "id": commit_job("root") });
    monitor.run::<qmp::job_complete>(complete).unwrap();
    await_job(&mut monitor, &Job::Pending);
    fs::rename(overlay_of(&image), image.with_extension("committed")).unwrap();
    drop(monitor);
    let backend = backend(&test);
    assert!(backend.cancel(&task).is_err());
    eventually("the task has succeeded", || backend.task(&task).unwrap() == Task::Succeeded);
    assert!(!test.monitor("web").has_snapshot("root").unwrap());
}

struct Agent(Child);

impl Agent {
    fn start(folder: &Path) -> Agent {
        let child = Command::new(env!("CARGO_BIN_EXE_trueup-guests"))
            .args(["run", "guests.toml", "--state", "."])
            .args(["--interval", "100", "--backup-speed", "1048576"])
            .current_dir(folder)
            .stdin(Stdio::null())
            .stderr(File::create(folder.join("log")).unwrap())
            .spawn();
        Agent(child.unwrap())
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn a_commit_outlives_its_agent_and_is_finished_by_the_next_one() {
    const FILE: &str = "[guests.web]\nstate = \"running\"\nmemory = \"16MiB\"\n\
                        disks.root = { size = \"4MiB\", snapshot = true }\n";
    let test = TestHost::new();
    let (folder, file) = (test.folder.clone(), test.folder.join("guests.toml"));
    let image = test.host.disk_file("web", "root");
    let status = || agent::status_of(&folder).unwrap_or_default();
    fs::write(&file, FILE).unwrap();
    let it = Agent::start(&folder);
    eventually("the snapshot is taken", || {
        status().starts_with("converged: yes") && overlay_of(&image).exists()
    });
    write(&mut test.monitor("web"), 7, "0 4M");
    fs::write(&file, FILE.replace("true", "false")).unwrap();
    // It waits for an approval: the disk's content at the snapshot is lost.
    eventually("it is to be approved", || status().contains("to approve: "));
    assert!(image_has(&image, 0));
    let shown = status();
    let hash = shown.split("to approve: ").nth(1).unwrap();
    agent::approve(&folder, hash.split(' ').next().unwrap()).unwrap();
    let is_running = |status: String| status.contains("commit:root") && status.contains("bytes");
    eventually("the job runs", || is_running(status()));
    drop(it);
    let job = test.monitor("web").job(&commit_job("root")).unwrap();
    assert!(matches!(job, Job::Running(..)), "{job:?}");

    fs::write(folder.join("status"), "").unwrap();
    let _next = Agent::start(&folder);
    eventually("the next agent finds the job", || is_running(status()));
    eventually("it is committed", || status().starts_with("converged: yes"));
    let mut monitor = test.monitor("web");
    assert_eq!(monitor.job(&commit_job("root")).unwrap(), Job::Unknown);
    assert!(!monitor.has_snapshot("root").unwrap() && !overlay_of(&image).exists());
    assert!(!image.with_extension("committed").exists());
    drop(monitor);
    assert!(image_has(&image, 7));
    assert_eq!(read(&test), (4 * MIB, 7, 7));
}

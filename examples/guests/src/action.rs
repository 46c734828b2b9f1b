//! Actions: changes to running and to stopped guests.
//!
//! Each action can be repeated: if an answer was lost, it is started again. QEMU gets new parts
//! before the start parameters do, and loses removed parts after they do. So the parameters never
//! have a part that QEMU lacks, which would appear unasked at the next start.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::time::{Duration, UNIX_EPOCH};

use trueup_control::{Action, Started, Verb};

use crate::backup::Backup;
use crate::host::{Bounds, Host, Parameters, ignore_missing};
use crate::key::Key;
use crate::qmp::{Error, Monitor, Result};
use crate::snapshot;
use crate::task::{Kind, TaskId};

/// The time in which a guest may power off before its QEMU quits.
const STOP_BOUND: Duration = Duration::from_secs(10);

/// Starts an action. A backup copies at most `backup_speed` bytes a second; 0 for no bound.
///
/// # Errors
///
/// Any [`Error`]; [`Error::Gone`] also if the object's guest does not exist.
pub(crate) fn start(host: &Host, action: &Action, backup_speed: u64) -> Result<Started> {
    let key = Key::parse(&action.key).ok_or_else(|| refused("no such kind of object"))?;
    match key {
        Key::Guest(guest) => guest_action(host, guest, action),
        Key::Disk(guest, disk) => disk_action(host, guest, disk, action),
        Key::Nic(guest, nic) => nic_action(host, guest, nic, action),
        Key::Backup(guest, disk, name) => match action.verb {
            Verb::Create => {
                let mut monitor = host.monitor(guest)?;
                let (boot, folder) = (monitor.boot()?, host.guest_folder(guest));
                monitor.start_backup(&folder, &Backup::new(disk, name), backup_speed)?;
                Ok(task(guest, &boot, Kind::Backup(disk, name)))
            }
            Verb::Destroy => {
                let file = host.guest_folder(guest).join(Backup::new(disk, name).file());
                ignore_missing(fs::remove_file(file))?;
                Ok(Started::Done)
            }
            _ => Err(refused("a backup is made and removed, and not changed")),
        },
        Key::Snapshot(guest, disk) => {
            snapshot_action(host, guest, disk, &action.verb, backup_speed)
        }
    }
}

fn guest_action(host: &Host, guest: &str, action: &Action) -> Result<Started> {
    match action.verb {
        Verb::Destroy => match begin_stop(host, guest, Kind::Destroy)? {
            Some(task) => return Ok(task),
            None => host.remove(guest)?,
        },
        Verb::Create | Verb::Configure => {
            let (memory, description) = (number(action, "memory"), text(action, "description"));
            if action.verb == Verb::Create {
                fs::create_dir_all(host.guest_folder(guest))?;
            }
            host.change_parameters(guest, |parameters| {
                parameters.memory = memory.unwrap_or(parameters.memory);
                if let Some(description) = description {
                    parameters.description = description.to_owned();
                }
            })?;
            if let (Some(description), Some(mut monitor)) = (description, running(host, guest)?) {
                monitor.describe(description)?;
            }
            // Another size of memory takes effect at the next start: the stopped guest has another
            // run state, which a later action corrects.
            if action.verb == Verb::Configure && memory.is_some() {
                return Ok(begin_stop(host, guest, Kind::Stop)?.unwrap_or(Started::Done));
            }
            let started = set_state(host, guest, action);
            // A refusal would mean no effect, so that the guest would not be ours.
            return started.map_err(|error| match action.verb {
                Verb::Create => Error::NoAnswer(format!("it is created, and not started: {error}")),
                _ => error,
            });
        }
        Verb::SetRunState => return set_state(host, guest, action),
        _ => return Err(refused("no such action")),
    }
    Ok(Started::Done)
}

fn set_state(host: &Host, guest: &str, action: &Action) -> Result<Started> {
    let state = action.run_state.as_ref().map(|change| change.new.expose());
    let is_running = match state {
        None => return Ok(Started::Done),
        Some("running") => true,
        Some("paused") => false,
        Some(_) => return Ok(begin_stop(host, guest, Kind::Stop)?.unwrap_or(Started::Done)),
    };
    let mut monitor = match running(host, guest)? {
        Some(monitor) => monitor,
        None => {
            host.start(guest)?;
            host.monitor(guest)?
        }
    };
    monitor.set_running(is_running)?;
    Ok(Started::Done)
}

/// Begins to stop a guest; `None` if it has stopped already.
fn begin_stop(host: &Host, guest: &str, kind: fn(u64) -> Kind<'static>) -> Result<Option<Started>> {
    let Some(mut monitor) = running(host, guest)? else {
        return Ok(None);
    };
    let boot = monitor.boot()?;
    monitor.stop(false)?;
    let until = seconds() + STOP_BOUND.as_secs();
    Ok(Some(task(guest, &boot, kind(until))))
}

fn disk_action(host: &Host, guest: &str, disk: &str, action: &Action) -> Result<Started> {
    let known = parameters(host, guest)?.disks.get(disk).copied();
    let mut monitor = running(host, guest)?;
    let (file, size) = (host.disk_file(guest, disk), number(action, "size"));
    let overlay = snapshot::overlay_of(&file);
    if action.verb == Verb::Destroy {
        if let Some(monitor) = &mut monitor {
            monitor.refuse_while_a_job_runs(disk)?;
        }
        // Rename it first: if the action is cut off later, no new disk with this name gets the old
        // data.
        let deleted = file.with_extension("deleted");
        ignore_missing(fs::rename(&file, &deleted))?;
        host.change_parameters(guest, |parameters| {
            parameters.disks.remove(disk);
        })?;
        if let Some(monitor) = &mut monitor {
            monitor.unplug_disk(disk)?;
        }
        ignore_missing(fs::remove_file(overlay))?;
        ignore_missing(fs::remove_file(deleted))?;
        return Ok(Started::Done);
    }
    if action.verb == Verb::Create && !file.exists() {
        let size = size.ok_or_else(|| refused("it has no size"))?;
        // Left from an earlier disk with this name, whose removal was cut off.
        ignore_missing(fs::remove_file(&overlay))?;
        let new = file.with_extension("new");
        File::create(&new)?.set_len(size)?;
        fs::rename(new, &file)?;
    }
    let old = known.unwrap_or_default();
    let bounds = Bounds {
        bps: number(action, "bps").unwrap_or(old.bps),
        iops: number(action, "iops").unwrap_or(old.iops),
    };
    let resized = size.filter(|_| action.verb == Verb::Configure);
    match (&mut monitor, resized) {
        (Some(monitor), resized) => {
            monitor.plug_disk(disk, &file, bounds)?;
            if let Some(size) = resized {
                // Left from a snapshot that was cut off; it has the old size.
                if !monitor.has_snapshot(disk)? {
                    ignore_missing(fs::remove_file(&overlay))?;
                }
                monitor.resize_disk(disk, size)?;
            }
        }
        // Only QEMU can resize an overlay.
        (None, Some(_)) if overlay.exists() => return Err(Error::Gone),
        (None, Some(size)) => OpenOptions::new().write(true).open(file)?.set_len(size)?,
        (None, None) => {}
    }
    host.change_parameters(guest, |parameters| {
        parameters.disks.insert(disk.to_owned(), bounds);
    })?;
    Ok(Started::Done)
}

/// Takes a snapshot, or commits it. Both need QEMU, so the guest must run.
fn snapshot_action(
    host: &Host,
    guest: &str,
    disk: &str,
    verb: &Verb,
    speed: u64,
) -> Result<Started> {
    let file = host.disk_file(guest, disk);
    let monitor = running(host, guest)?;
    match (verb, monitor) {
        (Verb::Create, Some(mut monitor)) => monitor.take_snapshot(disk, &file)?,
        (Verb::Destroy, Some(mut monitor)) => {
            let boot = monitor.boot()?;
            if monitor.start_commit(disk, speed)? {
                return Ok(task(guest, &boot, Kind::Commit(disk)));
            }
        }
        // The snapshot was removed with its disk.
        (Verb::Destroy, None) if !snapshot::overlay_of(&file).exists() => {}
        (Verb::Create | Verb::Destroy, None) => return Err(Error::Gone),
        _ => {
            return Err(refused("a snapshot is taken and committed, and not changed"));
        }
    }
    Ok(Started::Done)
}

fn nic_action(host: &Host, guest: &str, nic: &str, action: &Action) -> Result<Started> {
    parameters(host, guest)?;
    let mac = text(action, "mac").filter(|_| action.verb != Verb::Destroy);
    let change = || {
        host.change_parameters(guest, |parameters| {
            match mac {
                Some(mac) => parameters.nics.insert(nic.to_owned(), mac.to_owned()),
                None => parameters.nics.remove(nic),
            };
        })
    };
    match (running(host, guest)?, &action.verb, mac) {
        (Some(mut monitor), Verb::Create, Some(mac)) => monitor.plug_nic(nic, mac)?,
        // An interface with another address is another device, plugged in once this one is gone.
        (Some(mut monitor), _, _) => {
            let boot = monitor.boot()?;
            change()?;
            monitor.begin_unplugging(nic)?;
            return Ok(task(guest, &boot, Kind::Unplug(nic)));
        }
        (None, ..) => {}
    }
    change()?;
    Ok(Started::Done)
}

/// Returns the monitor of a guest; `None` if it does not run.
pub(crate) fn running(host: &Host, guest: &str) -> Result<Option<Monitor>> {
    match host.monitor(guest) {
        Ok(monitor) => Ok(Some(monitor)),
        Err(Error::Gone) => Ok(None),
        Err(error) => Err(error),
    }
}

fn parameters(host: &Host, guest: &str) -> Result<Parameters> {
    host.parameters(guest).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => Error::Gone,
        _ => error.into(),
    })
}

fn text<'a>(action: &'a Action, field: &str) -> Option<&'a str> {
    action.new_value(field).map(|value| value.expose())
}

fn number(action: &Action, field: &str) -> Option<u64> {
    text(action, field)?.parse().ok()
}

fn task(guest: &str, boot: &str, kind: Kind<'_>) -> Started {
    Started::Task(TaskId { guest, boot, kind }.to_string())
}

fn refused(why: &str) -> Error {
    Error::Refused(why.to_owned())
}

/// Returns the time in seconds since 1970, which can be compared after a restart of the agent.
pub(crate) fn seconds() -> u64 {
    UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs())
}

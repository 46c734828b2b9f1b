//! The objects of trueup-control: as declared in a file, and as observed.

use std::fmt::Display;
use std::{fs, thread};

use trueup_control::{
    Error, ErrorKind, Normalisers, Object, Objects, Observed, lower_case, round_up,
};

use crate::backup::Backup;
use crate::events::Events;
use crate::file::{File, State};
use crate::guest::{Disk, Guest};
use crate::host::{Bounds, Host};
use crate::key::Key;
use crate::{overlay, qmp, snapshot};

/// The number of guests that are asked at the same time.
const PARALLEL: usize = 16;

/// Returns the normalisers for the forms in which QEMU reports values.
pub fn normalisers() -> Normalisers {
    Normalisers::new()
        .with("memory", round_up(8192))
        .with("size", round_up(512))
        .with("mac", lower_case)
        .with("mac", |mac| mac.replace('-', ":"))
}

/// Returns the objects declared in a file.
pub fn desired(file: &File) -> Objects {
    let mut objects = Objects::new();
    let mut insert = |key: Key<'_>, object| objects.insert(key.to_string(), object);
    for (guest, declared) in &file.guests {
        let guest = guest.as_str();
        let mut object = guest_object(declared.state, declared.memory.get());
        if let Some(description) = &declared.description {
            object = object.with("description", &**description);
        }
        insert(Key::Guest(guest), object);
        for (disk, declared) in &declared.disks {
            let mut object = Object::new().with("size", declared.size.get().to_string());
            for (field, bound) in [("bps", declared.bps), ("iops", declared.iops)] {
                if let Some(bound) = bound {
                    object = object.with(field, bound.get().to_string());
                }
            }
            insert(Key::Disk(guest, disk.as_str()), object);
            for name in &declared.backups {
                insert(Key::Backup(guest, disk.as_str(), name.as_str()), Object::new());
            }
            if declared.snapshot {
                insert(Key::Snapshot(guest, disk.as_str()), Object::new());
            }
        }
        for (nic, declared) in &declared.nics {
            let object = Object::new().with("mac", declared.mac.get_ref().as_str());
            insert(Key::Nic(guest, nic.as_str()), object);
        }
    }
    objects
}

/// Returns the objects of a host: a running guest's as its QEMU reports them, a stopped guest's by
/// its start parameters. Guests that cannot be read are left unread, with all their parts.
///
/// # Errors
///
/// If the list of guests cannot be read.
pub(crate) fn observed(host: &Host, events: &Events) -> Result<Observed, Error> {
    let guests = host.guests().map_err(|error| unread("the guests", &error))?;
    let mut observed = Observed::default();
    // Ask in parallel, as each may take as long as a conversation may.
    for guests in guests.chunks(PARALLEL) {
        let found: Vec<Result<Objects, String>> = thread::scope(|scope| {
            let threads = guests.iter().map(|guest| {
                thread::Builder::new().spawn_scoped(scope, move || {
                    // Watch first, so that no event after the read is missed.
                    events.watch(guest, &host.guest_folder(guest).join("events"));
                    guest_objects(host, guest)
                })
            });
            let threads: Vec<_> = threads.collect();
            let ends = threads.into_iter().map(|thread| {
                let ended = thread.map_err(|error| error.to_string())?.join();
                let ended = ended.map_err(|_| "the thread that reads it panicked".to_owned())?;
                ended.map_err(|error| error.to_string())
            });
            ends.collect()
        });
        for (guest, found) in guests.iter().zip(found) {
            match found {
                Ok(objects) => observed.objects.extend(objects),
                Err(why) => drop(observed.unread.insert(guest.clone(), why)),
            }
        }
    }
    Ok(observed)
}

fn guest_objects(host: &Host, guest: &str) -> qmp::Result<Objects> {
    if host.is_starting(guest)? {
        return Err(qmp::Error::NoAnswer("it is being started".to_owned()));
    }
    let mut objects = Objects::new();
    let mut insert = |key: Key<'_>, object| objects.insert(key.to_string(), object);
    let (state, found) = observe(host, guest)?;
    let object = guest_object(state, found.memory).with("description", found.description);
    insert(Key::Guest(guest), object);
    for (disk, found) in &found.disks {
        let Disk { size, bounds, .. } = found;
        if found.has_snapshot {
            insert(Key::Snapshot(guest, disk), Object::new());
        }
        let object = Object::new()
            .with("size", size.to_string())
            .with("bps", bounds.bps.to_string())
            .with("iops", bounds.iops.to_string());
        insert(Key::Disk(guest, disk), object);
    }
    for (nic, mac) in &found.nics {
        insert(Key::Nic(guest, nic), Object::new().with("mac", &**mac));
    }
    for file in fs::read_dir(host.guest_folder(guest))? {
        let name = file?.file_name();
        if let Some(Backup { disk, name }) = Backup::of_file(&name.to_string_lossy()) {
            insert(Key::Backup(guest, &disk, &name), Object::new());
        }
    }
    Ok(objects)
}

fn observe(host: &Host, guest: &str) -> qmp::Result<(State, Guest)> {
    match host.monitor(guest).and_then(|mut monitor| monitor.guest()) {
        Ok(found) if found.is_running => Ok((State::Running, found)),
        Ok(found) => Ok((State::Paused, found)),
        Err(qmp::Error::Gone) => Ok((State::Stopped, as_started(host, guest)?)),
        Err(error) => Err(error),
    }
}

fn as_started(host: &Host, guest: &str) -> std::io::Result<Guest> {
    let parameters = host.parameters(guest)?;
    let disk = |(disk, bounds): (String, Bounds)| {
        // A disk without its file does not exist.
        let file = host.disk_file(guest, &disk);
        let over = snapshot::overlay_of(&file);
        let has_snapshot = over.exists();
        let size = match has_snapshot {
            true => overlay::size_of(&over).ok()?,
            false => fs::metadata(file).ok()?.len(),
        };
        let found = Disk { size, bounds, has_snapshot };
        Some((disk, found))
    };
    Ok(Guest {
        memory: parameters.memory,
        description: parameters.description,
        disks: parameters.disks.into_iter().filter_map(disk).collect(),
        nics: parameters.nics,
        ..Guest::default()
    })
}

fn guest_object(state: State, memory: u64) -> Object {
    Object::new().with("memory", memory.to_string()).with_run_state(state.to_string())
}

/// Returns the error for a guest that does not answer.
pub(crate) fn unread(what: &str, error: &dyn Display) -> Error {
    Error::new(ErrorKind::Backend, format!("{what}: {error}"))
}

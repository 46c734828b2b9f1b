//! The guests as a backend of trueup-control: objects, actions and tasks.
//!
//! Each action may be asked for again, so one whose answer was lost simply is.

use std::fs;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use trueup_control::{
    Action, Backend, Class, Error, ErrorClass, ErrorKind, Found, Normalisers, Object, Objects,
    Started, Task, Verb, lower_case, round_up,
};

use crate::file::{File, State};
use crate::guest::{Backup, Disk, Job};
use crate::host::{Host, Parameters};
use crate::key::Key;
use crate::qmp::{self, Monitor};
use crate::task::{Kind, TaskId};

/// How long a guest may take to power off, before its QEMU is told to quit.
const STOP_BOUND: Duration = Duration::from_secs(10);

/// The guests of a host.
#[derive(Clone, Debug)]
pub struct Guests {
    host: Host,
    backup_speed: u64,
}

impl Guests {
    /// Makes the backend. A backup copies at most `backup_speed` bytes a second; 0 for no bound.
    pub fn new(host: Host, backup_speed: u64) -> Guests {
        Guests { host, backup_speed }
    }

    /// Returns the forms in which QEMU reports what it is given.
    pub fn normalisers() -> Normalisers {
        Normalisers::new()
            .with("memory", round_up(8192))
            .with("size", round_up(512))
            .with("mac", lower_case)
            .with("mac", |mac| mac.replace('-', ":"))
    }

    fn observe_guest(&self, guest: &str, objects: &mut Objects) -> Result<(), Error> {
        let io = |error: std::io::Error| unread(guest, &error);
        let observed = match self.host.monitor(guest).and_then(|mut monitor| monitor.guest()) {
            Ok(observed) => observed,
            Err(qmp::Error::Gone) => {
                let parameters = self.host.parameters(guest).map_err(io)?;
                let object = guest_object(State::Stopped, parameters.memory);
                let object = object.with("description", parameters.description);
                objects.insert(Key::Guest(guest).to_string(), object);
                return Ok(());
            }
            Err(error) => return Err(unread(guest, &error)),
        };
        let state = match observed.is_running {
            true => State::Running,
            false => State::Paused,
        };
        let object = guest_object(state, observed.memory).with("description", observed.description);
        objects.insert(Key::Guest(guest).to_string(), object);
        for (disk, Disk { size, bps, iops }) in &observed.disks {
            let fields = [("size", size), ("bps", bps), ("iops", iops)];
            let object = fields.into_iter().fold(Object::new(), |object, (field, value)| {
                object.with(field, value.to_string())
            });
            objects.insert(Key::Disk(guest, disk).to_string(), object);
        }
        for (nic, mac) in &observed.nics {
            let object = Object::new().with("mac", &**mac);
            objects.insert(Key::Nic(guest, nic).to_string(), object);
        }
        for file in fs::read_dir(self.host.guest_folder(guest)).map_err(io)? {
            let name = file.map_err(io)?.file_name().into_string().unwrap_or_default();
            if let Some(Backup { disk, name }) = Backup::of_file(&name) {
                objects.insert(Key::Backup(guest, &disk, &name).to_string(), Object::new());
            }
        }
        Ok(())
    }

    fn act(&self, action: &Action) -> qmp::Result<Started> {
        let key = Key::parse(&action.key).ok_or_else(|| refused("no such kind of object"))?;
        let folder = self.host.guest_folder(key.guest());
        let text = |field: &str| action.new_value(field).map(|value| value.expose());
        let number = |field: &str| text(field).and_then(|text| text.parse::<u64>().ok());
        match (key, &action.verb) {
            (Key::Guest(guest), Verb::Create) => {
                let memory = number("memory").ok_or_else(|| refused("it has no memory"))?;
                let description = text("description").unwrap_or_default().to_owned();
                self.host.set_parameters(guest, &Parameters { memory, description })?;
                return self.set_state(guest, action);
            }
            (Key::Guest(guest), Verb::Configure) => return self.configure_guest(guest, action),
            (Key::Guest(guest), Verb::SetRunState) => return self.set_state(guest, action),
            (Key::Guest(guest), Verb::Destroy) => {
                if let Some(task) = self.begin_stop(guest, true)? {
                    return Ok(task);
                }
                self.host.remove(guest)?;
            }
            (Key::Disk(guest, disk), Verb::Create) => {
                let size = number("size").ok_or_else(|| refused("it has no size"))?;
                let mut monitor = self.host.monitor(guest)?;
                monitor.plug_disk(&folder, disk, size)?;
                monitor.set_throttle(disk, number("bps"), number("iops"))?;
            }
            (Key::Disk(guest, disk), Verb::Configure) => {
                let mut monitor = self.host.monitor(guest)?;
                monitor.set_throttle(disk, number("bps"), number("iops"))?;
                if let Some(size) = number("size") {
                    monitor.resize_disk(disk, size)?;
                }
            }
            (Key::Disk(guest, disk), Verb::Destroy) => {
                self.host.monitor(guest)?.destroy_disk(&folder, disk)?;
            }
            (Key::Nic(guest, nic), Verb::Create) => {
                let mac = text("mac").ok_or_else(|| refused("it has no address"))?;
                self.host.monitor(guest)?.plug_nic(nic, mac)?;
            }
            // With another address it is another device: it is created once this one is gone.
            (Key::Nic(guest, nic), Verb::Configure | Verb::Destroy) => {
                let mut monitor = self.host.monitor(guest)?;
                let boot = monitor.boot()?;
                monitor.begin_unplugging(nic)?;
                return Ok(task(guest, &boot, Kind::Unplug(nic)));
            }
            (Key::Backup(guest, disk, name), Verb::Create) => {
                let mut monitor = self.host.monitor(guest)?;
                let boot = monitor.boot()?;
                monitor.start_backup(&folder, &Backup::new(disk, name), self.backup_speed)?;
                return Ok(task(guest, &boot, Kind::Backup(disk, name)));
            }
            (Key::Backup(_, disk, name), Verb::Destroy) => {
                crate::guest::remove_file(&folder.join(Backup::new(disk, name).file()))?;
            }
            (key, verb) => return Err(refused(&format!("{key} has no {verb}"))),
        }
        Ok(Started::Done)
    }

    /// Sets the description at once. Other memory takes effect at the next start, so the guest is
    /// stopped: its run state then differs, and it is started again.
    fn configure_guest(&self, guest: &str, action: &Action) -> qmp::Result<Started> {
        let mut parameters = self.host.parameters(guest)?;
        let value = |field| action.new_value(field).map(|value| value.expose());
        if let Some(description) = value("description") {
            parameters.description = description.to_owned();
            match self.host.monitor(guest) {
                Ok(mut monitor) => monitor.describe(description)?,
                Err(qmp::Error::Gone) => {}
                Err(error) => return Err(error),
            }
        }
        let memory = value("memory").and_then(|memory| memory.parse().ok());
        parameters.memory = memory.unwrap_or(parameters.memory);
        self.host.set_parameters(guest, &parameters)?;
        let stop = memory.map(|_| self.begin_stop(guest, false)).transpose()?;
        Ok(stop.flatten().unwrap_or(Started::Done))
    }

    fn set_state(&self, guest: &str, action: &Action) -> qmp::Result<Started> {
        let state = action.run_state.as_ref().map(|change| change.new.expose());
        let is_running = match state {
            Some("running") => true,
            Some("paused") => false,
            // Created without a run state it is stopped.
            None => return Ok(Started::Done),
            Some(_) => return Ok(self.begin_stop(guest, false)?.unwrap_or(Started::Done)),
        };
        let mut monitor = match self.host.monitor(guest) {
            Err(qmp::Error::Gone) => self.start_with_disks(guest)?,
            monitor => monitor?,
        };
        monitor.set_running(is_running)?;
        Ok(Started::Done)
    }

    /// Starts a guest that has, before its processor runs, the disks that it had.
    fn start_with_disks(&self, guest: &str) -> qmp::Result<Monitor> {
        self.host.start(guest)?;
        let folder = self.host.guest_folder(guest);
        let mut monitor = self.host.monitor(guest)?;
        for file in fs::read_dir(&folder)? {
            let name = file?.file_name().into_string().unwrap_or_default();
            if let Some(disk) = name.strip_suffix(".raw") {
                monitor.plug_disk(&folder, disk, 0)?;
            }
        }
        Ok(monitor)
    }

    /// Begins to stop a guest, unless it has stopped already.
    fn begin_stop(&self, guest: &str, is_destroyed: bool) -> qmp::Result<Option<Started>> {
        let mut monitor = match self.host.monitor(guest) {
            Err(qmp::Error::Gone) => return Ok(None),
            monitor => monitor?,
        };
        let boot = monitor.boot()?;
        let until = seconds() + STOP_BOUND.as_secs();
        monitor.stop(false)?;
        let kind = if is_destroyed { Kind::Destroy } else { Kind::Stop };
        Ok(Some(task(guest, &boot, kind(until))))
    }

    fn ask(&self, task: &TaskId<'_>) -> qmp::Result<Task> {
        let guest = task.guest;
        let folder = self.host.guest_folder(guest);
        // The monitor of the process in which the task began, while that lives.
        let mut monitor = match self.host.monitor(guest) {
            Err(qmp::Error::Gone) => None,
            monitor => Some(monitor?),
        };
        let boot = monitor.as_mut().map(Monitor::boot).transpose()?;
        let mut monitor = monitor.filter(|_| boot.as_deref() == Some(task.boot));
        let running = |progress: String| Ok(Task::Running { progress: Some(progress) });
        match (task.kind, &mut monitor) {
            (Kind::Backup(disk, name), monitor) => {
                let backup = Backup::new(disk, name);
                let job = monitor.as_mut().map(|monitor| monitor.job(&backup)).transpose()?;
                match (job, monitor) {
                    (Some(Job::Running(done, all)), _) => {
                        return running(format!("{done} of {all} bytes"));
                    }
                    (Some(Job::Concluded(result)), Some(monitor)) => {
                        monitor.finish_backup(&folder, &backup, result.is_ok())?;
                        return Ok(result.map_or_else(Task::Failed, |()| Task::Succeeded));
                    }
                    _ if folder.join(backup.file()).exists() => {}
                    _ => return Ok(Task::Failed("the job ended with its guest".to_owned())),
                }
            }
            (Kind::Unplug(nic), Some(monitor)) => {
                if !monitor.finish_unplugging(nic)? {
                    return running("the guest has not let go of it yet".to_owned());
                }
            }
            (Kind::Stop(until) | Kind::Destroy(until), Some(monitor)) => {
                monitor.stop(seconds() >= until)?;
                return running("the guest powers off".to_owned());
            }
            (Kind::Destroy(_), None) if boot.is_none() => self.host.remove(guest)?,
            (Kind::Destroy(_), None) => return Ok(Task::Failed("it was started again".to_owned())),
            (Kind::Unplug(_) | Kind::Stop(_), None) => {}
        }
        Ok(Task::Succeeded)
    }
}

impl Backend for Guests {
    fn observe(&self) -> Result<Objects, Error> {
        let mut objects = Objects::new();
        let guests = self.host.guests().map_err(|error| unread("the guests", &error))?;
        for guest in guests {
            self.observe_guest(&guest, &mut objects)?;
        }
        Ok(objects)
    }

    /// Classes what stops a guest or takes something from it as destructive.
    fn class(&self, action: &Action, observed: Option<&Object>) -> Class {
        let is_stopped = || {
            let state = observed.and_then(|object| object.run_state.as_ref());
            state.is_some_and(|state| state.expose() == "stopped")
        };
        let number = |text: &str| text.parse::<u64>().ok();
        let is_benign = match action.verb {
            Verb::Create => true,
            Verb::SetRunState => !action.all_changes().any(|change| change.new.expose() == "stopped"),
            Verb::Configure => action.changes.iter().all(|change| match &*change.field {
                "memory" => is_stopped(),
                "mac" => false,
                "size" => {
                    let old = change.old.as_ref().and_then(|old| number(old.expose()));
                    old.zip(number(change.new.expose())).is_some_and(|(old, new)| new >= old)
                }
                _ => true,
            }),
            _ => false,
        };
        if is_benign { Class::Benign } else { Class::Destructive }
    }

    fn start(&self, action: &Action, _request: &str) -> Started {
        self.act(action).unwrap_or_else(|error| {
            let class = match &error {
                qmp::Error::Gone => ErrorClass::Dependency,
                qmp::Error::Refused(_) => ErrorClass::Busy,
                qmp::Error::NoAnswer(message) => {
                    let message = message.clone();
                    return Started::Indeterminate { message };
                }
            };
            let message = error.to_string();
            Started::Refused { class, message }
        })
    }

    fn task(&self, task: &str) -> Result<Task, Error> {
        match TaskId::parse(task) {
            Some(id) => self.ask(&id).map_err(|error| unread(id.guest, &error)),
            None => Ok(Task::Unknown),
        }
    }

    fn cancel(&self, task: &str) -> Result<(), Error> {
        let id = TaskId::parse(task);
        let Some((id, Kind::Backup(disk, name))) = id.map(|id| (id, id.kind)) else {
            let message = format!("{task}: only a backup can be cancelled");
            return Err(Error::new(ErrorKind::Backend, message));
        };
        let cancelled = self.host.monitor(id.guest).and_then(|mut monitor| {
            match monitor.boot()? == id.boot {
                true => monitor.cancel_backup(&Backup::new(disk, name)),
                false => Ok(()),
            }
        });
        cancelled.map_err(|error| unread(id.guest, &error))
    }

    /// Says that it never arrived: then it is asked for again, if it still is to be done. That does
    /// no harm: a second request finds what the first one did, be it a job that runs.
    fn find(&self, _request: &str) -> Result<Found, Error> {
        Ok(Found::Never)
    }
}

/// Returns the objects that a file declares. Of a guest that is stopped nothing else is compared:
/// there is no QEMU that reports it.
pub fn desired(file: &File) -> Objects {
    let mut objects = Objects::new();
    for (guest, declared) in &file.guests {
        let mut object = guest_object(declared.state, declared.memory.get());
        if let Some(description) = &declared.description {
            object = object.with("description", &**description);
        }
        objects.insert(Key::Guest(guest.as_str()).to_string(), object);
        if declared.state == State::Stopped {
            continue;
        }
        let guest = guest.as_str();
        for (disk, declared) in &declared.disks {
            let mut object = Object::new().with("size", declared.size.get().to_string());
            for (field, bound) in [("bps", declared.bps), ("iops", declared.iops)] {
                if let Some(bound) = bound {
                    object = object.with(field, bound.get().to_string());
                }
            }
            objects.insert(Key::Disk(guest, disk.as_str()).to_string(), object);
            for name in &declared.backups {
                let key = Key::Backup(guest, disk.as_str(), name.as_str());
                objects.insert(key.to_string(), Object::new());
            }
        }
        for (nic, declared) in &declared.nics {
            let object = Object::new().with("mac", declared.mac.get_ref().as_str());
            objects.insert(Key::Nic(guest, nic.as_str()).to_string(), object);
        }
    }
    objects
}

fn guest_object(state: State, memory: u64) -> Object {
    Object::new().with("memory", memory.to_string()).with_run_state(state.to_string())
}

fn task(guest: &str, boot: &str, kind: Kind<'_>) -> Started {
    Started::Task(TaskId { guest, boot, kind }.to_string())
}

fn refused(why: &str) -> qmp::Error {
    qmp::Error::Refused(why.to_owned())
}

fn unread(what: &str, error: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Backend, format!("{what}: {error}"))
}

/// Returns the time in seconds since 1970: it is compared across restarts of the agent.
fn seconds() -> u64 {
    UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs())
}

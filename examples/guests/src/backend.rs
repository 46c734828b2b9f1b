//! The guests as a backend of trueup-control.

use trueup_control::{
    Action, Backend, Error, ErrorClass, ErrorKind, Found, Object, Observed, Started, Subscription,
    Task, Verb,
};
use trueup_reconcile::{Hints, Subscribed};

use crate::action::{self, running, seconds};
use crate::backup::{Backup, Job};
use crate::events::Events;
use crate::host::Host;
use crate::key::Key;
use crate::objects::{normalisers, observed, unread};
use crate::qmp::{self, Monitor};
use crate::snapshot;
use crate::task::{Kind, TaskId};

/// The backend for all guests of a host.
#[derive(Debug)]
pub struct Guests {
    host: Host,
    events: Events,
    backup_speed: u64,
}

impl Guests {
    /// Makes the backend. A backup copies at most `backup_speed` bytes a second; 0 for no bound.
    pub fn new(host: Host, backup_speed: u64) -> Guests {
        let events = Events::default();
        Guests { host, events, backup_speed }
    }

    fn ask(&self, task: &TaskId<'_>) -> qmp::Result<Task> {
        let TaskId { guest, boot, kind } = *task;
        let mut monitor = running(&self.host, guest)?;
        let is_stopped = monitor.is_none();
        let current = monitor.as_mut().map(Monitor::boot).transpose()?;
        // The process in which the task began; `None` once it has ended.
        let monitor = monitor.filter(|_| current.as_deref() == Some(boot));
        let is_running = |progress: &str| {
            let progress = Some(progress.to_owned());
            Ok(Task::Running { progress })
        };
        match (kind, monitor) {
            (Kind::Backup(disk, name), monitor) => {
                return self.ask_backup(guest, &Backup::new(disk, name), monitor);
            }
            (Kind::Commit(disk), monitor) => {
                let file = self.host.disk_file(guest, disk);
                return snapshot::ask_commit(&file, disk, monitor);
            }
            (Kind::Unplug(nic), Some(mut monitor)) => {
                let wanted = self.host.parameters(guest)?.nics.remove(nic);
                let found = monitor.mac(nic)?;
                let is_other = match (&wanted, &found) {
                    (Some(wanted), Some(found)) => !is_same_mac(wanted, found),
                    (None, Some(_)) => true,
                    (_, None) => false,
                };
                if is_other {
                    return is_running("the guest has not let go of it yet");
                }
                // With another address it must come back. If an agent was killed at this point, it
                // has already.
                match wanted {
                    Some(mac) => monitor.plug_nic(nic, &mac)?,
                    None => monitor.remove_netdev(nic)?,
                }
            }
            (Kind::Stop(until) | Kind::Destroy(until), Some(mut monitor)) => {
                monitor.stop(seconds() >= until)?;
                return is_running("the guest powers off");
            }
            (Kind::Destroy(_), None) if is_stopped => self.host.remove(guest)?,
            (Kind::Destroy(_), None) => return Ok(Task::Failed("it was started again".to_owned())),
            (Kind::Unplug(_) | Kind::Stop(_), None) => {}
        }
        Ok(Task::Succeeded)
    }

    fn ask_backup(
        &self,
        guest: &str,
        backup: &Backup,
        mut monitor: Option<Monitor>,
    ) -> qmp::Result<Task> {
        let folder = self.host.guest_folder(guest);
        let job = monitor.as_mut().map(|monitor| monitor.job(&backup.job())).transpose()?;
        Ok(match (job, &mut monitor) {
            (Some(Job::Running(done, all)), _) => {
                Task::Running { progress: Some(format!("{done} of {all} bytes")) }
            }
            (Some(Job::Concluded(result)), Some(monitor)) => {
                monitor.finish_backup(&folder, backup, result.is_ok())?;
                result.map_or_else(Task::Failed, |()| Task::Succeeded)
            }
            // The backup was complete, and the agent was killed before it recorded that.
            _ if folder.join(backup.file()).exists() => Task::Succeeded,
            _ => Task::Failed("the job ended with its guest".to_owned()),
        })
    }
}

fn is_same_mac(a: &str, b: &str) -> bool {
    normalisers().is_equal("mac", &a.into(), &b.into())
}

impl Backend for Guests {
    /// Reads all guests. A guest that does not answer or is being started is left unread, with all
    /// its parts.
    fn observe(&self) -> Result<Observed, Error> {
        observed(&self.host, &self.events)
    }

    /// Returns the guest's name: a guest and its parts are changed one at a time.
    fn lane(&self, key: &str) -> String {
        Key::parse(key).map_or(key, |key| key.guest()).to_owned()
    }

    fn subscribe(&self, _: Hints) -> Subscribed<Box<dyn Subscription>, Error> {
        match self.events.subscribe() {
            Ok(subscription) => Subscribed::Active(Box::new(subscription)),
            Err(error) => Subscribed::Failed(unread("QEMU's events", &error)),
        }
    }

    /// Returns false for an action that stops a guest or removes something from it. So is a commit:
    /// the disk's content at the snapshot is lost.
    fn is_benign(&self, action: &Action, observed: Option<&Object>) -> bool {
        let is_stopped = || {
            let state = observed.and_then(|object| object.run_state.as_ref());
            state.is_some_and(|state| state.expose() == "stopped")
        };
        match action.verb {
            Verb::Create => true,
            Verb::SetRunState => {
                action.all_changes().all(|change| change.new.expose() != "stopped")
            }
            Verb::Configure => action.changes.iter().all(|change| match &*change.field {
                "memory" => is_stopped(),
                "mac" => false,
                "size" => {
                    let number = |text: &str| text.parse::<u64>().ok();
                    let old = change.old.as_ref().and_then(|old| number(old.expose()));
                    old.zip(number(change.new.expose())).is_some_and(|(old, new)| new >= old)
                }
                _ => true,
            }),
            _ => false,
        }
    }

    fn start(&self, action: &Action, _request: &str) -> Started {
        action::start(&self.host, action, self.backup_speed).unwrap_or_else(|error| {
            let message = error.to_string();
            let class = match error {
                qmp::Error::Gone => ErrorClass::Dependency,
                qmp::Error::Refused(_) => ErrorClass::Busy,
                qmp::Error::NoAnswer(_) => return Started::Indeterminate { message },
            };
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
        let (id, job) = match id.map(|id| (id, id.kind)) {
            Some((id, Kind::Backup(disk, name))) => (id, Backup::new(disk, name).job()),
            Some((id, Kind::Commit(disk))) => (id, snapshot::commit_job(disk)),
            _ => {
                let message = format!("{task}: only a backup or a commit can be cancelled");
                return Err(Error::new(ErrorKind::Backend, message));
            }
        };
        let cancelled =
            self.host.monitor(id.guest).and_then(|mut monitor| match monitor.boot()? == id.boot {
                // The image is complete, and the overlay may be gone.
                true if monitor.job(&job)? == Job::Pending => {
                    Err(qmp::Error::Refused("it is being finalized".to_owned()))
                }
                true => monitor.cancel_job(&job),
                false => Ok(()),
            });
        cancelled.map_err(|error| unread(id.guest, &error))
    }

    /// Answers that each request can be repeated: it finds the results of an earlier one, even a
    /// running job.
    fn find(&self, _request: &str) -> Result<Found, Error> {
        Ok(Found::Repeatable)
    }
}

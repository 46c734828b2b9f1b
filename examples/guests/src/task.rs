//! The ids of tasks. They have all the data to ask QEMU about a task, even after a restart of the
//! agent.

use std::fmt;

/// The parsed id of a guest's task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskId<'a> {
    /// The name of the guest.
    pub guest: &'a str,
    /// The process in which it began: a restarted guest has another one.
    pub boot: &'a str,
    /// The work of the task, with its parameters.
    pub kind: Kind<'a>,
}

/// The work of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind<'a> {
    /// A job copies a disk: the disk, and the name of the backup.
    Backup(&'a str, &'a str),
    /// A job commits the snapshot of a disk.
    Commit(&'a str),
    /// The guest must release the network interface with this name.
    Unplug(&'a str),
    /// The guest must power off before a time in seconds since 1970. Then its process is killed.
    Stop(u64),
    /// Like `Stop`; then the guest and all its parts are removed.
    Destroy(u64),
}

impl<'a> TaskId<'a> {
    /// Parses an id; `None` if it has none of these forms.
    pub fn parse(id: &'a str) -> Option<TaskId<'a>> {
        let [guest, boot, kind @ ..] = &id.split(':').collect::<Vec<_>>()[..] else {
            return None;
        };
        let kind = match *kind {
            ["backup", disk, name] => Kind::Backup(disk, name),
            ["commit", disk] => Kind::Commit(disk),
            ["unplug", nic] => Kind::Unplug(nic),
            ["stop", until] => Kind::Stop(until.parse().ok()?),
            ["destroy", until] => Kind::Destroy(until.parse().ok()?),
            _ => return None,
        };
        Some(TaskId { guest, boot, kind })
    }
}

impl fmt::Display for TaskId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:", self.guest, self.boot)?;
        match self.kind {
            Kind::Backup(disk, name) => write!(f, "backup:{disk}:{name}"),
            Kind::Commit(disk) => write!(f, "commit:{disk}"),
            Kind::Unplug(nic) => write!(f, "unplug:{nic}"),
            Kind::Stop(until) => write!(f, "stop:{until}"),
            Kind::Destroy(until) => write!(f, "destroy:{until}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_as_it_was_written() {
        let kinds = [
            Kind::Backup("root", "nightly"),
            Kind::Commit("root"),
            Kind::Unplug("lan"),
            Kind::Stop(7),
            Kind::Destroy(7),
        ];
        for kind in kinds {
            let (guest, boot) = ("web", "3f0c");
            let id = TaskId { guest, boot, kind };
            assert_eq!(TaskId::parse(&id.to_string()), Some(id));
        }
        for none in ["", "web", "web:3f0c", "web:3f0c:stop:soon", "web:3f0c:pause:7"] {
            assert_eq!(TaskId::parse(none), None);
        }
    }
}

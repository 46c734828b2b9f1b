//! The ids of tasks: all that it takes to ask a QEMU about one, also after a restart of the agent.

use std::fmt;

/// A task of a guest's QEMU. `boot` says of which process: a guest that was started again has other
/// ones. `until` is the time, in seconds since 1970, at which the process is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskId<'a> {
    /// A job that copies a disk.
    Backup {
        guest: &'a str,
        boot: &'a str,
        disk: &'a str,
        name: &'a str,
    },
    /// A network interface that the guest is to let go of.
    Unplug {
        guest: &'a str,
        boot: &'a str,
        nic: &'a str,
    },
    /// A guest that is to power off.
    Stop {
        guest: &'a str,
        boot: &'a str,
        until: u64,
    },
    /// The same, and then its folder is removed.
    Destroy {
        guest: &'a str,
        boot: &'a str,
        until: u64,
    },
}

impl<'a> TaskId<'a> {
    /// Reads an id; `None` if it is none of these.
    pub fn parse(id: &'a str) -> Option<TaskId<'a>> {
        let until = |text: &str| text.parse().ok();
        Some(match id.split(':').collect::<Vec<_>>()[..] {
            ["backup", guest, boot, disk, name] => TaskId::Backup {
                guest,
                boot,
                disk,
                name,
            },
            ["unplug", guest, boot, nic] => TaskId::Unplug { guest, boot, nic },
            ["stop", guest, boot, time] => TaskId::Stop {
                guest,
                boot,
                until: until(time)?,
            },
            ["destroy", guest, boot, time] => TaskId::Destroy {
                guest,
                boot,
                until: until(time)?,
            },
            _ => return None,
        })
    }

    /// Returns the guest's name.
    pub fn guest(&self) -> &'a str {
        self.guest_and_boot().0
    }

    /// Returns the process in which it began.
    pub fn boot(&self) -> &'a str {
        self.guest_and_boot().1
    }

    fn guest_and_boot(&self) -> (&'a str, &'a str) {
        match *self {
            TaskId::Backup { guest, boot, .. }
            | TaskId::Unplug { guest, boot, .. }
            | TaskId::Stop { guest, boot, .. }
            | TaskId::Destroy { guest, boot, .. } => (guest, boot),
        }
    }
}

impl fmt::Display for TaskId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TaskId::Backup {
                guest,
                boot,
                disk,
                name,
            } => write!(f, "backup:{guest}:{boot}:{disk}:{name}"),
            TaskId::Unplug { guest, boot, nic } => write!(f, "unplug:{guest}:{boot}:{nic}"),
            TaskId::Stop { guest, boot, until } => write!(f, "stop:{guest}:{boot}:{until}"),
            TaskId::Destroy { guest, boot, until } => write!(f, "destroy:{guest}:{boot}:{until}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_reads_as_it_was_written() {
        let (guest, boot, until) = ("web", "3f0c", 7);
        for id in [
            TaskId::Backup {
                guest,
                boot,
                disk: "root",
                name: "nightly",
            },
            TaskId::Unplug {
                guest,
                boot,
                nic: "lan",
            },
            TaskId::Stop { guest, boot, until },
            TaskId::Destroy { guest, boot, until },
        ] {
            assert_eq!(TaskId::parse(&id.to_string()), Some(id));
            assert_eq!((id.guest(), id.boot()), (guest, boot));
        }
        for none in ["", "backup:web", "stop:web:3f0c:soon", "pause:web:3f0c:7"] {
            assert_eq!(TaskId::parse(none), None);
        }
    }
}

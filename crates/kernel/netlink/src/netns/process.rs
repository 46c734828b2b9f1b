//! A process, as the way to its network namespace.

use std::fmt;
use std::io;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::{Component, Path};
use std::sync::{Arc, OnceLock};

use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use rustix::thread::{ThreadNameSpaceType, move_into_thread_name_spaces};

use crate::error::Error;
use crate::netns::{inode, on_scratch_thread, open_own};

/// A process, by its number until it is first used, and by a descriptor from then on. Numbers are
/// reused: a later process with this number is another one, and is never reached here.
///
/// Clones refer to the same process.
#[derive(Clone, Debug)]
pub(crate) struct Process {
    pid: u32,
    /// The text that named it, for messages.
    name: String,
    held: Arc<OnceLock<OwnedFd>>,
}

impl Process {
    pub(crate) fn new(pid: u32) -> Process {
        Process::named(pid, format!("pid:{pid}"))
    }

    /// Returns the process whose namespace `/proc/PID/ns/net` is.
    pub(crate) fn of_path(path: &Path) -> Option<Process> {
        let mut parts = path.strip_prefix("/proc").ok()?.components();
        let Component::Normal(number) = parts.next()? else {
            return None;
        };
        let digits = number.to_str()?;
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number || parts.as_path() != Path::new("ns/net") {
            return None;
        }
        Some(Process::named(digits.parse().ok()?, path.to_str()?.to_owned()))
    }

    fn named(pid: u32, name: String) -> Process {
        Process { pid, name, held: Arc::default() }
    }

    /// Opens the process's present network namespace. The calling thread's own is refused.
    pub(crate) fn open_namespace(&self) -> Result<OwnedFd, Error> {
        let process = self.hold().map_err(|errno| self.not_found(errno))?;
        // From here on, neither a check nor /proc can reach a later process with the number.
        on_scratch_thread(&self.name, || {
            let own = open_own()?;
            move_into_thread_name_spaces(process, ThreadNameSpaceType::NETWORK)
                .map_err(|errno| self.not_entered(errno))?;
            let namespace = open_own()?;
            if inode(&own)? == inode(&namespace)? {
                let pid = self.pid;
                let message = format!(
                    "process {pid} is in our own network namespace: leave the option out if that \
                     is meant; otherwise the process that is meant has ended, and {pid} is another \
                     one"
                );
                return Err(Error::namespace(message, None));
            }
            Ok(namespace)
        })?
    }

    /// Returns the descriptor of the process, which is opened once.
    fn hold(&self) -> Result<BorrowedFd<'_>, Errno> {
        if let Some(held) = self.held.get() {
            return Ok(held.as_fd());
        }
        let pid = i32::try_from(self.pid).ok().and_then(Pid::from_raw);
        let opened = pidfd_open(pid.ok_or(Errno::SRCH)?, PidfdFlags::empty())?;
        Ok(self.held.get_or_init(|| opened).as_fd())
    }

    fn not_found(&self, errno: Errno) -> Error {
        let pid = self.pid;
        let message = match errno {
            Errno::SRCH => format!("there is no process {pid}"),
            Errno::INVAL | Errno::NOENT => {
                format!("{pid} is a thread of a process: name the process")
            }
            _ => format!("cannot open process {pid}: {errno}"),
        };
        Error::namespace(message, Some(io::Error::from(errno)))
    }

    fn not_entered(&self, errno: Errno) -> Error {
        let pid = self.pid;
        let message = match errno {
            Errno::SRCH => format!("process {pid} has ended"),
            Errno::PERM | Errno::ACCESS => format!(
                "cannot enter the network namespace of process {pid}: that needs CAP_SYS_ADMIN, \
                 both in the caller's user namespace and in the one that owns the network \
                 namespace, and the same user or CAP_SYS_PTRACE: run it as root"
            ),
            _ => format!("cannot enter the network namespace of process {pid}: {errno}"),
        };
        Error::namespace(message, Some(io::Error::from(errno)))
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};
    use std::time::{Duration, Instant};

    use super::*;
    use crate::{Namespace, Socket};

    struct Sleeper(Child);

    impl Drop for Sleeper {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    fn sleeper() -> Sleeper {
        Sleeper(Command::new("sleep").arg("600").spawn().unwrap())
    }

    #[test]
    fn the_number_of_a_process_that_was_held_leads_nowhere() {
        let ended = sleeper();
        let held = Process::new(ended.0.id());
        held.hold().unwrap();
        drop(ended);
        // Stands for the process that has the number now.
        let other = sleeper();
        let process = Process { pid: other.0.id(), ..held };
        let error = process.open_namespace().unwrap_err();
        assert!(error.is_gone(), "{error}");
        assert!(error.to_string().contains("has ended"), "{error}");
        assert_eq!(error.errno(), Some(libc::ESRCH));
    }

    /// Starts a process with this id; `None` if we may not choose the id.
    fn heir(pid: u32) -> Option<Sleeper> {
        let until = Instant::now() + Duration::from_secs(60);
        loop {
            // Another process may take it first.
            std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).ok()?;
            let found = sleeper();
            if found.0.id() == pid {
                return Some(found);
            }
            assert!(Instant::now() < until, "{pid} stays another's");
        }
    }

    /// Runs `work` in its own network namespace; `None` without the privilege.
    fn elsewhere<T: Send>(work: impl FnOnce() -> T + Send) -> Option<T> {
        if !rustix::process::geteuid().is_root() {
            return None;
        }
        on_scratch_thread("new", || {
            trueup_testkit::fresh_netns();
            work()
        })
        .ok()
    }

    #[test]
    fn a_process_that_has_the_number_of_one_that_ended_is_another() {
        let Some(process) = elsewhere(sleeper) else {
            return;
        };
        let pid = process.0.id();
        let names = [format!("pid:{pid}"), format!("/proc/{pid}/ns/net")];
        let used = names.map(|name| name.parse::<Namespace>().unwrap());
        let before = used[0].cookie().unwrap();
        assert_eq!(used[1].cookie().unwrap(), before);
        drop(process);
        let Some(Some(_heir)) = elsewhere(|| heir(pid)) else {
            return;
        };
        // It exists, for a caller who names it now.
        assert_ne!(Namespace::pid(pid).cookie().unwrap(), before);
        for namespace in &used {
            for error in [
                namespace.open().map(drop).unwrap_err(),
                namespace.id().map(drop).unwrap_err(),
                namespace.clone().enter(|| ()).unwrap_err(),
                Socket::open(namespace).map(drop).unwrap_err(),
            ] {
                assert!(error.is_gone(), "{namespace}: {error}");
            }
        }
    }

    #[test]
    fn a_path_through_the_number_of_a_process_is_that_process() {
        for (path, pid) in [
            ("/proc/17/ns/net", Some(17)),
            ("/proc/./17//ns/net", Some(17)),
            ("/proc/self/ns/net", None),
            ("/proc/17/ns/uts", None),
            ("/proc/17/task/18/ns/net", None),
            ("/proc/+17/ns/net", None),
            ("/run/17/ns/net", None),
            ("/proc", None),
        ] {
            let found = Process::of_path(Path::new(path));
            assert_eq!(found.as_ref().map(|it| it.pid), pid, "{path}");
            assert!(found.is_none_or(|it| it.to_string() == path));
        }
    }
}

//! Prevents a core dump of a process that holds a password.

use crate::error::{Context as _, Result};
use rustix::process::{
    DumpableBehavior, Resource, Rlimit, getrlimit, set_dumpable_behavior, setrlimit,
};

/// Makes the kernel write no core dump of this process from now on. Other processes of the same
/// user can no longer read its memory.
///
/// # Errors
///
/// Fails if the kernel refuses. The process must then go without the password.
pub fn forbid() -> Result<()> {
    // The kernel ignores the limit alone if the dump goes to a program (`core_pattern`). The hard
    // limit stays, so that a command which is run may have its own.
    let limit = Rlimit { current: Some(0), ..getrlimit(Resource::Core) };
    setrlimit(Resource::Core, limit)
        .and_then(|()| set_dumpable_behavior(DumpableBehavior::NotDumpable))
        .map_err(std::io::Error::from)
        .context("cannot forbid core dumps, which would have the password in them")
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt as _;
    use std::process::{Command, abort};

    use rustix::process::{Signal, dumpable_behavior};
    use trueup_testkit::Scratch;

    use super::*;

    const CHILD: &str = "TRUEUP_TEST_CORE_DUMPS";

    /// Crashes. The other test runs it as a child process.
    #[test]
    fn child() {
        if std::env::var_os(CHILD).is_none() {
            return;
        }
        let all = getrlimit(Resource::Core).maximum;
        let limit = Rlimit { current: all, maximum: all };
        setrlimit(Resource::Core, limit).unwrap();
        forbid().unwrap();
        let limit = getrlimit(Resource::Core);
        assert_eq!((limit.current, limit.maximum), (Some(0), all));
        assert_eq!(dumpable_behavior(), Ok(DumpableBehavior::NotDumpable));
        abort();
    }

    #[test]
    fn a_process_that_may_hold_a_password_leaves_no_core_dump() {
        let directory = Scratch::make("dumps").unwrap();
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["core_dumps::tests::child", "--exact", "--nocapture"]);
        let output = command.env(CHILD, "1").current_dir(&directory).output();
        let status = output.unwrap().status;
        // The child reached the crash.
        assert_eq!(status.signal(), Some(Signal::ABORT.as_raw()));
        assert!(!status.core_dumped());
        assert_eq!(directory.names(), [""; 0]);
    }
}

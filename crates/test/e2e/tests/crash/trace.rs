//! Runs an unmodified program, stops it at each system call, and kills it before or after one that
//! sends or writes something.

use std::collections::HashMap;
use std::io::{self, Read as _};
use std::os::unix::process::CommandExt as _;
use std::process::{Command, Stdio};

use libc::{c_int, c_long, pid_t};

/// The end of a program.
#[derive(Debug)]
pub(crate) enum Ended {
    /// Killed, at this point.
    At(String),
    /// It exited: with this code, after these points, and with this text on standard error.
    Itself { code: Option<i32>, points: Vec<String>, words: String },
}

/// Runs a program, and kills it if it passes a point for the `nth` time.
pub(crate) fn run(command: &mut Command, deadly: Option<(&str, usize)>) -> Ended {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = {
        let ask = || call(libc::PTRACE_TRACEME, 0, 0);
        #[allow(unsafe_code, reason = "code between fork(2) and execve(2)")]
        // SAFETY: it makes one system call, and allocates nothing.
        unsafe { command.pre_exec(ask) }.spawn().unwrap()
    };
    let pid = child.id() as pid_t;
    let mut points = Vec::new();
    let (deadly, nth) = deadly.unwrap_or_default();
    let mut passed = 0;
    let mut entered = HashMap::new();
    let code = loop {
        let (thread, status) = wait();
        if libc::WIFEXITED(status) || libc::WIFSIGNALED(status) {
            if thread == pid {
                break libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
            }
            continue;
        }
        let deliver = match libc::WSTOPSIG(status) {
            AT_A_CALL => {
                let point = point(thread, &mut entered);
                if point.as_deref() == Some(deadly) {
                    passed += 1;
                    if passed == nth {
                        let pid = rustix::process::Pid::from_child(&child);
                        rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
                    }
                }
                points.extend(point);
                0
            }
            // It has just begun: the program is loaded.
            libc::SIGTRAP if status >> 16 == 0 => {
                call(libc::PTRACE_SETOPTIONS, thread, OPTIONS as usize).unwrap();
                0
            }
            // New threads, and their first stop.
            libc::SIGTRAP | libc::SIGSTOP => 0,
            signal => signal,
        };
        // A thread killed meanwhile is gone.
        let _gone = call(libc::PTRACE_SYSCALL, thread, deliver as usize);
    };
    if nth > 0 && passed >= nth {
        return Ended::At(deadly.to_owned());
    }
    let mut words = String::new();
    let stderr = child.stderr.take().unwrap().read_to_string(&mut words);
    stderr.unwrap();
    Ended::Itself { code, points, words }
}

const AT_A_CALL: c_int = libc::SIGTRAP | 0x80;
const OPTIONS: c_int =
    libc::PTRACE_O_TRACESYSGOOD | libc::PTRACE_O_EXITKILL | libc::PTRACE_O_TRACECLONE;

#[allow(unsafe_code, reason = "ptrace(2)")]
fn call(request: libc::c_uint, thread: pid_t, data: usize) -> io::Result<()> {
    // SAFETY: none of these requests takes data as an address.
    match unsafe { libc::ptrace(request, thread, 0, data) } {
        -1 => Err(io::Error::last_os_error()),
        _ => Ok(()),
    }
}

/// Waits for the next of this thread's children to stop or end.
#[allow(unsafe_code, reason = "waitpid(2) with flags that are Linux's own")]
fn wait() -> (pid_t, c_int) {
    let mut status = 0;
    loop {
        // SAFETY: the status outlives the call.
        let thread =
            unsafe { libc::waitpid(-1, &raw mut status, libc::__WALL | libc::__WNOTHREAD) };
        match thread {
            -1 => assert_eq!(io::Error::last_os_error().kind(), io::ErrorKind::Interrupted),
            _ => return (thread, status),
        }
    }
}

/// Returns the point at which a thread is stopped, before or after a system call; `None` if the
/// call does not count.
fn point(thread: pid_t, entered: &mut HashMap<pid_t, Option<&'static str>>) -> Option<String> {
    let [kind, _, _, number, arguments @ ..] = info(thread);
    const ENTRY: u8 = 1;
    if kind.to_ne_bytes()[0] == ENTRY {
        let what = named(number as c_long, &arguments);
        entered.insert(thread, what);
        return what.map(|what| format!("before {what}"));
    }
    let what = entered.remove(&thread).flatten();
    what.map(|what| format!("after {what}"))
}

/// Returns `struct ptrace_syscall_info` of linux/ptrace.h in words of eight bytes: the kind is the
/// first byte, the number the fourth word, the arguments follow.
#[allow(unsafe_code, reason = "PTRACE_GET_SYSCALL_INFO")]
fn info(thread: pid_t) -> [u64; 10] {
    let mut info = [0_u64; 10];
    // SAFETY: the kernel writes no more than the size that it is given.
    let length = unsafe {
        libc::ptrace(libc::PTRACE_GET_SYSCALL_INFO, thread, size_of_val(&info), info.as_mut_ptr())
    };
    assert!(length > 0, "{}", io::Error::last_os_error());
    info
}

/// Returns the name of a system call that sends or writes something, except output.
fn named(number: c_long, arguments: &[u64]) -> Option<&'static str> {
    const PRINTED: u64 = 2;
    match number {
        libc::SYS_sendto | libc::SYS_sendmsg => Some("send"),
        libc::SYS_write | libc::SYS_writev if arguments[0] > PRINTED => Some("write"),
        libc::SYS_pwrite64 => Some("write"),
        libc::SYS_ftruncate | libc::SYS_fallocate => Some("change of length"),
        libc::SYS_fsync | libc::SYS_fdatasync => Some("sync"),
        libc::SYS_openat if arguments[2] as c_int & libc::O_CREAT != 0 => Some("creation"),
        libc::SYS_renameat2 | libc::SYS_renameat => Some("rename"),
        libc::SYS_mkdirat => Some("creation of a directory"),
        libc::SYS_unlinkat => Some("removal"),
        // Some architectures only have the calls with a directory descriptor.
        #[cfg(target_arch = "x86_64")]
        libc::SYS_rename => Some("rename"),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_mkdir => Some("creation of a directory"),
        #[cfg(target_arch = "x86_64")]
        libc::SYS_unlink => Some("removal"),
        _ => None,
    }
}

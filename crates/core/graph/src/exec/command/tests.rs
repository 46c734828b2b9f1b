//! Tests of a process that was reaped elsewhere.

use rustix::process::pidfd_send_signal;

use super::*;

#[test]
fn the_group_of_a_process_that_was_reaped_is_left_alone() {
    let mut child = StdCommand::new("sh")
        .args(["-c", "sleep 600 >&2 & echo $!"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .process_group(0)
        .spawn()
        .unwrap();
    let mut sleeper = String::new();
    let mut output = child.stdout.take().unwrap();
    output.read_to_string(&mut sleeper).unwrap();
    let sleeper = Pid::from_raw(sleeper.trim().parse().unwrap()).unwrap();
    let held = pidfd_open(sleeper, PidfdFlags::empty()).unwrap();
    // Reap it without `Child`, so that `Child` does not know. The rest of the group stands for
    // another group that now has its number.
    waitid(WaitId::Pid(Pid::from_child(&child)), WaitIdOptions::EXITED).unwrap();
    kill(&mut child);
    let second = Timespec { tv_sec: 1, tv_nsec: 0 };
    let ended = poll(&mut [PollFd::new(&held, PollFlags::IN)], Some(&second));
    let _ = pidfd_send_signal(&held, Signal::KILL);
    assert_eq!(ended, Ok(0), "it was killed");
}

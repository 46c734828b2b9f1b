//! A file writable by other users, and a port occupied by another user.

use std::fs::{self, File, Permissions};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use rustix::process::Signal;
use trueup_testkit::{assert_no_changes, uplinks, wait_until};

use crate::agent::{Agent, Ran};
use crate::metrics::{GET, TCP, ask, samples};
use crate::watch::{ours, printed, said};

const FIRST: &str = "route = [{ dst = \"10.99.0.0/16\", type = \"blackhole\" }]\n";
const BOTH: &str = "route = [{ dst = \"10.99.0.0/16\", type = \"blackhole\" }, \
                    { dst = \"10.98.0.0/16\", type = \"blackhole\" }]\n";

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

pub(crate) fn a_file_that_others_can_write_is_refused_unless_it_is_trusted() {
    let agent = Agent::new();
    let file = agent.write("f.toml", FIRST);
    set_mode(&file, 0o666);
    for args in [
        &["plan", "f.toml"][..],
        &["apply", "f.toml"],
        &["watch", "f.toml"],
        &["graph", "f.toml"],
        &["why", "link", "lo", "--file", "f.toml"],
        &["world", "ls", "f.toml"],
    ] {
        let ran = assert_no_changes(|| agent.run(args));
        ran.assert_refused(&["others can write it (mode 0666)", "--trust-file"]);
    }
    let doctor = agent.run(&["doctor", "f.toml"]);
    assert_eq!(doctor.code, 2, "{doctor:?}");
    assert!(doctor.out.contains("others can write it"), "{doctor:?}");
    assert_eq!(agent.run(&["plan", "f.toml", "--trust-file"]).code, 2);
    assert_eq!(agent.run(&["doctor", "f.toml", "--trust-file"]).code, 0);

    // A directory in which other users can replace the file.
    set_mode(&file, 0o644);
    assert_eq!(agent.run(&["plan", "f.toml"]).code, 2);
    set_mode(agent.directory(), 0o777);
    let folder = agent.directory().to_str().unwrap();
    agent.run(&["plan", "f.toml"]).assert_refused(&[folder]);
    set_mode(agent.directory(), 0o755);

    // A file that the caller has opened is trusted.
    set_mode(&file, 0o666);
    for name in ["-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"] {
        let mut command = agent.command(&["plan", name]);
        let ran = Ran::of(command.stdin(File::open(&file).unwrap()).output().unwrap());
        assert_eq!(ran.code, 2, "{name}: {ran:?}");
    }
}

pub(crate) fn a_file_that_others_come_to_write_is_not_taken() {
    let agent = Agent::new();
    let file = agent.write("f.toml", FIRST);
    let mut child = agent.spawn(&["watch", "f.toml"]);
    let (said, _printed) = (said(&mut child), printed(&mut child));
    let times = |words: &str| said.lock().unwrap().matches(words).count();
    wait_until("the route is there", || ours() == 1);
    set_mode(&file, 0o666);
    wait_until("it is refused", || times("others can write it") == 1);
    agent.write("f.toml", BOTH);
    agent.write("g.toml", "route = []\n");
    // Now the directory is the cause: the report about the file came before.
    set_mode(&file, 0o644);
    wait_until("the file is good", || ours() == 2);
    set_mode(agent.directory(), 0o777);
    let by_folder = "everybody can write it";
    wait_until("it is refused", || times(by_folder) == 1);
    fs::rename(agent.directory().join("g.toml"), &file).unwrap();
    set_mode(agent.directory(), 0o755);
    wait_until("the file is good again", || ours() == 0);
    assert_eq!(times("the last good file stays in force"), 2);
    child.terminate(Signal::TERM);
}

pub(crate) fn a_port_that_another_user_has_keeps_nothing_from_starting() {
    uplinks(1);
    let rival = TcpListener::bind(TCP).unwrap();
    let agent = Agent::new();
    agent.write("f.toml", FIRST);
    let mut child = agent.spawn(&["watch", "f.toml", "--metrics", TCP]);
    let (said, _printed) = (said(&mut child), printed(&mut child));
    wait_until("the network comes first", || ours() == 1);
    wait_until("it is reported", || {
        said.lock().unwrap().contains("cannot listen for --metrics at 127.0.0.1:9116")
    });
    drop(rival);
    // Another test that starts a process holds a copy of the rival's socket for a moment. An
    // earlier connection can reach the rival, and is then reset.
    wait_until("it is served", || said.lock().unwrap().contains("the metrics are served"));
    wait_until("it has converged", || {
        let stream = TcpStream::connect(TCP).unwrap();
        samples(&ask(stream, GET))["trueup_converged"] == 1.0
    });
    child.terminate(Signal::TERM);
}

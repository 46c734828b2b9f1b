//! A host for one daemon: separate mounts, so the daemon reads the test's configuration and does
//! not write to the machine, and a link `d0` whose other end is in another namespace.

use std::fs::{self, File};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::UnshareFlags;
use trueup_testkit::{NamedNetns, ip_batch, named_netns, wait_until};

/// The calling thread's own mounts, and `d0`. Its other end is `d1` in the namespace `far`.
pub(crate) struct Host {
    pub(crate) far: NamedNetns,
}

impl Host {
    pub(crate) fn new() -> Host {
        own_mounts();
        run(&["mount", "-t", "tmpfs", "tmpfs", "/run"]);
        // Use the namespace's sysfs: ifupdown2 looks for links there. Mount it read-only, so that
        // networkd does not wait for udev.
        run(&["mount", "-t", "sysfs", "-o", "ro", "sysfs", "/sys"]);
        for file in ["passwd", "group"] {
            all_are_root(file);
        }
        let far = named_netns("far");
        ip_batch([
            "link add d0 address 02:00:00:00:00:d0 type veth peer name d1 netns far",
            "link set d0 up",
        ]);
        far.ip(&["link", "set", "d1", "up"]);
        Host { far }
    }

    /// Writes a file below `/run`. Returns its path.
    pub(crate) fn write(&self, name: &str, text: &str) -> String {
        let path = PathBuf::from("/run").join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    /// Replaces one of the machine's directories with an empty one.
    pub(crate) fn empty(&self, directory: &str) {
        run(&["mount", "-t", "tmpfs", "tmpfs", directory]);
    }
}

/// A daemon in the foreground. It is killed when dropped.
pub(crate) struct Daemon {
    child: Child,
    log: PathBuf,
}

impl Daemon {
    pub(crate) fn start(words: &[&str]) -> Daemon {
        let name = words.iter().rev().find_map(|word| word.strip_prefix("/usr/lib/frr/"));
        let name = name.unwrap_or(words[0]).replace('/', "-");
        let log = PathBuf::from(format!("/run/{name}.log"));
        let output = File::options().create(true).append(true).open(&log).unwrap();
        let child = command(&[&["setpriv", "--pdeathsig", "KILL"], words].concat())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        Daemon { child, log }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Ends it with a signal, as a service manager would.
    pub(crate) fn stop(mut self) {
        self.signal(Signal::TERM);
        wait_until("it ends", || self.child.try_wait().unwrap().is_some());
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // The daemon may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = fs::read_to_string(&self.log).unwrap_or_default();
            eprintln!("{}:\n{log}", self.log.display());
        }
    }
}

/// Runs a command, which must succeed. Returns its output.
#[track_caller]
pub(crate) fn run(words: &[&str]) -> String {
    let output = command(words).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{words:?}: {}: {said}", output.status);
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Returns true if a command succeeds.
pub(crate) fn succeeds(words: &[&str]) -> bool {
    command(words).output().unwrap().status.success()
}

/// Starts a bus for a daemon controlled over D-Bus.
pub(crate) fn bus(host: &Host) -> Daemon {
    const ALL_MAY: &str = "<busconfig>
        <type>system</type><listen>unix:path=/run/dbus/system_bus_socket</listen>
        <auth>EXTERNAL</auth>
        <policy context=\"default\">
        <allow send_destination=\"*\" eavesdrop=\"true\"/><allow eavesdrop=\"true\"/><allow own=\"*\"/>
        </policy></busconfig>";
    let config = host.write("dbus/bus.conf", ALL_MAY);
    let config = format!("--config-file={config}");
    let bus = Daemon::start(&["dbus-daemon", &config, "--nofork", "--nopidfile"]);
    wait_until("the bus is there", || fs::exists("/run/dbus/system_bus_socket").unwrap());
    bus
}

fn command(words: &[&str]) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env("PATH", format!("{path}:/usr/sbin:/sbin")).stdin(Stdio::null());
    command
}

#[expect(unsafe_code, reason = "unshare(2) is unsafe for CLONE_FILES alone")]
fn own_mounts() {
    // SAFETY: the descriptor table stays shared: CLONE_FILES is not among the flags.
    unsafe { rustix::thread::unshare_unsafe(UnshareFlags::NEWNS) }.unwrap();
}

/// Gives all users root's number, as a user namespace of ours has no other. A daemon can then
/// change its user. dhcpcd also changes its root directory, and works without a user.
fn all_are_root(file: &str) {
    let (etc, own) = (format!("/etc/{file}"), format!("/run/{file}"));
    let mut text = String::new();
    for line in fs::read_to_string(&etc).unwrap().lines() {
        let mut fields: Vec<&str> = line.split(':').collect();
        if fields.len() < 4 || fields[0].contains("dhcpcd") {
            continue;
        }
        let numbers = if file == "passwd" { 2..4 } else { 2..3 };
        fields[numbers].fill("0");
        text += &(fields.join(":") + "\n");
    }
    fs::write(&own, text).unwrap();
    run(&["mount", "--bind", &own, &etc]);
}

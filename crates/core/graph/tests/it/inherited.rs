//! A command's inheritance from the process that runs it.

use std::env;
use std::fs;
use std::path::Path;

use rustix::io::{FdFlags, fcntl_setfd};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_ambient_set,
    configure_capability_in_ambient_set, set_capabilities,
};
use trueup_graph::{Exec, Vertex, VertexSpec};
use trueup_testkit::Scratch;

use crate::support::{BOUND, start};

/// Runs a script with a file's path, and returns what it has written to the file.
fn written(folder: &Scratch, script: &str, with: impl FnOnce(Exec) -> Exec) -> String {
    let path = folder.join("written");
    let exec = with(Exec::new("/bin/sh", ["-c", script, "sh", path.to_str().unwrap()]));
    let vertex: Box<dyn Vertex> = Box::new(exec);
    let driver = start(1, [(VertexSpec::new("exec").with_retry(0, BOUND), vertex)]);
    driver.wait_converged(BOUND).unwrap();
    driver.stop(BOUND).unwrap();
    fs::read_to_string(path).unwrap()
}

#[test]
fn a_command_has_no_descriptor_of_ours() {
    let folder = Scratch::make("descriptors").unwrap();
    let secret = folder.join("secret");
    fs::write(&secret, "for us alone").unwrap();
    let open = fs::File::open(&secret).unwrap();
    // Like a descriptor that this process's starter left open.
    fcntl_setfd(&open, FdFlags::empty()).unwrap();
    let open_files = written(&folder, "ls -l /proc/self/fd > \"$1\"", |it| it);
    assert!(open_files.contains("/dev/null"), "{open_files}");
    assert!(!open_files.contains("secret"), "{open_files}");
}

#[test]
fn a_command_has_the_variables_that_are_listed() {
    let folder = Scratch::make("variables").unwrap();
    // Cargo sets these for a test.
    let ours = ["CARGO_MANIFEST_DIR", "CARGO_PKG_NAME", "CARGO_PKG_VERSION"];
    assert!(ours.iter().all(|it| env::var_os(it).is_some()));
    let has = |variables: &str, name: &str| {
        let name = format!("{name}=");
        variables.lines().any(|it| it.starts_with(&name))
    };
    let variables = written(&folder, "env > \"$1\"", |it| it);
    assert!(ours.iter().all(|it| !has(&variables, it)), "{variables}");
    let path = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin\n";
    assert!(variables.contains(path), "{variables}");
    let passed = |it: Exec| it.with_environment(["CARGO_PKG_NAME", "PATH"]);
    let variables = written(&folder, "env > \"$1\"", passed);
    let name = env::var("CARGO_PKG_NAME").unwrap();
    assert!(variables.contains(&format!("CARGO_PKG_NAME={name}\n")), "{variables}");
    assert!(variables.contains(&format!("PATH={}\n", env::var("PATH").unwrap())));
    assert!(!has(&variables, "CARGO_PKG_VERSION"), "{variables}");
}

#[test]
fn a_command_runs_in_the_root_folder() {
    let folder = Scratch::make("cwd").unwrap();
    assert_ne!(env::current_dir().unwrap(), Path::new("/"));
    assert_eq!(written(&folder, "pwd > \"$1\"", |it| it), "/\n");
}

#[test]
fn a_command_has_no_signal_blocked_and_no_broken_pipe_ignored() {
    let folder = Scratch::make("signals").unwrap();
    let status = written(&folder, "cat /proc/self/status > \"$1\"", |it| it);
    let mask = |name: &str| {
        let of_name = |line: &str| line.strip_prefix(name).map(|it| it.trim().to_owned());
        u64::from_str_radix(&status.lines().find_map(of_name).unwrap(), 16).unwrap()
    };
    assert_eq!(mask("SigBlk:"), 0, "{status}");
    // Rust ignores it in this process.
    assert_eq!(mask("SigIgn:") & (1 << (13 - 1)), 0, "{status}");
}

#[test]
fn a_command_has_ambient_capabilities_only_if_it_is_said() {
    let sets = capabilities(None).unwrap();
    let raised = CapabilitySet::NET_ADMIN;
    if !sets.permitted.contains(raised) {
        eprintln!("not run: it needs CAP_NET_ADMIN");
        return;
    }
    // The driver's threads inherit this thread's capabilities.
    let inheritable = sets.inheritable | raised;
    set_capabilities(None, CapabilitySets { inheritable, ..sets }).unwrap();
    configure_capability_in_ambient_set(raised, true).unwrap();
    let folder = Scratch::make("ambient").unwrap();
    let script = "grep -E '^Cap(Inh|Amb)' /proc/self/status > \"$1\"";
    assert_eq!(
        written(&folder, script, |it| it),
        "CapInh:\t0000000000000000\nCapAmb:\t0000000000000000\n"
    );
    assert!(capability_is_in_ambient_set(raised).unwrap(), "ours stay");
    let kept = written(&folder, script, Exec::with_ambient_capabilities);
    let ambient = kept.lines().find_map(|it| it.strip_prefix("CapAmb:\t")).unwrap();
    let ambient = u64::from_str_radix(ambient, 16).unwrap();
    assert!(ambient & raised.bits() != 0, "{kept}");
}

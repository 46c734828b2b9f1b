//! Private namespaces, without root: a user namespace makes the caller root over the network and
//! mount namespaces made with it. For throwaway processes only: nothing here can be undone within
//! the process.

use std::fs;
use std::io;

use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{getegid, geteuid};
use rustix::thread::{
    CapabilitySet, UnshareFlags, capabilities, remove_capability_from_bounding_set,
    set_capabilities,
};

use crate::message::Kind;
use crate::wire;

/// Enters a fresh user, network and mount namespace in which the caller is root, and brings `lo`
/// up. `/run` becomes an empty, writable tmpfs: `ip netns add` and state directories work, and
/// nothing of the machine is in reach.
///
/// Call it first in `main`: the kernel refuses (`EINVAL`) once the process has a second thread. If
/// user namespaces are forbidden and the caller is already root, it enters only a network and a
/// mount namespace.
///
/// # Errors
///
/// If the machine does not allow it: the text names the step, the kernel's error, the setting and
/// the remedy.
pub fn enter() -> io::Result<()> {
    let (uid, gid) = (geteuid(), getegid());
    let scope = UnshareFlags::NEWNET | UnshareFlags::NEWNS;
    match unshare(UnshareFlags::NEWUSER | scope) {
        Ok(()) => {
            // Required before gid_map may be written without CAP_SETGID outside:
            // user_namespaces(7).
            write("/proc/self/setgroups", "deny")?;
            write("/proc/self/uid_map", &format!("0 {} 1", uid.as_raw()))?;
            write("/proc/self/gid_map", &format!("0 {} 1", gid.as_raw()))?;
        }
        Err(error) if uid.is_root() => unshare(scope).map_err(|alone| {
            forbidden("unshare", &alone, &format!(" (with a user namespace: {error})"))
        })?,
        Err(error) => return Err(forbidden("unshare", &error, "")),
    }
    let private = MountPropagationFlags::REC | MountPropagationFlags::PRIVATE;
    mount_change("/", private)
        .map_err(|error| forbidden("making mounts private", &error.into(), ""))?;
    mount("tmpfs", "/run", "tmpfs", MountFlags::empty(), None)
        .map_err(|error| forbidden("mounting a tmpfs on /run", &error.into(), ""))?;
    loopback_up().map_err(|error| forbidden("setting lo up", &error, ""))
}

/// Moves only the calling thread to a fresh network namespace with the kernel's own defaults and
/// `lo` down. Processes that it starts from then on live there too.
///
/// # Panics
///
/// If the caller lacks the right: call [`enter`] first in the process.
pub fn fresh_netns() {
    unshare(UnshareFlags::NEWNET).expect("a network namespace: was enter() called first?");
}

/// Does the same as [`fresh_netns`], and quiets the namespace: `lo` is up, IPv6 is on, and
/// duplicate address detection is off. Addresses are usable at once. With detection, an address
/// would stay tentative for a second or two, and the kernel would announce its end.
///
/// # Panics
///
/// Like [`fresh_netns`], or if `/proc/sys/net` cannot be written.
pub fn quiet_netns() {
    fresh_netns();
    for (setting, value) in
        [("disable_ipv6", "0"), ("accept_dad", "0"), ("router_solicitations", "0")]
    {
        for scope in ["all", "default"] {
            let path = format!("/proc/sys/net/ipv6/conf/{scope}/{setting}");
            // A writer spins while others hold the kernel's lock (`addrconf_sysctl_disable`), a
            // reader does not.
            if fs::read_to_string(&path).is_ok_and(|now| now.trim() == value) {
                continue;
            }
            fs::write(&path, value).unwrap_or_else(|error| panic!("{path}: {error}"));
        }
    }
    loopback_up().expect("lo comes up");
}

/// Takes `CAP_NET_ADMIN` from the calling thread, and from every program that it executes later.
///
/// # Panics
///
/// Without `CAP_SETPCAP`, which only the namespaces of [`enter`] give.
pub fn without_net_admin() {
    give_up(CapabilitySet::NET_ADMIN);
}

/// Takes root's right to ignore file permissions from the calling thread, and from every program
/// that it executes later.
///
/// # Panics
///
/// Like [`without_net_admin`].
pub fn without_file_override() {
    give_up(CapabilitySet::DAC_OVERRIDE);
    give_up(CapabilitySet::DAC_READ_SEARCH);
}

fn give_up(capability: CapabilitySet) {
    remove_capability_from_bounding_set(capability).expect("CAP_SETPCAP");
    let mut sets = capabilities(None).expect("own capabilities");
    sets.effective.remove(capability);
    sets.permitted.remove(capability);
    sets.inheritable.remove(capability);
    set_capabilities(None, sets).expect("capabilities can always be given up");
}

fn forbidden(step: &str, error: &io::Error, more: &str) -> io::Error {
    let remedy = remedy(error, |path| fs::read_to_string(path).ok());
    let text = format!("cannot enter a namespace: {step}: {error}{more}\n{remedy}");
    io::Error::new(error.kind(), text)
}

/// The settings that forbid user namespaces: the path, the forbidding value, and the remedy.
const SETTINGS: [(&str, &str, &str); 3] = [
    (
        "kernel.apparmor_restrict_unprivileged_userns",
        "1",
        "sudo sysctl kernel.apparmor_restrict_unprivileged_userns=0",
    ),
    ("kernel.unprivileged_userns_clone", "0", "sudo sysctl kernel.unprivileged_userns_clone=1"),
    ("user.max_user_namespaces", "0", "sudo sysctl user.max_user_namespaces=10000"),
];

fn remedy(error: &io::Error, read: impl Fn(&str) -> Option<String>) -> String {
    const EINVAL: i32 = 22;
    if error.raw_os_error() == Some(EINVAL) {
        return "the kernel refuses a process that has threads: call enter() before any; \
                or it lacks CONFIG_USER_NS"
            .to_owned();
    }
    let forbidding = SETTINGS.iter().find(|(name, value, _)| {
        let path = format!("/proc/sys/{}", name.replace('.', "/"));
        read(&path).is_some_and(|now| now.trim() == *value)
    });
    match forbidding {
        Some((name, value, command)) => {
            format!("{name} is {value}; run `{command}`, or run this as root")
        }
        None => "no sysctl forbids it, so a container's seccomp or capability limits may; \
                 allow unshare(2) and mount(2) there, or run this as root outside of it"
            .to_owned(),
    }
}

fn write(path: &str, text: &str) -> io::Result<()> {
    fs::write(path, text).map_err(|error| forbidden(path, &error, ""))
}

fn loopback_up() -> io::Result<()> {
    const IFF_UP: u32 = 1;
    let mut body = vec![0; 4];
    body.extend(1_u32.to_ne_bytes()); // lo is index 1 in every namespace
    body.extend(IFF_UP.to_ne_bytes());
    body.extend(IFF_UP.to_ne_bytes());
    wire::request(Kind::Link.new_type(), &body)
}

#[allow(unsafe_code, reason = "unshare(2) is unsafe for CLONE_FILES alone")]
fn unshare(flags: UnshareFlags) -> io::Result<()> {
    assert!(!flags.contains(UnshareFlags::FILES));
    // SAFETY: the function is unsafe because a thread with its own descriptor table breaks what
    // other threads assume about theirs; CLONE_FILES is not among the flags.
    unsafe { rustix::thread::unshare_unsafe(flags) }?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_remedy_names_the_setting_that_forbids() {
        let denied = io::Error::from_raw_os_error(1);
        for (name, value, command) in SETTINGS {
            let file = format!("/proc/sys/{}", name.replace('.', "/"));
            let text = remedy(&denied, |path| (path == file).then(|| format!("{value}\n")));
            assert!(text.contains(name) && text.contains(command), "{text}");
        }
        assert!(remedy(&denied, |_| Some("5".to_owned())).contains("container"));
        assert!(remedy(&io::Error::from_raw_os_error(22), |_| None).contains("threads"));
    }
}

//! Facts about the kernel that no scenario can show: the abilities of sockets, namespaces and
//! processes. Each has its number in `docs/kernels.md`, for `cargo xtask scenarios`.

#![allow(clippy::unwrap_used, reason = "test code, though without #[test]")]

use std::fs;
use std::os::fd::AsFd as _;
use std::process::Command;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::sockopt::{
    set_socket_recv_buffer_size, set_socket_recv_buffer_size_force, socket_recv_buffer_size,
};
use rustix::net::{AddressFamily, SocketFlags, SocketType, socket_with};
use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};
use trueup_netlink::wire::MessageWriter;
use trueup_netlink::{ErrorKind, Group, Multicast, Namespace, Socket};
use trueup_testkit::{Kind, fresh_netns, ip, quiet_netns, raw_dump, running_version, uplinks};

const RTM_NEWLINK: u16 = 16;
/// The number of acknowledgements that fit into a default receive buffer.
const FIT: usize = 256;

/// Returns how many unread acknowledgements a default receive buffer holds, and how often the
/// kernel reports a loss.
fn acknowledgements_that_fit() -> (usize, usize) {
    const ENOBUFS: i32 = 105;
    let mut socket = Namespace::current().connect().unwrap();
    socket.prepare_requests().unwrap();
    for sequence in 1..=300_u32 {
        // NLMSG_NOOP with NLM_F_REQUEST and NLM_F_ACK.
        let mut nothing = Vec::new();
        nothing.extend(16_u32.to_ne_bytes());
        nothing.extend([1_u16.to_ne_bytes(), 5_u16.to_ne_bytes()].concat());
        nothing.extend([sequence.to_ne_bytes(), [0; 4]].concat());
        socket.send(&nothing).unwrap();
    }
    let (mut fit, mut lost) = (0, 0);
    let mut buffer = Vec::with_capacity(4096);
    loop {
        match socket.receive(&mut buffer) {
            Ok(_) => fit += 1,
            Err(error) if error.raw_os_error() == Some(ENOBUFS) => lost += 1,
            Err(_) => return (fit, lost),
        }
    }
}

// fact 29
fn acknowledgements_that_no_longer_fit_are_lost_and_reported_once() {
    let (fit, lost) = acknowledgements_that_fit();
    assert_eq!(lost, 1, "a loss is reported once, however much was lost");
    // The number holds for Linux 6.18; it depends on the size of the kernel's buffers.
    if running_version() >= (6, 18) {
        assert_eq!(fit, FIT);
    }
    assert!((1..300).contains(&fit), "{fit}");
}

// fact 45
fn an_overrun_of_announcements_is_reported_once() {
    let namespace = &Namespace::current();
    let mut events = Multicast::open(namespace, &Group::OBJECTS).unwrap();
    let mut socket = Socket::open(namespace).unwrap();
    // Each request sets lo down or up, which is announced; far more than the default buffer holds.
    for n in 0..1000_u32 {
        let mut message = Vec::new();
        let up = n % 2;
        let mut request = MessageWriter::begin(&mut message, RTM_NEWLINK, 0);
        request.body(&[[0; 4], 1_u32.to_ne_bytes(), up.to_ne_bytes(), [1, 0, 0, 0]].concat());
        request.finish().unwrap();
        socket.request(&message).unwrap();
    }
    let (mut overruns, mut received) = (0, 0);
    loop {
        match events.receive(Duration::ZERO, |_| {}) {
            Ok(0) => break,
            Ok(count) => received += count,
            Err(error) if error.kind() == ErrorKind::Overrun => overruns += 1,
            Err(error) => panic!("{error}"),
        }
    }
    assert!(received > 100, "earlier announcements are still there: {received}");
    assert_eq!(overruns, 1);
}

// fact 31
fn a_receive_buffer_is_clamped_without_a_word() {
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None);
    let socket = socket.unwrap();
    const ASKED: usize = 1 << 29;
    // Exceeds `net.core.rmem_max` by force; a user namespace does not allow that, even for its
    // root.
    let forced = set_socket_recv_buffer_size_force(&socket, ASKED);
    assert_eq!(forced, Err(Errno::PERM));
    set_socket_recv_buffer_size(&socket, ASKED).unwrap();
    let obtained = socket_recv_buffer_size(&socket).unwrap();
    assert!(obtained < ASKED, "{obtained}");
}

// fact 38
fn sysfs_shows_the_namespace_that_it_was_mounted_in() {
    ip(&["link", "add", "here0", "type", "ifb"]);
    let there = fs::read_dir("/sys/class/net").unwrap();
    let names: Vec<_> = there.map(|entry| entry.unwrap().file_name()).collect();
    assert!(!names.contains(&"here0".into()), "{names:?}");
    assert!(ip(&["-o", "link", "show"]).contains("here0"));
}

// fact 40
fn a_dump_holds_routes_that_ip_may_not_print() {
    const LEGS: usize = 249;
    const RTA_MULTIPATH: u16 = 9;
    uplinks(1);
    let gateways: Vec<_> = (2..).take(LEGS).map(|n| format!("10.200.0.{n}")).collect();
    let mut add = vec!["route", "add", "10.2.0.0/16"];
    add.extend(gateways.iter().flat_map(|via| ["nexthop", "via", via]));
    ip(&add);
    let multipath = raw_dump(Kind::Route, 2)
        .into_iter()
        .find_map(|mut row| row.attrs.remove(&RTA_MULTIPATH))
        .unwrap();
    // A next hop is eight bytes, and its gateway's attribute eight more.
    assert_eq!(multipath.len(), LEGS * 16);
    // `ip` 6.1 silently omits the route.
    let shown = Command::new("ip").args(["route", "show"]).output();
    let shown = String::from_utf8_lossy(&shown.unwrap().stdout).into_owned();
    let printed = shown.matches("nexthop").count();
    assert!([0, LEGS].contains(&printed), "{printed}");
}

// fact 53
fn a_socket_stays_where_it_was_made() {
    let mut socket = Socket::open(&Namespace::current()).unwrap();
    let here = socket.netns_cookie().unwrap();
    let (there, same) = thread::spawn(move || {
        fresh_netns();
        let there = Socket::open(&Namespace::current()).unwrap().netns_cookie();
        socket.check_privilege().unwrap();
        (there.unwrap(), socket.netns_cookie().unwrap())
    })
    .join()
    .unwrap();
    assert_eq!(same, here);
    assert_ne!(there, here);
}

// fact 54
fn a_cookie_is_never_used_again() {
    let cookie = || Socket::open(&Namespace::current()).unwrap().netns_cookie().unwrap();
    let mut cookies = vec![cookie()];
    for _ in 0..20 {
        // The previous namespace has no process left, and ends.
        quiet_netns();
        cookies.push(cookie());
    }
    cookies.sort_unstable();
    cookies.dedup();
    assert_eq!(cookies.len(), 21);
}

// fault source-5
fn a_namespace_that_was_opened_by_a_process_is_not_its_heirs() {
    // Use a process: a thread cannot be replaced by another with its number.
    let spawn = || Command::new("sleep").arg("600").spawn().unwrap();
    let there = thread::spawn(move || {
        quiet_netns();
        spawn()
    });
    let mut there = there.join().unwrap();
    let named = Namespace::pid(there.id());
    let opened = named.open().unwrap();
    let cookie = |it: &Namespace| Socket::open(it).unwrap().netns_cookie().unwrap();
    let before = cookie(&opened);
    assert_ne!(before, cookie(&Namespace::current()));
    there.kill().unwrap();
    there.wait().unwrap();
    // From now on the number is free, or belongs to another process.
    let error = named.open().unwrap_err();
    assert!(error.is_gone(), "{error}");
    assert_eq!(cookie(&opened), before);
    // A recycled number usually leads to one of our own processes.
    let mut here = spawn();
    let error = Namespace::pid(here.id()).open().unwrap_err();
    assert!(error.to_string().contains("our own"), "{error}");
    here.kill().unwrap();
    here.wait().unwrap();
}

// fact 55
fn threads_forbid_a_user_namespace_and_each_has_a_network_namespace_of_its_own() {
    let refused = unshare(UnshareFlags::NEWUSER);
    assert_eq!(refused, Err(Errno::INVAL));
    let own = fs::File::open("/proc/thread-self/ns/net").unwrap();
    unshare(UnshareFlags::NEWNET).unwrap();
    // A thread may also come back.
    move_into_link_name_space(own.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
}

#[allow(unsafe_code, reason = "unshare(2) is unsafe for CLONE_FILES alone")]
fn unshare(flags: UnshareFlags) -> Result<(), Errno> {
    assert!(!flags.contains(UnshareFlags::FILES));
    // SAFETY: the flags do not ask for a separate descriptor table, which would surprise other
    // threads.
    unsafe { rustix::thread::unshare_unsafe(flags) }
}

trueup_testkit::kernel_tests![
    acknowledgements_that_no_longer_fit_are_lost_and_reported_once,
    an_overrun_of_announcements_is_reported_once,
    a_receive_buffer_is_clamped_without_a_word,
    sysfs_shows_the_namespace_that_it_was_mounted_in,
    a_dump_holds_routes_that_ip_may_not_print,
    a_socket_stays_where_it_was_made,
    a_cookie_is_never_used_again,
    a_namespace_that_was_opened_by_a_process_is_not_its_heirs,
    threads_forbid_a_user_namespace_and_each_has_a_network_namespace_of_its_own,
];

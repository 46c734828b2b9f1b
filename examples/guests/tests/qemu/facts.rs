//! QEMU's behaviour on which the example depends: the table in the README lists these facts.

use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};
use std::{fs, thread};

use qapi::qmp;
use rustix::process::Signal;
use serde_json::json;
use trueup_guests::backup::{Backup, Job};
use trueup_guests::guest::Disk;
use trueup_guests::host::Bounds;
use trueup_guests::qmp::{Error, Monitor, Result};
use trueup_guests::snapshot::overlay_of;

use crate::support::{MIB, TestHost, eventually};

crate::tests![
    a_guest_is_reported_as_started,
    a_guest_is_started_once,
    a_monitor_serves_one_client,
    a_guest_that_hangs_costs_a_bounded_time,
    a_guest_that_did_not_answer_is_not_asked_for_a_second,
    memory_is_rounded_up_to_8_kib,
    sizes_of_disks_are_rounded_up_to_512,
    a_throttle_keeps_what_is_not_mentioned,
    a_mac_address_is_in_lower_case,
    a_disk_is_unplugged_without_the_guest,
    a_network_interface_leaves_when_the_guest_lets_go,
    a_guest_powers_off_by_itself,
    a_backup_outlives_its_client_and_waits_to_be_dismissed,
    a_backup_cannot_run_twice,
    a_disk_that_is_backed_up_is_not_resized,
    a_killed_guest_is_gone_and_starts_again,
];

fn a_guest_is_reported_as_started() {
    let test = TestHost::new();
    let mut monitor = test.start("web", 32 * MIB);
    let guest = monitor.guest().unwrap();
    assert_eq!((guest.memory, guest.is_running), (32 * MIB, false));
    assert_eq!(guest.description, "the \"guest\", web");
    monitor.describe("another one").unwrap();
    monitor.set_running(true).unwrap();
    let guest = monitor.guest().unwrap();
    assert_eq!((&*guest.description, guest.is_running), ("another one", true));
}

fn a_guest_is_started_once() {
    let test = TestHost::new();
    let mut monitor = test.start("web", 32 * MIB);
    let boot = monitor.boot().unwrap();
    drop(monitor);
    let error = start_again(&test).unwrap_err();
    assert!(matches!(&error, Error::Refused(why) if why.contains("lock pid file")), "{error}");
    // The second QEMU has not taken the first one's socket.
    assert_eq!(test.monitor("web").boot().unwrap(), boot);
}

fn start_again(test: &TestHost) -> Result<()> {
    test.host.start("web")
}

fn a_monitor_serves_one_client() {
    let test = TestHost::new();
    drop(test.start("web", 32 * MIB));
    let first = UnixStream::connect(test.host.guest_folder("web").join("qmp")).unwrap();
    thread::scope(|scope| {
        let second = scope.spawn(|| test.monitor("web").boot().unwrap());
        thread::sleep(Duration::from_millis(50));
        assert!(!second.is_finished());
        drop(first);
    });
}

fn a_guest_that_hangs_costs_a_bounded_time() {
    let test = TestHost::new();
    drop(test.start("web", 32 * MIB));
    test.stop("web");
    // After a few connections the socket accepts no more.
    let socket = test.host.guest_folder("web").join("qmp");
    for _ in 0..5 {
        let begun = Instant::now();
        let Err(error) = Monitor::connect(&socket, Duration::from_millis(200)) else {
            panic!("a stopped process has answered");
        };
        assert!(matches!(error, Error::NoAnswer(_)), "{error}");
        assert!(begun.elapsed() < Duration::from_secs(5));
    }
    test.signal("web", Signal::CONT);
    test.monitor("web").boot().unwrap();
}

fn a_guest_that_did_not_answer_is_not_asked_for_a_second() {
    let test = TestHost::new();
    drop(test.start("web", 32 * MIB));
    test.stop("web");
    let ask = || {
        let begun = Instant::now();
        assert!(matches!(test.host.monitor("web"), Err(Error::NoAnswer(_))));
        begun.elapsed()
    };
    assert!(ask() > Duration::from_secs(4));
    assert!(ask() < Duration::from_secs(3));
    thread::sleep(Duration::from_secs(1));
    assert!(ask() < Duration::from_secs(4));
    test.signal("web", Signal::CONT);
    eventually("it answers", || test.host.monitor("web").is_ok());
}

fn memory_is_rounded_up_to_8_kib() {
    let test = TestHost::new();
    let guest = test.start("web", 32 * MIB + 1).guest().unwrap();
    assert_eq!(guest.memory, 32 * MIB + 8192);
}

fn sizes_of_disks_are_rounded_up_to_512() {
    let test = TestHost::new();
    let mut monitor = test.start("web", 32 * MIB);
    let folder = test.host.guest_folder("web");
    test.plug(&mut monitor, "root", MIB + 1);
    assert_eq!(monitor.guest().unwrap().disks["root"].size, MIB + 512);
    for (asked, reported) in [(2 * MIB + 513, 2 * MIB + 1024), (MIB, MIB)] {
        monitor.resize_disk("root", asked).unwrap();
        assert_eq!(monitor.guest().unwrap().disks["root"].size, reported);
        // The file has the requested size.
        assert_eq!(fs::metadata(folder.join("root.raw")).unwrap().len(), asked);
    }
}

fn a_throttle_keeps_what_is_not_mentioned() {
    let test = TestHost::new();
    let mut monitor = test.start("web", 32 * MIB);
    test.plug(&mut monitor, "root", MIB);
    let mut set = |name: &str, value: u64| {
        monitor.run::<qmp::qom_set>(json!({
            "path": "/objects/throttle-root", "property": "limits", "value": { name: value },
        }))
    };
    let most = 1_000_000_000_000_000;
    set("iops-total", 7).unwrap();
    set("bps-total", most).unwrap();
    let error = set("bps-total", most + 1).unwrap_err();
    assert!(matches!(&error, Error::Refused(_)), "{error}");
    let bounds = Bounds { bps: most, iops: 7 };
    assert_eq!(
        monitor.guest().unwrap().disks["root"],
        Disk { size: MIB, bounds, has_snapshot: false }
    );
}

fn a_mac_address_is_in_lower_case() {
    let test = TestHost::new();
    let mut monitor = test.start("web", 32 * MIB);
    monitor.plug_nic("lan", "52-54-00-AB-CD-EF").unwrap();
    // Another interface may have the same address: QEMU does not check it.
    monitor.plug_nic("dmz", "52:54:00:ab:cd:ef").unwrap();
    let nics = monitor.guest().unwrap().nics;
    assert_eq!(nics["lan"], "52:54:00:ab:cd:ef");
    assert_eq!(nics["dmz"], nics["lan"]);
}

fn a_disk_is_unplugged_without_the_guest() {
    let test = TestHost::new();
    let mut monitor = test.start("web", 32 * MIB);
    test.plug(&mut monitor, "root", MIB);
    monitor.unplug_disk("root").unwrap();
    assert!(monitor.guest().unwrap().disks.is_empty());
    test.plug(&mut monitor, "root", 2 * MIB);
    assert_eq!(monitor.guest().unwrap().disks["root"].size, 2 * MIB);
}

fn a_network_interface_leaves_when_the_guest_lets_go() {
    let test = TestHost::new();
    let mut monitor = test.start("web", 32 * MIB);
    for nic in ["lan", "dmz"] {
        monitor.plug_nic(nic, "52:54:00:00:00:01").unwrap();
        monitor.begin_unplugging(nic).unwrap();
        // A repeated request reports that the removal is under way, which is no error here.
        monitor.begin_unplugging(nic).unwrap();
    }
    assert_eq!(monitor.guest().unwrap().nics.len(), 2, "the guest is paused");
    monitor.set_running(true).unwrap();
    drop(monitor);
    eventually("both interfaces are gone", || test.monitor("web").guest().unwrap().nics.is_empty());
    let mut monitor = test.monitor("web");
    monitor.plug_nic("lan", "52:54:00:00:00:01").unwrap();
    // A reset releases the interface without the guest's consent.
    monitor.set_running(false).unwrap();
    monitor.begin_unplugging("lan").unwrap();
    monitor.run::<qmp::system_reset>(json!({})).unwrap();
    drop(monitor);
    eventually("it is gone", || test.monitor("web").guest().unwrap().nics.is_empty());
}

fn a_guest_powers_off_by_itself() {
    let test = TestHost::new();
    let mut monitor = test.start("web", 32 * MIB);
    // While the processor is paused, a press is neither noticed nor kept.
    monitor.run::<qmp::system_powerdown>(json!({})).unwrap();
    monitor.set_running(true).unwrap();
    drop(monitor);
    // The guest notices the button once it has enabled it.
    eventually("the guest powers off", || match test.host.monitor("web") {
        Ok(mut monitor) => monitor.stop(false).is_err(),
        Err(error) => matches!(error, Error::Gone),
    });
    eventually("the process ends", || test.host.process("web").is_none());
}

fn backup() -> Backup {
    Backup::new("root", "nightly")
}

fn a_backup_outlives_its_client_and_waits_to_be_dismissed() {
    let test = TestHost::new();
    let folder = test.host.guest_folder("web");
    let mut monitor = test.start("web", 32 * MIB);
    let data: Vec<u8> = (0..4 * MIB).map(|at| (at / 4096) as u8).collect();
    test.plug(&mut monitor, "root", 4 * MIB);
    fs::write(folder.join("root.raw"), &data).unwrap();
    // A backup that has a second left when its client is gone.
    monitor.start_backup(&folder, &backup(), 2 * MIB).unwrap();
    drop(monitor);
    assert!(
        matches!(test.monitor("web").job(&backup().job()).unwrap(), Job::Running(_, total) if total == 4 * MIB as i64)
    );
    eventually("the job is concluded", || {
        test.monitor("web").job(&backup().job()).unwrap() == Job::Concluded(Ok(()))
    });
    let done = folder.join(backup().file());
    assert!(!done.exists());
    test.monitor("web").finish_backup(&folder, &backup(), true).unwrap();
    assert_eq!(fs::read(done).unwrap(), data);
    assert_eq!(test.monitor("web").job(&backup().job()).unwrap(), Job::Unknown);
}

fn a_backup_cannot_run_twice() {
    let test = TestHost::new();
    let folder = test.host.guest_folder("web");
    let mut monitor = test.start("web", 32 * MIB);
    test.plug(&mut monitor, "root", 4 * MIB);
    monitor.start_backup(&folder, &backup(), 1).unwrap();
    monitor.start_backup(&folder, &backup(), 1).unwrap();
    let again = json!({
        "job-id": "root.nightly", "device": "node-root", "target": "root.nightly", "sync": "full",
    });
    let error = monitor.run::<qmp::blockdev_backup>(again).unwrap_err();
    assert!(matches!(&error, Error::Refused(why) if why.contains("busy")), "{error}");
    assert_eq!(monitor.run::<qmp::query_jobs>(json!({})).unwrap().len(), 1);
    monitor.cancel_job(&backup().job()).unwrap();
    drop(monitor);
    let mut ended = Job::Unknown;
    eventually("the job is concluded", || {
        ended = test.monitor("web").job(&backup().job()).unwrap();
        matches!(ended, Job::Concluded(_))
    });
    let Job::Concluded(Err(why)) = ended else {
        panic!("a cancelled job has succeeded");
    };
    assert_eq!(why, "Operation canceled");
    test.monitor("web").finish_backup(&folder, &backup(), false).unwrap();
    let files = fs::read_dir(&folder).unwrap().map(|file| file.unwrap().file_name());
    let left: Vec<_> = files.filter(|name| name.to_string_lossy().contains("nightly")).collect();
    assert!(left.is_empty(), "{left:?}");
}

fn a_disk_that_is_backed_up_is_not_resized() {
    let test = TestHost::new();
    let image = test.host.disk_file("web", "root");
    let folder = test.host.guest_folder("web");
    let mut monitor = test.start("web", 32 * MIB);
    test.plug(&mut monitor, "root", 4 * MIB);
    monitor.start_backup(&folder, &backup(), 1).unwrap();
    for refused in [
        monitor.resize_disk("root", 8 * MIB).unwrap_err(),
        monitor.refuse_while_a_job_runs("root").unwrap_err(),
        monitor.take_snapshot("root", &image).unwrap_err(),
    ] {
        assert!(matches!(refused, Error::Refused(_)), "{refused}");
    }
    assert_eq!(monitor.guest().unwrap().disks["root"].size, 4 * MIB);
    assert!(!overlay_of(&image).exists());
}

fn a_killed_guest_is_gone_and_starts_again() {
    let test = TestHost::new();
    let boot = test.start("web", 32 * MIB).boot().unwrap();
    test.kill("web");
    // Its socket and its process id file are still there.
    assert!(test.host.guest_folder("web").join("qmp").exists());
    assert!(matches!(test.host.monitor("web"), Err(Error::Gone)));
    assert_eq!(test.host.guests().unwrap(), ["web"]);
    start_again(&test).unwrap();
    assert_ne!(test.monitor("web").boot().unwrap(), boot);
}

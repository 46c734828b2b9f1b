//! The engine with guests that hang, and with QEMU's events.

use std::fs::{self, File};
use std::path::Path;
use std::time::{Duration, Instant};

use qapi::qmp;
use rustix::process::Signal;
use serde_json::json;
use trueup_control::{
    Backend as _, Config, Engine, Fixed, Objects, Outcome, Pending, Report, Wait,
};
use trueup_guests::backend::Guests;
use trueup_guests::backup::Backup;
use trueup_guests::file;
use trueup_guests::host::Host;
use trueup_guests::objects::{desired, normalisers};
use trueup_journal::Journal;
use trueup_loop::Loop;
use trueup_reconcile::{Condition, MemoryLedger, PassInput, Report as _, Source as _};

use crate::support::{MIB, TestHost, eventually};

crate::tests![
    a_guest_that_hangs_holds_up_no_other,
    a_guest_that_is_being_started_is_not_read,
    events_wake_the_loop,
];

pub(crate) const FILE: &str = r#"
[guests.web]
state = "running"
memory = "16MiB"
disks.root = { size = "4MiB", iops = 100 }

[guests.db]
state = "running"
memory = "16MiB"
disks.root = { size = "4MiB", iops = 100 }
nics.lan = { mac = "52:54:00:00:00:01" }
"#;

pub(crate) fn objects(text: &str) -> Objects {
    desired(&file::File::parse(text).unwrap())
}

pub(crate) fn guests(test: &TestHost, backup_speed: u64) -> Guests {
    let host = Host::open(&test.folder.join("guests"), None).unwrap();
    Guests::new(host, backup_speed)
}

/// Returns a configuration that polls tasks at this interval, unless an event comes first.
pub(crate) fn config(interval: Duration) -> Config {
    Config::default()
        .with_create()
        .with_destroy()
        .with_normalisers(normalisers())
        .with_settle(Duration::ZERO)
        .with_poll(interval)
}

type TestEngine = Engine<Guests, Fixed>;

fn engine(test: &TestHost, provider: Fixed, journal: &Journal) -> TestEngine {
    // At this speed a backup takes two seconds.
    let backend = guests(test, 2 * MIB);
    Engine::new(backend, provider, journal, config(Duration::ZERO)).unwrap()
}

/// Runs passes until `is_so` accepts a report.
fn until(
    what: &str,
    engine: &mut TestEngine,
    ledger: &mut MemoryLedger,
    is_so: impl Fn(&Report) -> bool,
) -> Report {
    let mut last = None;
    eventually(what, || {
        let report = engine.reconcile(PassInput::new(&(), &(), ledger, &())).unwrap();
        let holds = is_so(&report);
        last = Some(report);
        holds
    });
    last.unwrap()
}

fn a_guest_that_hangs_holds_up_no_other() {
    let test = TestHost::new();
    let journal = Journal::open(test.folder.join("journal")).unwrap();
    let (provider, mut ledger) = (Fixed::new(objects(FILE)), MemoryLedger::default());
    let mut it = engine(&test, provider.clone(), &journal);
    until("it converges", &mut it, &mut ledger, Report::converged);
    // The guest hangs during a backup.
    let backup = "size = \"4MiB\", backups = [\"nightly\"]";
    let backup = FILE.replacen("size = \"4MiB\"", backup, 1);
    provider.set(Some(objects(&backup)));
    let is_running = |report: &Report| {
        let outcome = report.ops().first().map(|op| &op.outcome);
        matches!(outcome, Some(Outcome::Pending(Pending::Own(Wait::Running { .. }))))
    };
    until("the backup runs", &mut it, &mut ledger, is_running);
    test.stop("web");

    // Meanwhile everything of the other guest is changed, and nothing of this one, even by another
    // agent.
    let changed = backup
        .replace("iops = 100", "iops = 200")
        .replace("00:01\" }", "00:01\" }\nnics.dmz.mac = \"52:54:00:00:00:02\"");
    provider.set(Some(objects(&changed)));
    let is_changed = || {
        let found = test.monitor("db").guest().unwrap();
        found.disks["root"].bounds.iops == 200 && found.nics.len() == 2
    };
    for is_restarted in [false, true] {
        if is_restarted {
            drop(it);
            it = engine(&test, provider.clone(), &journal);
        }
        let begun = Instant::now();
        until("the other is changed", &mut it, &mut ledger, |_| is_changed());
        let report = it.reconcile(PassInput::new(&(), &(), &mut ledger, &())).unwrap();
        // A conversation is limited to 5 s, and there are few.
        assert!(begun.elapsed() < Duration::from_secs(30));
        assert!(!report.converged());
        assert_eq!(report.unread().len(), 1, "{report:?}");
        assert_eq!(report.unread()[0].key, "web");
        let [op] = report.ops() else { panic!("{report:?}") };
        assert_eq!(op.action.key, "web/disk/root/backup/nightly");
        assert!(matches!(op.outcome, Outcome::Pending(_)), "{op}");
    }

    // Once it is known to hang, passes are short: none waits for a conversation's 5 s.
    let begun = Instant::now();
    for _ in 0..4 {
        it.reconcile(PassInput::new(&(), &(), &mut ledger, &())).unwrap();
    }
    assert!(begun.elapsed() < Duration::from_secs(15));

    test.signal("web", Signal::CONT);
    until("it converges", &mut it, &mut ledger, Report::converged);
    let folder = test.host.guest_folder("web");
    assert!(folder.join(Backup::new("root", "nightly").file()).exists());
    let found = test.monitor("web").guest().unwrap();
    assert_eq!(found.disks["root"].bounds.iops, 200);
}

/// The agent that started it may have been killed: to this agent the guest would look stopped.
fn a_guest_that_is_being_started_is_not_read() {
    let test = TestHost::new();
    let folder = test.host.guest_folder("web");
    drop(test.start("web", 16 * MIB));
    test.kill("web");
    let backend = guests(&test, 0);
    let lock = File::open(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    let observed = backend.observe().unwrap();
    assert!(observed.objects.is_empty());
    assert_eq!(observed.unread["web"], "QEMU: it is being started");
    drop(lock);
    let observed = backend.observe().unwrap();
    assert!(observed.unread.is_empty() && observed.objects.contains_key("web"));
    // A guest that cannot be read for another reason does not delay others either.
    fs::write(folder.join("parameters.json"), "{").unwrap();
    drop(test.start("db", 16 * MIB));
    let observed = backend.observe().unwrap();
    assert!(observed.unread["web"].contains("parameters.json"));
    assert!(observed.objects.contains_key("db"));
}

/// The interval is an hour, so every pass except the first has another cause.
fn events_wake_the_loop() {
    let test = TestHost::new();
    let hour = Duration::from_secs(3600);
    let journal = Journal::open(test.folder.join("journal")).unwrap();
    let with_backup = FILE.replacen("iops", "backups = [\"nightly\"], iops", 1);
    let provider = Fixed::new(objects(&with_backup));
    let engine = Engine::new(guests(&test, 2 * MIB), provider, &journal, config(hour)).unwrap();
    let config = trueup_loop::Config::default().with_interval(hour);
    let ledger = MemoryLedger::default();
    let running = Loop::new(engine, (), (), ledger, (), config).spawn("guests").unwrap();
    let handle = running.handle();
    let is_in_place = || handle.exceptions().is_empty();
    let wait = Duration::from_secs(60);
    handle.force(wait).unwrap();
    // The backup's job is concluded: JOB_STATUS_CHANGE.
    let done = |file: &Path| file.exists() && is_in_place();
    let file = test.host.guest_folder("web");
    let file = file.join(Backup::new("root", "nightly").file());
    let runs = handle.exceptions();
    let Condition::Pending { why } = &runs[0].status.condition else { panic!("{runs:?}") };
    assert!(why.starts_with("running (task web:"), "{why}");
    eventually("the backup is finished", || done(&file));
    // Another client pauses a guest: STOP.
    let pause = |guest: &str| {
        let paused = test.monitor(guest).run::<qmp::stop>(json!({}));
        assert!(paused.is_ok());
    };
    let runs = |guest: &str| {
        let found = test.host.monitor(guest);
        found.is_ok_and(|mut it| it.guest().is_ok_and(|found| found.is_running))
    };
    pause("web");
    eventually("it is resumed", || runs("web"));
    // A process is killed: its events end.
    test.kill("db");
    eventually("it is started again", || runs("db"));
    // The new process is watched, too.
    pause("db");
    eventually("it is resumed", || runs("db"));
    running.stop(wait).unwrap();
}

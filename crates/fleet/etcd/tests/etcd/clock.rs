//! A host whose wall clock jumps. It is a process of its own, with libfaketime (Debian's package
//! libfaketime) before the C library. This does not work for etcd itself: Go asks the kernel
//! without that library. etcd's decisions by time use a clock that does not jump.

use std::env;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use trueup_world::{Event, Export, Filter, Session, WatchConfig, World};

use crate::help::{SOON, one, open};

/// The variable for a file with the offset of a process's wall clock.
const FILE: &str = "FAKETIME_TIMESTAMP_FILE";

pub(crate) fn a_wall_clock_that_jumps_changes_nothing_for_a_host() {
    match env::var(FILE) {
        Ok(file) => host(Path::new(&file)),
        Err(_) => start(),
    }
}

fn start() {
    let library = format!("/usr/lib/{}-linux-gnu/faketime/libfaketime.so.1", env::consts::ARCH);
    assert!(Path::new(&library).exists(), "{library}: install libfaketime");
    let file = env::temp_dir().join(format!("trueup-clock-{}", std::process::id()));
    fs::write(&file, "+0").unwrap();
    let mut command = Command::new(env::current_exe().unwrap());
    command.arg("a_wall_clock_that_jumps").arg("--nocapture");
    command.env(FILE, &file).env("LD_PRELOAD", library);
    command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    let status = command.status();
    fs::remove_file(&file).unwrap();
    assert!(status.unwrap().success());
}

fn host(file: &Path) {
    let (cluster, ttl) = (one(), Duration::from_secs(60));
    let world = World::new(Arc::new(open(cluster.config())), "/t", "a").unwrap();
    let session = Session::begin(world.clone(), "a", ttl).unwrap();
    let mut watch = world.watch_resources(&[Filter::all()], WatchConfig::default()).unwrap();
    assert!(matches!(watch.next(SOON).unwrap(), Some(Event::Ready(_))));
    for off in ["+10d", "-300d", "+10y", "+0"] {
        let (before, begun) = (SystemTime::now(), Instant::now());
        fs::write(file, off).unwrap();
        let jump = match SystemTime::now().duration_since(before) {
            Ok(forward) => forward,
            Err(back) => back.duration(),
        };
        assert!(jump > Duration::from_secs(100_000), "the wall clock has not jumped: {jump:?}");
        assert!(begun.elapsed() < SOON, "the other clock has");
        let restored = session.renew().unwrap();
        assert!(restored.is_none(), "{off}: {restored:?}");
        let rest = world.store().renew(session.lease()).unwrap();
        assert!(rest > ttl / 2 && rest <= ttl, "{off}: {rest:?}");
        let export = [Export::new("route", "x", off)];
        session.declare(&export).unwrap().into_result().unwrap();
        match watch.next(SOON).unwrap() {
            Some(Event::Changed { value, .. }) => assert_eq!(value.value, off.as_bytes()),
            other => panic!("{off}: {other:?}"),
        }
        let status = session.status();
        assert_eq!((status.losses, status.cut_off_since), (0, None));
    }
}

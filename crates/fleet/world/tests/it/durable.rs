//! The file of the embedded store: its permissions, and its leases while it is closed.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use trueup_world::{Embedded, Export, Session, World};

/// Each command that reads the store opens its file.
#[test]
fn a_lease_ends_while_others_open_the_file() {
    let name = format!("trueup-leases-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).unwrap();
    fs::set_permissions(&folder, Permissions::from_mode(0o700)).unwrap();
    let world = || {
        let store = Embedded::open(folder.join("world.redb")).unwrap();
        World::new(store.connect(), "/w", "a").unwrap()
    };
    let ttl = Duration::from_secs(2);
    let session = Session::begin(world(), "owner", ttl).unwrap();
    session.declare(&[Export::new("route", "a", "1")]).unwrap();
    let renewed = Instant::now();
    session.renew().unwrap();
    drop(session);
    let is_there = world().exports().unwrap().len() == 1;
    assert!(is_there || renewed.elapsed() > ttl, "it goes on");
    let begun = Instant::now();
    while !world().exports().unwrap().is_empty() {
        assert!(begun.elapsed() < Duration::from_secs(60), "it never ends");
        sleep(ttl / 10);
    }
    fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn a_file_or_folder_that_others_can_change_is_refused() {
    let name = format!("trueup-durable-{}", std::process::id());
    let folder = std::env::temp_dir().join(name);
    fs::create_dir_all(&folder).unwrap();
    let path = folder.join("world.redb");
    let set_mode = |path: &Path, mode| {
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    };
    let refused = |words: &str| {
        let Err(error) = Embedded::open(&path) else {
            panic!("{words}: it is opened");
        };
        assert!(error.to_string().contains(words), "{error}");
    };

    let precious = folder.join("precious");
    fs::write(&precious, "").unwrap();
    set_mode(&precious, 0o600);
    for target in [precious.as_path(), Path::new("missing")] {
        symlink(target, &path).unwrap();
        refused("it is a symbolic link");
        fs::remove_file(&path).unwrap();
    }
    fs::hard_link(&precious, &path).unwrap();
    refused("2 names (hard links)");
    fs::remove_file(&path).unwrap();
    assert_eq!(fs::read(&precious).unwrap(), b"");
    assert!(!folder.join("missing").exists());

    for mode in [0o777, 0o1777] {
        set_mode(&folder, mode);
        refused("use another folder");
    }
    assert!(!path.exists());
    set_mode(&folder, 0o711);
    drop(Embedded::open(&path).unwrap());
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    for mode in [0o644, 0o606] {
        set_mode(&path, mode);
        refused("others can");
    }
    set_mode(&path, 0o600);
    Embedded::open(&path).unwrap();
    fs::remove_dir_all(&folder).unwrap();
}

//! A user who exchanges folders, links and files as fast as possible, with `RENAME_EXCHANGE`.

use std::env;
use std::fs;
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use trueup_path::Error;

use crate::stage::Stage;

/// Returns when to stop: after a second, or after ten minutes in the long test.
fn end() -> Instant {
    let is_long = env::var_os("TRUEUP_LONG").is_some_and(|it| it == "1");
    Instant::now() + Duration::from_secs(if is_long { 600 } else { 1 })
}

fn exchange(one: &Path, other: &Path) {
    // It may be away at this moment.
    let _ = renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
}

#[test]
fn a_racing_user_leads_no_write_read_or_removal_out_of_his_folders() {
    let stage = Stage::new();
    let home = stage.home();
    let app = stage.folder("app");
    // The victims: a folder that the attacker does not own, by a link and, as root, by its own
    // name, with the same names in it.
    let victims = match stage.has_ours() {
        true => stage.ours(),
        false => Path::new("/etc").to_owned(),
    };
    let link = stage.link("link", &victims);
    let before = stage.has_ours().then(|| {
        fs::write(victims.join("conf"), "precious").unwrap();
        fs::write(victims.join("source"), "secret").unwrap();
        let inside = stage.folder("inside");
        fs::write(inside.join("conf"), "precious").unwrap();
        fs::write(inside.join("source"), "secret").unwrap();
        crate::stage::give_to(&inside, 0);
        inside
    });
    stage.file("app/source", "his");
    let secret = match &before {
        Some(_) => victims.join("source"),
        None => Path::new("/etc/passwd").to_owned(),
    };
    let to_secret = stage.link("app/to-secret", &secret);
    let has_ended = AtomicBool::new(false);
    let (mut written, mut removed, mut read, mut refused) = (0_u64, 0_u64, 0_u64, 0_u64);
    thread::scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(Ordering::SeqCst) {
                exchange(&app, &link);
                if let Some(inside) = &before {
                    exchange(&app, inside);
                }
                exchange(&home.join("app/source"), &home.join("app/to-secret"));
                exchange(&app, &link);
                let conf = home.join("app/conf");
                exchange(&conf, &home.join("app/to-secret"));
                exchange(&home.join("app/.conf.0bc9fa91195d6ed7.trueup-new"), &conf);
                exchange(&home.join("app/.conf.0bc9fa91195d6ed7.trueup-old"), &conf);
            }
        });
        // Even if a check fails.
        let _end = EndsAtDrop(&has_ended);
        let end = end();
        while Instant::now() < end || written == 0 || read == 0 {
            match write(&stage, &home.join("app/conf")) {
                Ok(()) => written += 1,
                Err(_) => refused += 1,
            }
            match stage.users.read_of_one_owner(&home.join("app/source"), 100) {
                Ok(content) => {
                    assert_ne!(content, b"secret");
                    assert!(content == b"his" || content.starts_with(b"new"), "{content:?}");
                    read += 1;
                }
                Err(_) => refused += 1,
            }
            match remove(&stage, &home.join("app/conf")) {
                Ok(true) => removed += 1,
                Ok(false) => {}
                Err(_) => refused += 1,
            }
        }
    });
    println!("{written} written, {removed} removed, {read} read, {refused} refused");
    drop(to_secret);
    let inside = before.map(|_| {
        ["app", "link", "inside"]
            .map(|name| home.join(name))
            .into_iter()
            .find(|path| path.is_dir() && !path.is_symlink() && owner(path) == 0)
            .unwrap()
    });
    for victim in inside.iter().chain(stage.has_ours().then_some(&victims)) {
        let mut names: Vec<_> =
            fs::read_dir(victim).unwrap().map(|it| it.unwrap().file_name()).collect();
        names.sort();
        assert_eq!(names, ["conf", "source"], "{victim:?}");
        assert_eq!(fs::read(victim.join("conf")).unwrap(), b"precious");
        assert_eq!(fs::read(victim.join("source")).unwrap(), b"secret");
    }
}

struct EndsAtDrop<'a>(&'a AtomicBool);

impl Drop for EndsAtDrop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

fn owner(path: &Path) -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    fs::metadata(path).unwrap().uid()
}

fn write(stage: &Stage, path: &Path) -> Result<(), Error> {
    let place = stage.users.place(path)?;
    let expected = place.open()?;
    let mut new = place.replacement(0o644)?;
    new.file().write_all(b"new").unwrap();
    new.publish(expected.as_ref())
}

fn remove(stage: &Stage, path: &Path) -> Result<bool, Error> {
    let place = stage.users.place(path)?;
    place.remove(|_| Ok(true))
}

//! A user who exchanges folders and links, with `RENAME_EXCHANGE`, while journals are opened.

use std::fs;
use std::os::unix::fs::symlink;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use rustix::process::{Gid, Uid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_uid};
use trueup_testkit::is_long;

use super::*;

fn exchange(one: &Path, other: &Path) {
    // It may be away at this moment, or not belong to the other user.
    let _ = renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
}

/// Becomes the other user, in this thread only.
fn become_other() {
    let group = Gid::from_raw(OTHER);
    set_thread_groups(&[]).unwrap();
    set_thread_res_gid(group, group, group).unwrap();
    set_thread_uid(Uid::from_raw(OTHER)).unwrap();
}

fn compact(path: &Path) -> Result<(), Error> {
    Journal::open(path)?.compact().map(drop)
}

#[test]
fn a_racing_user_leads_no_journal_elsewhere() {
    let directory = Scratch::make("race").unwrap();
    let stage = &*directory;
    set_mode(stage, 0o1777);
    // The attack's targets: files of ours, with the names that we use.
    let victims = stage.join("victims");
    fs::create_dir(&victims).unwrap();
    for name in ["journal", "journal.lock", "journal.new"] {
        fs::write(victims.join(name), PRECIOUS).unwrap();
        set_mode(&victims.join(name), 0o600);
    }
    // The other user's folder and link, in a folder like `/tmp` and in one of the user's own.
    let home = stage.join("home");
    fs::create_dir(&home).unwrap();
    for folder in [stage, &home] {
        fs::create_dir(folder.join("app")).unwrap();
        symlink(&victims, folder.join("link")).unwrap();
        symlink(victims.join("journal"), folder.join("app/to")).unwrap();
        for name in ["app", "link", "app/to"] {
            if !give(&folder.join(name)) {
                // Only root can play both users.
                return;
            }
        }
    }
    assert!(give(&home));
    // A journal of ours beside the other user's folder, who cannot touch it.
    let ours = stage.join("ours");
    fs::create_dir(&ours).unwrap();
    let ours = ours.join("journal");

    let length = Duration::from_secs(if is_long() { 600 } else { 1 });
    let end = Instant::now() + length;
    let has_ended = AtomicBool::new(false);
    let (mut done, mut refused) = (0_u64, 0_u64);
    thread::scope(|scope| {
        scope.spawn(|| {
            become_other();
            while !has_ended.load(Ordering::SeqCst) {
                for folder in [stage, &home] {
                    let (app, link) = (folder.join("app"), folder.join("link"));
                    exchange(&app, &link);
                    for name in ["journal", "journal.lock", "journal.new"] {
                        let _ = fs::File::create_new(app.join(name));
                        exchange(&app.join(name), &app.join("to"));
                    }
                    exchange(&app, &stage.join("ours"));
                }
            }
        });
        while Instant::now() < end || done == 0 || refused == 0 {
            record_anew(&ours);
            done += 1;
            for folder in [stage, &home] {
                let path = folder.join("app/journal");
                for (what, call) in
                    READS.into_iter().chain(WRITES).chain([("compact", compact as _)])
                {
                    if call(&path).is_ok() {
                        has_ended.store(true, Ordering::SeqCst);
                        panic!("{what}: {}", path.display());
                    }
                    refused += 1;
                }
            }
        }
        has_ended.store(true, Ordering::SeqCst);
    });
    println!("{done} done, {refused} refused");
    for entry in fs::read_dir(&victims).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(fs::read_to_string(&path).unwrap(), PRECIOUS, "{path:?}");
    }
    assert_eq!(fs::read_dir(&victims).unwrap().count(), 3);
}

/// Creates, compacts, damages and repairs a journal.
fn record_anew(path: &Path) {
    let _ = fs::remove_file(path);
    make(path);
    compact(path).unwrap();
    fs::write(path, "").unwrap();
    trueup_journal::repair(path, true).unwrap();
    trueup_journal::check(path).unwrap();
    let folder = path.parent().unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.to_string_lossy().contains("damaged") {
            fs::remove_file(path).unwrap();
        }
    }
}

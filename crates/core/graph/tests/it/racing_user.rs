//! A user who exchanges a vertex's folders and files as fast as possible, with `RENAME_EXCHANGE`.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{CWD, RenameFlags, renameat_with};
use trueup_graph::{Failure, Verdict, Vertex as _};
use trueup_testkit::is_long;

use crate::other_users::{apply, declared, in_run};
use crate::stage::{Stage, give_to};

/// Returns how long to try: a second, or ten minutes for the long test.
fn duration() -> Duration {
    Duration::from_secs(if is_long() { 600 } else { 1 })
}

fn exchange(one: &Path, other: &Path) {
    // The file may be away at this moment.
    let _ = renameat_with(CWD, one, CWD, other, RenameFlags::EXCHANGE);
}

/// A folder and file that the race must leave unchanged.
struct Victim {
    content: &'static str,
    inode: (u64, u32, u32, u32),
    folder: PathBuf,
}

fn identity(path: &Path) -> (u64, u32, u32, u32) {
    let found = fs::metadata(path).unwrap();
    (found.ino(), found.uid(), found.gid(), found.mode())
}

impl Victim {
    fn new(folder: &Path, content: &'static str) -> Self {
        let conf = folder.join("conf");
        fs::write(&conf, content).unwrap();
        Victim { content, inode: identity(&conf), folder: folder.to_owned() }
    }

    fn assert_unchanged(&self, at: &Path) {
        let names: Vec<_> = fs::read_dir(at).unwrap().map(|it| it.unwrap().file_name()).collect();
        assert_eq!(names, ["conf"], "{at:?}");
        let conf = at.join("conf");
        assert_eq!(fs::read_to_string(&conf).unwrap(), self.content);
        assert_eq!(identity(&conf), self.inode, "{conf:?}");
    }
}

#[derive(Default, Debug)]
struct Counts {
    changed: u64,
    in_place: u64,
    failed: u64,
}

impl Counts {
    fn count(&mut self, result: &Result<Verdict, Failure>) {
        *match result {
            Ok(Verdict::Changed) => &mut self.changed,
            Ok(_) => &mut self.in_place,
            Err(_) => &mut self.failed,
        } += 1;
    }
}

#[test]
fn a_racing_user_has_no_file_of_root_replaced_given_away_or_removed() {
    let stage = Stage::new();
    if !stage.has_ours() {
        return;
    }
    let app = stage.folder("app");
    // A folder of root elsewhere, with a link to it, and one in the home, by its own name. One of
    // them has the declared content.
    let elsewhere = Victim::new(&stage.ours(), "made");
    let link = stage.link("link", &elsewhere.folder);
    let inside = Victim::new(&stage.folder("inside"), "precious");
    give_to(&inside.folder, 0);
    let trap = stage.link("app/trap", elsewhere.folder.join("conf"));
    let conf = app.join("conf");
    let has_ended = AtomicBool::new(false);
    let mut file =
        declared(&stage, &conf, "made").with_owner(Some(stage.attacker), None).with_mode(0o600);
    let (applies, reversals) = thread::scope(|scope| {
        scope.spawn(|| {
            while !has_ended.load(Ordering::SeqCst) {
                exchange(&app, &link);
                exchange(&app, &inside.folder);
                exchange(&app, &link);
                // There and back, so that a file exists only at times.
                exchange(&conf, &trap);
                exchange(&conf, &trap);
                exchange(&app.join(".conf.0bc9fa91195d6ed7.trueup-new"), &conf);
                exchange(&app.join(".conf.0bc9fa91195d6ed7.trueup-old"), &conf);
            }
        });
        let counts = in_run(move |context| {
            let (mut applies, mut reversals) = (Counts::default(), Counts::default());
            let end = Instant::now() + duration();
            let bound = end + Duration::from_secs(60);
            while Instant::now() < end || applies.changed == 0 || reversals.changed == 0 {
                assert!(Instant::now() < bound, "{applies:?} {reversals:?}");
                applies.count(&apply(context, &mut file));
                reversals.count(&file.reverse(context));
            }
            (applies, reversals)
        });
        has_ended.store(true, Ordering::SeqCst);
        counts
    });
    println!("applies: {applies:?}, reversals: {reversals:?}");
    elsewhere.assert_unchanged(&elsewhere.folder);
    let folder = [&app, &link, &inside.folder].into_iter().find(|path| {
        let found = fs::symlink_metadata(path).unwrap();
        found.is_dir() && found.uid() == 0
    });
    inside.assert_unchanged(folder.unwrap());
}

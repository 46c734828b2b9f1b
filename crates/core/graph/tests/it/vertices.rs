//! Commands and files.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::fs::{XattrFlags, getxattr, setxattr};
use trueup_graph::{Driver, Exec, File, Places, Vertex, VertexSpec};
use trueup_reconcile::ErrorClass;
use trueup_testkit::Scratch;

use crate::support::{BOUND, Declared, counted, start, until};

fn declare(spec: VertexSpec, vertex: impl Vertex + 'static) -> Declared {
    (spec.with_retry(0, BOUND), Box::new(vertex))
}

fn failed(driver: &Driver, name: &str) -> (ErrorClass, String) {
    until("it fails", || driver.explain(name).unwrap().attempts > 0);
    let explained = driver.explain(name).unwrap();
    (explained.last.unwrap().unwrap_err(), explained.message.unwrap())
}

fn shell(script: String) -> [String; 2] {
    ["-c".to_owned(), script]
}

/// Otherwise the two vertices would overwrite each other's content for ever.
#[test]
fn a_file_by_a_second_path_over_a_link_is_refused() {
    let folder = Scratch::make("places").unwrap();
    let (real, link) = (folder.join("real"), folder.join("link"));
    fs::create_dir(&real).unwrap();
    symlink(&real, &link).unwrap();
    let places = Places::default();
    let declared = |path: &Path, content| -> Declared {
        // The event of the first write can arrive while the second vertex fails and then waits for
        // its delay.
        let again = Duration::from_millis(20);
        let spec =
            VertexSpec::new(&path.display().to_string()).with_poll(again).with_retry(0, again);
        (spec, Box::new(File::new(path, content).with_places(&places)))
    };
    let (first, second) = (real.join("a"), link.join("a"));
    // The second runs after the first.
    let (spec, vertex) = declared(&second, "two");
    let spec = spec.after(&first.display().to_string());
    let driver = start(2, [declared(&first, "one"), (spec, vertex)]);
    let (class, message) = failed(&driver, &second.display().to_string());
    assert_eq!(class, ErrorClass::Invalid);
    let whole = format!(
        "{}: is the same file as {}, by another path: remove one of the two",
        second.display(),
        first.display()
    );
    assert_eq!(message, whole);
    assert_eq!(fs::read_to_string(&first).unwrap(), "one");
    // The path leads to a different file once the link is changed.
    let other = folder.join("other");
    fs::create_dir(&other).unwrap();
    fs::remove_file(&link).unwrap();
    symlink(&other, &link).unwrap();
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(fs::read_to_string(other.join("a")).unwrap(), "two");
}

#[test]
fn a_file_that_changes_reloads_a_service_once() {
    let folder = Scratch::make("reload").unwrap();
    let (config, log) = (folder.join("resolv.conf"), folder.join("log"));
    let declare_all = |content: &str, revision| {
        let reload = VertexSpec::new("exec.reload").refreshed_by("file.resolv");
        let file = VertexSpec::new("file.resolv").with_revision(revision);
        [
            declare(reload, self::reload(&log)),
            declare(file, File::new(&config, content).with_mode(0o640)),
        ]
    };
    let driver = start(2, declare_all("nameserver 10.0.0.53\n", 0));
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(fs::read_to_string(&config).unwrap(), "nameserver 10.0.0.53\n");
    assert_eq!(fs::metadata(&config).unwrap().permissions().mode() & 0o7777, 0o640);
    let reloads = || fs::read_to_string(&log).unwrap().lines().count();
    assert_eq!(reloads(), 1);
    // The change of another writer.
    fs::write(&config, "nameserver 192.0.2.1\n").unwrap();
    until("the file is put right, and the service reloaded", || reloads() == 2);
    fs::set_permissions(&config, fs::Permissions::from_mode(0o600)).unwrap();
    until("the mode is put right", || reloads() == 3);
    fs::remove_file(&config).unwrap();
    until("the file is there again", || reloads() == 4);
    driver.wait_converged(BOUND).unwrap();
    driver.replace(declare_all("nameserver 10.0.0.54\n", 1)).unwrap();
    until("the service is reloaded", || reloads() == 5);
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(reloads(), 5);
    let names = folder.names();
    assert_eq!(names.len(), 2, "{names:?}");
}

fn reload(log: &std::path::Path) -> Exec {
    let script = shell(format!("echo reload >> {}", log.display()));
    Exec::new("/bin/sh", script).only_refreshed()
}

#[test]
fn a_clone_of_a_file_that_takes_its_place_is_watched() {
    let folder = Scratch::make("cloned").unwrap();
    let path = folder.join("conf");
    let file = File::new(&path, "declared");
    let declared = |revision| {
        let spec = VertexSpec::new("file").with_revision(revision);
        [
            declare(spec, file.clone()),
            declare(VertexSpec::new(&format!("other {revision}")), {
                File::new(folder.join(format!("other{revision}")), "x")
            }),
        ]
    };
    let driver = start(2, declared(0));
    for revision in 1..20 {
        driver.wait_converged(BOUND).unwrap();
        driver.replace(declared(revision)).unwrap();
        driver.wait_converged(BOUND).unwrap();
        fs::write(&path, "by another writer").unwrap();
        until("it is as declared", || fs::read(&path).unwrap() == b"declared");
    }
}

#[test]
fn a_file_that_leaves_is_removed_only_if_it_was_created_and_is_unchanged() {
    let folder = Scratch::make("leaves").unwrap();
    let path = |name: &str| folder.join(name);
    fs::write(path("there"), "same").unwrap();
    let files = ["created", "there", "changed"];
    let count = Arc::new(AtomicUsize::new(0));
    let vertices = files.map(|it| declare(VertexSpec::new(it), File::new(path(it), "same")));
    let driver = start(2, vertices);
    driver.wait_converged(BOUND).unwrap();
    driver.pause(BOUND).unwrap();
    fs::write(path("changed"), "by another writer").unwrap();
    driver.replace([counted(VertexSpec::new("other"), &count)]).unwrap();
    driver.resume();
    until("the new vertex runs", || count.load(Ordering::SeqCst) == 1);
    driver.wait_converged(BOUND).unwrap();
    assert!(!path("created").exists());
    assert_eq!(fs::read(path("there")).unwrap(), b"same");
    assert_eq!(fs::read(path("changed")).unwrap(), b"by another writer");
}

#[test]
fn a_file_that_leaves_is_not_waited_for_if_another_writer_has_put_something_else_there() {
    let folder = Scratch::make("replaced").unwrap();
    let path = |name: &str| folder.join(name);
    let files = ["link", "folder", "large"];
    let vertices = files.map(|it| declare(VertexSpec::new(it), File::new(path(it), "x")));
    let driver = start(2, vertices);
    driver.wait_converged(BOUND).unwrap();
    driver.pause(BOUND).unwrap();
    for file in files {
        fs::remove_file(path(file)).unwrap();
    }
    symlink("target", path("link")).unwrap();
    fs::create_dir(path("folder")).unwrap();
    let large = fs::File::create(path("large")).unwrap();
    large.set_len(100 << 20).unwrap();
    driver.replace([]).unwrap();
    driver.resume();
    driver.wait_converged(BOUND).unwrap();
    for file in files {
        assert!(fs::symlink_metadata(path(file)).is_ok(), "{file}");
    }
}

#[test]
fn what_is_no_regular_file_is_a_conflict_and_stays() {
    let folder = Scratch::make("conflict").unwrap();
    let path = |name: &str| folder.join(name);
    fs::write(path("target"), "of the link").unwrap();
    symlink(path("target"), path("link")).unwrap();
    fs::create_dir(path("folder")).unwrap();
    let missing = path("missing").join("file");
    let names = ["link", "folder"];
    let vertices = names.map(|it| declare(VertexSpec::new(it), File::new(path(it), "x")));
    let source = File::from_source(path("copy"), path("no-source"));
    let vertices = vertices.into_iter().chain([
        declare(VertexSpec::new("copy"), source),
        declare(VertexSpec::new("missing"), File::new(&missing, "x")),
    ]);
    let driver = start(2, vertices);
    let (class, message) = failed(&driver, "link");
    assert_eq!(class, ErrorClass::Conflict);
    assert!(
        message.contains("it is a symbolic link, and not a regular file; remove it"),
        "{message}"
    );
    assert_eq!(failed(&driver, "folder").0, ErrorClass::Conflict);
    let (class, message) = failed(&driver, "copy");
    assert_eq!(class, ErrorClass::Dependency);
    assert!(message.contains("no-source: cannot open"), "{message}");
    let is_told = || driver.explain("missing").unwrap().message.is_some();
    until("its folder cannot be watched", is_told);
    assert_eq!(fs::read(path("target")).unwrap(), b"of the link");
    assert!(path("folder").is_dir() && fs::symlink_metadata(path("link")).unwrap().is_symlink());
}

/// Runs only where the file system has extended attributes.
#[test]
fn new_content_keeps_extended_attributes_and_the_access_control_list() {
    let folder = Scratch::make("extended").unwrap();
    let path = folder.join("conf");
    fs::write(&path, "old").unwrap();
    // Version 2; the owner may write, user 4242 and all others may read, and groups may do nothing.
    let entry = |tag: u16, permissions: u16, id: u32| {
        let (tag, permissions) = (tag.to_le_bytes(), permissions.to_le_bytes());
        [&tag[..], &permissions, &id.to_le_bytes()].concat()
    };
    let list = [
        2u32.to_le_bytes().to_vec(),
        entry(1, 6, u32::MAX),
        entry(2, 4, 4_242),
        entry(4, 0, u32::MAX),
        entry(16, 4, u32::MAX),
        entry(32, 4, u32::MAX),
    ];
    let attributes = [("system.posix_acl_access", list.concat()), ("user.site", b"here".to_vec())];
    let set = |(name, value): &(&str, Vec<u8>)| {
        setxattr(&path, *name, value, XattrFlags::empty()).is_ok()
    };
    let set: Vec<_> = attributes.iter().filter(|it| set(it)).collect();
    let driver = start(1, [declare(VertexSpec::new("file"), File::new(&path, "new"))]);
    driver.wait_converged(BOUND).unwrap();
    assert_eq!(fs::read(&path).unwrap(), b"new");
    for (name, value) in set {
        let mut read = vec![0; 100];
        let len = getxattr(&path, *name, &mut read).unwrap();
        assert_eq!(read[..len], value[..], "{name}");
    }
}

#[test]
fn a_large_file_is_never_seen_half_written_and_keeps_its_mode() {
    let folder = Scratch::make("atomic").unwrap();
    let path = folder.join("large");
    let content = |byte| vec![byte; 1 << 20];
    fs::write(&path, content(b'a')).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o604)).unwrap();
    // While it is open, no other file can have its inode.
    let mut first = fs::File::open(&path).unwrap();
    // The leftover of a crash.
    fs::write(folder.join(".large.b0408fec4209f8d4.trueup-new"), "half").unwrap();
    let declared = |byte, revision| {
        let spec = VertexSpec::new("file").with_revision(revision);
        [declare(spec, File::new(&path, content(byte)))]
    };
    let driver = start(1, declared(b'b', 0));
    for round in 1..20u8 {
        driver.replace(declared(b'a' + round, u64::from(round))).unwrap();
        let read = fs::read(&path).unwrap();
        assert!(read.len() == 1 << 20 && read.iter().all(|it| *it == read[0]));
    }
    driver.wait_converged(BOUND).unwrap();
    let metadata = fs::metadata(&path).unwrap();
    assert_eq!(metadata.permissions().mode() & 0o7777, 0o604);
    assert_ne!(metadata.ino(), first.metadata().unwrap().ino());
    let mut read = Vec::new();
    std::io::Read::read_to_end(&mut first, &mut read).unwrap();
    assert!(read == content(b'a'), "the first file is not written to");
    assert_eq!(fs::read(&path).unwrap()[0], b'a' + 19);
    assert_eq!(folder.names(), ["large"]);
}

#[test]
fn a_command_runs_while_its_check_fails_and_has_to_mend_it() {
    let folder = Scratch::make("check").unwrap();
    let (mark, log) = (folder.join("mark"), folder.join("log"));
    let script = format!("echo run >> {}; touch {}", log.display(), mark.display());
    let exec = Exec::new("/bin/sh", shell(script));
    let useless = Exec::new("/bin/true", [""; 0]).with_check("/bin/false", [""; 0]);
    let driver = start(
        2,
        [
            declare(
                VertexSpec::new("mark"),
                exec.with_check("/usr/bin/test", ["-e".as_ref(), mark.as_os_str()]),
            ),
            declare(VertexSpec::new("useless"), useless),
        ],
    );
    let (class, message) = failed(&driver, "useless");
    assert_eq!(class, ErrorClass::Busy);
    assert!(message.contains("its check /bin/false fails"), "{message}");
    until("it runs", || driver.are_converged(&["mark"]).unwrap());
    driver.event("mark").unwrap();
    until("it is in place", || driver.are_converged(&["mark"]).unwrap());
    assert_eq!(fs::read_to_string(&log).unwrap(), "run\n");
    fs::remove_file(&mark).unwrap();
    driver.event("mark").unwrap();
    until("it runs again", || mark.exists());
}

#[test]
fn a_command_that_fails_or_is_none_says_so() {
    let script = "yes wrong | head -n 100000 >&2; echo last words >&2; exit 3";
    let driver = start(
        2,
        [
            declare(VertexSpec::new("none"), Exec::new("/nonexistent", [""; 0])),
            declare(VertexSpec::new("fails"), Exec::new("/bin/sh", ["-c", script])),
            declare(VertexSpec::new("file"), Exec::new("/etc/passwd", [""; 0])),
            declare(VertexSpec::new("signal"), Exec::new("/bin/sh", ["-c", "kill -9 $$"])),
        ],
    );
    let (class, message) = failed(&driver, "none");
    assert_eq!(class, ErrorClass::Dependency);
    assert!(message.starts_with("/nonexistent: cannot be started"), "{message}");
    let (class, message) = failed(&driver, "fails");
    assert_eq!(class, ErrorClass::Unknown);
    assert!(message.starts_with("/bin/sh: exit code 3"), "{message}");
    assert!(message.ends_with("last words") && message.len() < 3_000, "{message}");
    assert_eq!(failed(&driver, "file").0, ErrorClass::Permission);
    assert!(failed(&driver, "signal").1.contains("killed by signal 9"));
}

#[test]
fn what_a_command_says_makes_no_line_of_its_own() {
    let script = "printf 'no\\nother: settled; last run: in place\\033[2J' >&2; exit 3";
    let exec = Exec::new("/bin/sh", ["-c", script]);
    let driver = start(1, [declare(VertexSpec::new("exec\nforged: settled"), exec)]);
    let name = "exec\nforged: settled";
    let (_, message) = failed(&driver, name);
    assert!(message.contains("no\nother: settled"), "as it is: {message}");
    let snapshot = driver.snapshot();
    let text = snapshot.to_string();
    assert_eq!(text.lines().count(), 1, "{text}");
    let dot = snapshot.to_dot();
    assert_eq!(dot.lines().count(), 4, "{dot}");
    let is_control = |it: char| it.is_control() && it != '\n';
    assert!(!text.contains(is_control) && !dot.contains(is_control));
}

#[test]
fn a_command_that_does_not_end_is_killed_with_its_group() {
    let folder = Scratch::make("group").unwrap();
    let pid = folder.join("pid");
    let script = format!("sleep 1000 & echo $! > {0}.new; mv {0}.new {0}; wait", pid.display());
    let slow = Exec::new("/bin/sh", shell(script)).with_timeout(Duration::from_secs(1));
    let begin = Instant::now();
    let spec = VertexSpec::new("slow").with_retry(100, Duration::from_millis(1));
    let driver = start(1, [(spec, Box::new(slow) as Box<dyn Vertex>)]);
    until("it is killed", || driver.explain("slow").unwrap().attempts > 0 && pid.exists());
    driver.stop(BOUND).unwrap();
    let message = driver.explain("slow").unwrap().message.unwrap();
    assert!(message.contains("killed, as it did not end in time"), "{message}");
    assert!(begin.elapsed() < BOUND);
    let process = fs::read_to_string(&pid).unwrap();
    let stat = format!("/proc/{}/stat", process.trim());
    // If no parent reaps an orphan, it stays a zombie.
    let is_over = || {
        fs::read_to_string(&stat).is_ok_and(|it| it.contains(") Z ")) || !fs::exists(&stat).unwrap()
    };
    until("the child of the command ends", is_over);
}

#[test]
fn a_file_follows_its_source() {
    let folder = Scratch::make("source").unwrap();
    let (path, source) = (folder.join("file"), folder.join("source"));
    fs::write(&source, "one").unwrap();
    let file = File::from_source(&path, &source);
    let _driver = start(1, [declare(VertexSpec::new("file"), file)]);
    until("it is written", || fs::read_to_string(&path).is_ok_and(|it| it == "one"));
    fs::write(&source, "two").unwrap();
    until("it follows", || fs::read_to_string(&path).is_ok_and(|it| it == "two"));
}

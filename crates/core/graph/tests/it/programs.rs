//! Programs that another user can change.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, chown, symlink};
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use trueup_graph::{Exec, Vertex, VertexSpec};
use trueup_reconcile::ErrorClass;
use trueup_testkit::Scratch;

use crate::support::{BOUND, start, until};

/// The number of a user who is neither root nor this process's user.
const OTHER: u32 = 12_345;

/// Writes a script that touches the file `ran` in the folder.
fn script(folder: &Scratch, path: &Path, mode: u32) {
    let content = format!("#!/bin/sh\ntouch {}\n", ran(folder).display());
    fs::write(path, content).unwrap();
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

fn ran(folder: &Scratch) -> PathBuf {
    folder.join("ran")
}

/// Runs a command, and returns its failure; `None` if it succeeds.
fn failure(exec: Exec) -> Option<(ErrorClass, String)> {
    let vertex: Box<dyn Vertex> = Box::new(exec);
    let driver = start(1, [(VertexSpec::new("exec").with_retry(0, BOUND), vertex)]);
    let explained = || driver.explain("exec").unwrap();
    until("it ends", || driver.are_converged(&["exec"]).unwrap() || explained().attempts > 0);
    let class = explained().last?.err()?;
    Some((class, explained().message?))
}

fn run(program: &Path) -> Option<(ErrorClass, String)> {
    failure(Exec::new(program, [""; 0]))
}

#[test]
fn a_program_that_others_can_write_does_not_run() {
    let folder = Scratch::make("writable").unwrap();
    let program = folder.join("program");
    script(&folder, &program, 0o777);
    let (class, message) = run(&program).unwrap();
    assert_eq!(class, ErrorClass::Permission, "{message}");
    assert!(message.contains(program.to_str().unwrap()), "{message}");
    assert!(message.contains("chmod go-w"), "{message}");
    assert!(!ran(&folder).exists());
    script(&folder, &program, 0o755);
    assert_eq!(run(&program), None);
    assert!(ran(&folder).exists());
}

#[test]
fn a_program_in_a_folder_that_others_can_write_does_not_run() {
    let folder = Scratch::make("writable-folder").unwrap();
    let shared = folder.join("shared");
    fs::create_dir(&shared).unwrap();
    fs::set_permissions(&shared, fs::Permissions::from_mode(0o777)).unwrap();
    let program = shared.join("program");
    script(&folder, &program, 0o755);
    let (class, message) = run(&program).unwrap();
    assert_eq!(class, ErrorClass::Permission, "{message}");
    assert!(message.contains(shared.to_str().unwrap()), "{message}");
    // By a link of ours.
    let link = folder.join("link");
    symlink(&program, &link).unwrap();
    assert_eq!(run(&link).unwrap().0, ErrorClass::Permission);
    assert!(!ran(&folder).exists());
}

#[test]
fn a_link_of_ours_to_a_program_of_ours_is_followed() {
    let folder = Scratch::make("linked").unwrap();
    let (program, link) = (folder.join("program"), folder.join("link"));
    script(&folder, &program, 0o755);
    symlink("program", &link).unwrap();
    assert_eq!(run(&link), None);
    assert!(ran(&folder).exists());
}

#[test]
fn a_check_by_a_program_that_others_can_write_does_not_run() {
    let folder = Scratch::make("writable-check").unwrap();
    let program = folder.join("program");
    script(&folder, &program, 0o777);
    let exec = Exec::new("/bin/true", [""; 0]).with_check(&program, [""; 0]);
    assert_eq!(failure(exec).unwrap().0, ErrorClass::Permission);
    assert!(!ran(&folder).exists());
}

#[test]
fn a_plan_says_that_a_program_would_be_refused() {
    let folder = Scratch::make("writable-plan").unwrap();
    let program = folder.join("program");
    script(&folder, &program, 0o777);
    let exec: Box<dyn Vertex> = Box::new(Exec::new(&program, [""; 0]));
    let ledger = trueup_reconcile::MemoryLedger::default();
    let checked = trueup_graph::check([(VertexSpec::new("exec"), exec)], &ledger).unwrap();
    let message = checked.vertices[0].message.as_deref().unwrap();
    assert!(message.contains("chmod go-w"), "{message}");
}

#[test]
fn what_belongs_to_another_user_does_not_run() {
    if !geteuid().is_root() {
        eprintln!("not run: it gives files to another user, as root");
        return;
    }
    let folder = Scratch::make("other-user").unwrap();
    // The program belongs to the other user.
    let program = folder.join("program");
    script(&folder, &program, 0o755);
    chown(&program, Some(OTHER), None).unwrap();
    let (class, message) = run(&program).unwrap();
    assert_eq!(class, ErrorClass::Permission, "{message}");
    assert!(message.contains("12345"), "{message}");
    // Our program in the other user's folder.
    let home = folder.join("home");
    fs::create_dir(&home).unwrap();
    script(&folder, &home.join("program"), 0o755);
    chown(&home, Some(OTHER), None).unwrap();
    assert_eq!(run(&home.join("program")).unwrap().0, ErrorClass::Permission);
    // The other user's link to a program of ours.
    let link = folder.join("link");
    symlink("/bin/true", &link).unwrap();
    std::os::unix::fs::lchown(&link, Some(OTHER), None).unwrap();
    assert_eq!(run(&link).unwrap().0, ErrorClass::Permission);
    // The other user's link, in that user's folder, as a step on the way.
    symlink("/bin", home.join("bin")).unwrap();
    std::os::unix::fs::lchown(home.join("bin"), Some(OTHER), None).unwrap();
    assert_eq!(run(&home.join("bin/true")).unwrap().0, ErrorClass::Permission);
    assert!(!ran(&folder).exists());
}

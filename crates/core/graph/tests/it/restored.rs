//! Records of an earlier process, and files that it created.

use std::collections::BTreeMap;
use std::fs;
use std::sync::{Arc, Mutex};

use trueup_graph::{Driver, ErrorKind, File, Vertex, VertexSpec};
use trueup_reconcile::{Claim, Ledger, MemoryLedger};
use trueup_testkit::Scratch;

use crate::reversals::left_behind;
use crate::support::{BOUND, Declared, SharedLedger, config};

#[test]
fn a_record_of_another_version_is_an_error_that_names_the_key_and_loses_nothing() {
    let mut ledger = left_behind();
    let claims = BTreeMap::from([(b"other".to_vec(), Claim::Ours(vec![99, 1, 2]))]);
    ledger.commit_outcomes(claims).unwrap();
    let before = ledger.owned().unwrap();
    let ledger = Arc::new(Mutex::new(*ledger));
    let error =
        Driver::start(config(1), [], Box::new(SharedLedger(Arc::clone(&ledger)))).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Ledger);
    assert!(error.to_string().contains("vertex other"), "{error}");
    assert_eq!(ledger.lock().unwrap().owned().unwrap(), before);
}

#[test]
fn a_file_that_was_created_is_removed_after_a_restart_unless_another_writer_changed_it() {
    let folder = Scratch::make("restarted").unwrap();
    let path = |name: &str| folder.join(name);
    let ledger = Arc::new(Mutex::new(MemoryLedger::default()));
    let start = |names: &[&str], content: &str| {
        let vertices: Vec<Declared> = names
            .iter()
            .map(|it| (VertexSpec::new(it), Box::new(File::new(path(it), content)) as _))
            .collect();
        let ledger = Box::new(SharedLedger(Arc::clone(&ledger)));
        let restore = |name: &str, record: &[u8]| {
            let file: Box<dyn Vertex> = Box::new(File::from_record(record)?);
            Ok((VertexSpec::new(name), file))
        };
        let driver = Driver::start_with_restore(config(2), vertices, ledger, restore).unwrap();
        driver.wait_converged(BOUND).unwrap();
        driver.stop(BOUND).unwrap();
    };
    fs::write(path("there"), "one").unwrap();
    let all = ["created", "there", "changed", "kept"];
    start(&all, "one");
    // A new process with another content adopts the files.
    start(&all, "two");
    fs::write(path("changed"), "by another writer").unwrap();
    start(&["kept"], "two");
    assert!(!path("created").exists());
    assert_eq!(fs::read(path("there")).unwrap(), b"two");
    assert_eq!(fs::read(path("changed")).unwrap(), b"by another writer");
    assert_eq!(fs::read(path("kept")).unwrap(), b"two");
    let names = ledger.lock().unwrap().owned().unwrap();
    assert_eq!(names.into_keys().collect::<Vec<_>>(), [b"kept"]);
    start(&[], "");
    assert!(!path("kept").exists());
}

#[test]
fn a_file_of_another_path_is_created_once_the_old_one_is_removed() {
    let folder = Scratch::make("moved").unwrap();
    let path = |name: &str| folder.join(name);
    let declare = |name: &str, revision| -> [Declared; 1] {
        let spec = VertexSpec::new("file").with_revision(revision);
        [(spec, Box::new(File::new(path(name), "x")))]
    };
    let ledger = Box::new(MemoryLedger::default());
    let driver = Driver::start(config(1), declare("old", 0), ledger).unwrap();
    driver.wait_converged(BOUND).unwrap();
    assert!(path("old").exists());
    driver.replace(declare("new", 1)).unwrap();
    driver.wait_converged(BOUND).unwrap();
    assert!(path("new").exists() && !path("old").exists());
}

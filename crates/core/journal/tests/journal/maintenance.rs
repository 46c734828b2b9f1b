//! Check, export and repair: an operator's work on a file.

use std::fs;
use std::path::PathBuf;

use trueup_journal::{
    Backoff, ErrorKind, Journal, LedgerScope, Repaired, Start, check, export, repair,
};
use trueup_reconcile::{Claim, Ledger as _};
use trueup_testkit::Scratch;

use crate::common::{at, claims, execute, ours, workload};

fn exported(path: &PathBuf) -> String {
    let mut out = Vec::new();
    export(path, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn an_export_has_a_line_for_each_record() {
    let directory = Scratch::make("export").unwrap();
    let path = directory.join("journal");
    let journal = Journal::open(&path).unwrap();
    drop(journal.begin(Start::new("add \"x\"", b"\xFF\x00")).unwrap());
    drop(journal.begin(Start::new("done", b"d")).unwrap());
    journal.resume("done").unwrap().failed("no", None, at(1)).unwrap();
    let start = Start::new("keyed", b"w").object(b"vm").key(b"k");
    let mut keyed = execute(&journal, start.nonce(b"n", at(3), at(1)));
    keyed.step(b"s").unwrap();
    keyed.running("t").unwrap();
    let backoff = Backoff { tries: 2, next: at(4) };
    journal.set_backoff(b"vm", backoff).unwrap();
    let mut ledger = journal.ledger("rtnl", &LedgerScope::new("7", "b")).unwrap();
    ledger.commit_outcomes(claims([("br0", ours("{}"))])).unwrap();
    ledger.begin(claims([("br1", Claim::NotOurs)])).unwrap();
    drop((journal, ledger, keyed));

    let expected = concat!(
        r#"{"record":"operation","name":"add \"x\"","state":"started","what":{"hex":"ff00"}}"#,
        "\n",
        r#"{"record":"operation","name":"done","state":"failed","why":"no","ended":1000,"what":"d"}"#,
        "\n",
        r#"{"record":"operation","name":"keyed","state":"running","object":"vm","key":"k","step":"s","task":"t","what":"w"}"#,
        "\n",
        r#"{"record":"key","key":"k","state":"reserved","operation":"keyed"}"#,
        "\n",
        r#"{"record":"nonce","nonce":"n","expires":3000}"#,
        "\n",
        r#"{"record":"backoff","object":"vm","tries":2,"next":4000}"#,
        "\n",
        r#"{"record":"owned","source":"rtnl","namespace":"7","boot":"b","key":"br0","value":"{}"}"#,
        "\n",
        r#"{"record":"intent","source":"rtnl","namespace":"7","boot":"b","key":"br1","intended":"not ours"}"#,
        "\n",
    );
    assert_eq!(exported(&path), expected);
    let counts = check(&path).unwrap();
    assert_eq!((counts.operations, counts.keys, counts.owned, counts.intents), (3, 1, 1, 1));
}

#[test]
fn to_look_at_a_journal_does_not_write_to_it() {
    let directory = Scratch::make("look").unwrap();
    let path = directory.join("journal");
    let journal = Journal::open(&path).unwrap();
    workload().into_iter().for_each(|step| step(&journal));
    // The state after a crash.
    let crashed = directory.join("crashed");
    fs::copy(&path, &crashed).unwrap();
    let mut out = Vec::new();
    journal.export(&mut out).unwrap();
    drop(journal);
    for path in [path, crashed] {
        let before = fs::read(&path).unwrap();
        check(&path).unwrap();
        assert_eq!(exported(&path).as_bytes(), out);
        assert_eq!(repair(&path, false).unwrap(), Repaired::Whole);
        assert!(fs::read(&path).unwrap() == before, "written to");
    }
    let missing = directory.join("missing");
    assert_eq!(check(&missing).unwrap_err().kind(), ErrorKind::Os);
    assert!(!missing.exists(), "nor makes it one");
}

#[test]
fn a_damaged_journal_is_refused_until_it_is_repaired() {
    let directory = Scratch::make("damaged").unwrap();
    let path = directory.join("journal");
    for attempt in 0..2 {
        let journal = Journal::open(&path).unwrap();
        drop(journal.begin(Start::new("lost", b"")).unwrap());
        drop(journal);
        let whole = fs::read(&path).unwrap();
        let damaged = &whole[..whole.len() / 2];
        fs::write(&path, damaged).unwrap();

        let error = Journal::open(&path).unwrap_err();
        assert!(error.is_damaged(), "{error}");
        assert!(error.remedy().is_some_and(|remedy| remedy.contains("repair")));
        assert!(check(&path).unwrap_err().is_damaged());
        assert!(repair(&path, false).unwrap_err().is_damaged());
        assert_eq!(fs::read(&path).unwrap(), damaged, "not written to");

        let kept = match attempt {
            0 => directory.join("journal.damaged"),
            _ => directory.join("journal.damaged.1"),
        };
        let repaired = repair(&path, true).unwrap();
        assert_eq!(repaired, Repaired::Emptied { damaged: kept.clone() });
        assert_eq!(fs::read(kept).unwrap(), damaged);
        assert_eq!(exported(&path), "");
    }
}

/// The last commit was acknowledged, then its pages were damaged. redb alone would fall back by one
/// commit without an error.
#[test]
fn an_acknowledged_commit_that_is_damaged_is_no_commit_that_was_under_way() {
    let directory = Scratch::make("shortened").unwrap();
    let path = directory.join("journal");
    let journal = Journal::open(&path).unwrap();
    drop(journal.begin(Start::new("first", b"")).unwrap());
    let before = fs::read(&path).unwrap();
    drop(journal.begin(Start::new("second", b"")).unwrap());
    let after = fs::read(&path).unwrap();
    drop(journal);
    // The second commit's pages as they were before it; the header and the slots as they are after
    // it.
    let mut damaged = after;
    damaged[8192..].copy_from_slice(&before[8192..]);
    fs::write(&path, &damaged).unwrap();

    let error = Journal::open(&path).unwrap_err();
    assert!(error.is_damaged(), "{error}");
    let repaired = repair(&path, true).unwrap();
    let kept = directory.join("journal.damaged");
    assert_eq!(repaired, Repaired::Shortened { damaged: kept });
    let journal = Journal::open(&path).unwrap();
    assert!(journal.operation("first").unwrap().is_some());
    assert!(journal.operation("second").unwrap().is_none());
    drop(journal.begin(Start::new("second", b"")).unwrap());
}

#[test]
fn an_emptied_file_is_damaged_and_one_half_made_is_not_there() {
    let directory = Scratch::make("emptied").unwrap();
    let path = directory.join("journal");
    fs::write(directory.join("journal.new"), b"half").unwrap();
    let journal = Journal::open(&path).unwrap();
    assert_eq!(check(&path).unwrap_err().kind(), ErrorKind::Os);
    drop(journal.begin(Start::new("first", b"")).unwrap());
    drop(journal);
    assert_eq!(check(&path).unwrap().operations, 1);
    fs::write(&path, b"").unwrap();
    assert!(Journal::open(&path).unwrap_err().is_damaged());
}

#[test]
fn a_repair_refuses_what_does_not_begin_as_a_journal_and_leaves_nothing_beside_it() {
    let directory = Scratch::make("precious").unwrap();
    let path = directory.join("precious");
    let files: [&[u8]; 5] = [
        b"precious\n",
        b"[]",
        b"trueup-journey",
        &[0; 9000],
        &b"[Unit]\nDescription=something else\n".repeat(500),
    ];
    for content in files {
        fs::write(&path, content).unwrap();
        for loss in [false, true] {
            let repaired = repair(&path, loss);
            assert_eq!(fs::read(&path).unwrap(), content, "{loss:?}: {repaired:?}");
            assert_eq!(repaired.unwrap_err().kind(), ErrorKind::Format);
        }
        assert_eq!(Journal::open(&path).unwrap_err().kind(), ErrorKind::Format);
        assert_eq!(directory.names(), ["precious"]);
    }
}

#[test]
fn a_repair_leaves_a_lock_file_only_where_one_was() {
    let directory = Scratch::make("litter").unwrap();
    let path = directory.join("journal");
    let journal = Journal::open(&path).unwrap();
    drop(journal.begin(Start::new("first", b"")).unwrap());
    drop(journal);
    assert_eq!(directory.names(), ["journal", "journal.lock"]);
    assert_eq!(repair(&path, false).unwrap(), Repaired::Whole);
    assert_eq!(directory.names(), ["journal", "journal.lock"]);

    fs::remove_file(directory.join("journal.lock")).unwrap();
    assert_eq!(repair(&path, false).unwrap(), Repaired::Whole);
    assert_eq!(directory.names(), ["journal"]);
}

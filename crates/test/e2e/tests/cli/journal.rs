//! Passes whose journal is damaged, held or not writable, and `trueup journal`, which repairs it.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;
use serde_json::{Value, json};
use trueup_testkit::{Snapshot, assert_no_changes, wait_until};

use crate::agent::{Agent, Ran, Running, TRUEUP};

const OURS: &str = "link = [{ name = \"ours\", kind = \"ifb\" }]";

/// Flips one significant bit in the link's record. A journal also holds pages of former commits.
fn damage(agent: &Agent, file: &Path) -> Vec<u8> {
    let whole = fs::read(file).unwrap();
    let name = b"ours";
    let places = (0..whole.len() - name.len()).filter(|at| &whole[*at..at + name.len()] == name);
    for at in places {
        let mut damaged = whole.clone();
        damaged[at] ^= 1;
        fs::write(file, &damaged).unwrap();
        if agent.run(&["journal", "check"]).code == 2 {
            return damaged;
        }
    }
    panic!("no flip was found");
}

fn lines(ran: &Ran) -> Vec<Value> {
    let lines = ran.out.lines();
    lines.map(|line| serde_json::from_str(line).unwrap()).collect()
}

pub(crate) fn a_damaged_journal_stops_a_pass_until_it_is_repaired() {
    let agent = Agent::new();
    agent.settle(OURS);
    let file = agent.state_file("journal");
    let shown = file.to_str().unwrap();
    let damaged = damage(&agent, &file);

    agent.write("f.toml", "link = []");
    for command in ["plan", "apply", "watch"] {
        let ran = assert_no_changes(|| agent.run(&[command, "f.toml"]));
        ran.assert_refused(&[
            "is damaged",
            shown,
            "trueup journal check",
            "trueup journal export",
            "trueup journal repair",
        ]);
    }
    assert!(Snapshot::take().index_of("ours").is_some());
    let checked = agent.run(&["journal", "check"]);
    assert_eq!(checked.code, 2, "{checked:?}");
    assert!(checked.out.contains(shown) && checked.out.contains("is damaged"));
    let checked = agent.run(&["journal", "check", "--format", "json"]);
    let answer = checked.json();
    assert_eq!((checked.code, &answer["whole"]), (2, &json!(false)));
    assert_eq!(answer["file"], shown);
    assert!(answer["problem"].as_str().unwrap().contains("damaged"));
    let exported = agent.run(&["journal", "export"]);
    assert_eq!(exported.code, 2, "{exported:?}");
    assert!(exported.err.contains("is damaged") && exported.err.contains("repair"));
    assert!(fs::read(&file).unwrap() == damaged, "left as it was");

    // The repair would lose records.
    let refused = agent.run(&["journal", "repair"]);
    let hint = format!("`trueup journal repair {shown} --accept-loss`");
    let look = format!("`trueup journal export {shown}`");
    refused.assert_refused(&[shown, "would lose", &hint, &look]);
    let unnamed = agent.run(&["journal", "repair", "--accept-loss"]);
    unnamed.assert_refused(&["--accept-loss", "journal repair FILE"]);
    assert!(fs::read(&file).unwrap() == damaged, "left as it was");
    let repair = ["journal", "repair", shown, "--accept-loss", "--format", "json"];
    let repaired = agent.run(&repair);
    assert_eq!(repaired.code, 0, "{repaired:?}");
    let answer = repaired.json();
    let kept = format!("{shown}.damaged");
    assert_eq!((&answer["file"], &answer["kept"]), (&json!(shown), &json!(kept)));
    assert_ne!(answer["lost"], "nothing");
    assert!(repaired.err.contains("by hand"), "{repaired:?}");
    assert!(fs::read(kept).unwrap() == damaged);
    assert_eq!(agent.run(&["journal", "check"]).code, 0);
    let again = agent.run(&["journal", "repair"]);
    assert_eq!(again.code, 0);
    assert!(again.out.contains("nothing to repair") && again.err.is_empty(), "{again:?}");
    assert_eq!(agent.apply("link = []").code, 0);
}

pub(crate) fn a_repair_leaves_a_file_that_is_no_journal_as_it_is() {
    let agent = Agent::new();
    let file = agent.write("precious.txt", "precious\n");
    for more in [&["precious.txt"][..], &["precious.txt", "--accept-loss"]] {
        let ran = agent.run(&[&["journal", "repair"], more].concat());
        ran.assert_refused(&["precious.txt", "does not begin as a journal"]);
        assert_eq!(fs::read(&file).unwrap(), b"precious\n", "{ran:?}");
    }
    let names = fs::read_dir(agent.directory()).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["precious.txt"]);
}

/// All journals have the same head, so a flipped bit there loses nothing.
pub(crate) fn a_repair_that_loses_nothing_needs_no_flag() {
    let agent = Agent::new();
    agent.settle(OURS);
    let file = agent.state_file("journal");
    let whole = agent.run(&["journal", "export"]).out;
    assert!(whole.contains("ours"));
    let mut damaged = fs::read(&file).unwrap();
    damaged[0] ^= 1;
    fs::write(&file, &damaged).unwrap();

    agent.write("f.toml", "link = []");
    let stopped = assert_no_changes(|| agent.run(&["apply", "f.toml"]));
    stopped.assert_refused(&["is damaged", "trueup journal repair"]);
    let exported = agent.run(&["journal", "export"]);
    assert_eq!((exported.code, exported.out), (2, whole.clone()));
    assert!(exported.err.contains("every record could be read"));
    let repaired = agent.run(&["journal", "repair", "--format", "json"]);
    assert_eq!((repaired.code, repaired.err.as_str()), (0, ""));
    assert_eq!(repaired.json()["lost"], "nothing");
    assert_eq!(agent.run(&["journal", "export"]).out, whole);
    agent.settle("link = []");
}

/// A cut, empty or foreign file is not taken for a journal, nor for a missing one.
pub(crate) fn what_is_no_whole_journal_is_told_and_left() {
    let agent = Agent::new();
    agent.settle(OURS);
    let file = agent.state_file("journal");
    let good = fs::read(&file).unwrap();
    for bad in [&good[..good.len() / 2], b"", b"[]", &[0; 9000]] {
        fs::write(&file, bad).unwrap();
        agent.write("f.toml", "link = []");
        for command in ["plan", "apply", "watch"] {
            let ran = assert_no_changes(|| agent.run(&[command, "f.toml"]));
            ran.assert_refused(&[file.to_str().unwrap(), "journal"]);
        }
        assert_ne!(agent.run(&["journal", "check"]).code, 0);
        assert!(fs::read(&file).unwrap() == bad, "left as it was");
    }
    fs::write(&file, &good).unwrap();
    agent.settle("link = []");
}

pub(crate) fn a_journal_that_is_held_can_be_read_and_not_repaired() {
    let agent = Agent::new();
    let file = agent.write("held.toml", OURS);
    let mut holder = agent.spawn(&["watch", file.to_str().unwrap()]);
    let owned = || {
        let checked = agent.run(&["journal", "check", "--format", "json"]);
        match checked.out.is_empty() {
            true => 0,
            false => checked.json()["owned"].as_u64().unwrap_or_default(),
        }
    };
    wait_until("the link is remembered", || owned() == 1);
    let exported = agent.run(&["journal", "export"]);
    assert_eq!(exported.code, 0, "{exported:?}");
    let answer = lines(&exported);
    assert_eq!(answer.len(), 1);
    assert_eq!((&answer[0]["record"], &answer[0]["source"]), (&json!("owned"), &json!("rtnl")));
    assert!(answer[0]["value"].as_str().unwrap().contains("ours"));
    let checked = agent.run(&["journal", "check"]);
    assert!(checked.out.contains("whole, 1 owned, 0 open intents"), "{checked:?}");

    let pid = holder.0.id().to_string();
    let repaired = agent.run(&["journal", "repair"]);
    repaired.assert_refused(&[&format!("pid {pid}"), "watch", "stop"]);
    let second = assert_no_changes(|| agent.apply("link = []"));
    second.assert_refused(&["another trueup", &format!("pid {pid}"), "held.toml", "protocol"]);
    holder.terminate(Signal::TERM);
    assert_eq!(agent.run(&["journal", "repair"]).code, 0);
    agent.settle("link = []");
}

pub(crate) fn without_journals_there_is_nothing_to_do_and_nothing_is_made() {
    let agent = Agent::new();
    for _ in 0..2 {
        for task in ["check", "export", "repair"] {
            let ran = agent.run(&["journal", task]);
            assert_eq!((ran.code, ran.out.as_str()), (0, ""), "{ran:?}");
            assert!(ran.err.contains("there is no journal in"), "{ran:?}");
        }
        // The first time there is no directory, the second time it is empty.
        fs::create_dir_all(agent.state()).unwrap();
    }
    assert_eq!(fs::read_dir(agent.state()).unwrap().count(), 0);

    for task in ["check", "export", "repair"] {
        let ran = agent.run(&["journal", task, "missing.journal"]);
        ran.assert_refused(&["missing.journal"]);
    }
    assert!(!agent.directory().join("missing.journal.lock").exists());
    let ran = agent.run(&["journal", "check", "--format", "ip"]);
    ran.assert_refused(&["text or json"]);
    // A whole journal is reported even if another cannot be read.
    agent.settle(OURS);
    let file = agent.state_file("journal");
    let ran = agent.run(&["journal", "check", "missing.journal", file.to_str().unwrap()]);
    assert_eq!(ran.code, 1);
    assert!(ran.out.contains("1 owned") && ran.err.contains("missing"), "{ran:?}");
}

/// A pass without changes leaves the file untouched, and does not create one. The same holds for a
/// pass that only changes objects with its marker; `journal check` explains why.
pub(crate) fn a_pass_without_changes_writes_nothing() {
    let agent = Agent::new();
    agent.settle("link = []\nroute = [{ dst = \"10.9.0.0/16\", type = \"blackhole\" }]");
    let checked = agent.run(&["journal", "check"]);
    assert_eq!((checked.code, checked.out.as_str()), (0, ""), "{checked:?}");
    assert!(checked.err.contains("are ours without a journal"), "{checked:?}");
    let entries = fs::read_dir(agent.state()).unwrap();
    let names: Vec<_> = entries.map(|entry| entry.unwrap().file_name()).collect();
    assert!(names.len() == 1 && names[0].to_str().unwrap().ends_with(".journal.lock"));

    agent.settle(OURS);
    let file = agent.state_file("journal");
    let seen = || (fs::read(&file).unwrap(), fs::metadata(&file).unwrap().modified().unwrap());
    let before = seen();
    agent.settle(OURS);
    agent.run(&["journal", "check"]);
    assert!(seen() == before);
}

/// On a full disk, the program does not make objects that it could not record. Once there is space
/// again, the loop continues.
pub(crate) fn nothing_is_made_that_could_not_be_remembered() {
    let agent = Agent::new();
    agent.write("one.toml", "link = [{ name = \"one\", kind = \"ifb\" }]");
    let two = "[{ name = \"one\", kind = \"ifb\" }, { name = \"two\", kind = \"ifb\" }]";
    agent.write("two.toml", &format!("link = {two}"));
    fs::create_dir(agent.state()).unwrap();
    let script = "mount -t tmpfs -o size=256k,mode=0711 none state && \"$0\" --state state apply one.toml && \
                  dd if=/dev/zero of=state/fill bs=4k; \"$0\" --state state apply two.toml > output; \
                  exec \"$0\" --state state watch two.toml --interval 0.1 > seen";
    let mut shell = Command::new("unshare");
    shell.args(["--mount", "sh", "-c", script, TRUEUP]).current_dir(agent.directory());
    let mut watch = Running::of(&mut shell);
    let read = |name| fs::read_to_string(agent.directory().join(name)).unwrap_or_default();
    let refused = |text: String| {
        text.contains("could not be recorded") && text.contains("No space left on device")
    };
    wait_until("the loop tells of it", || refused(read("seen")));
    assert!(refused(read("output")), "{}", read("output"));
    let seen = Snapshot::take();
    assert!(seen.index_of("one").is_some() && seen.index_of("two").is_none());
    // An object no longer in the file is not counted as pending, although recording still fails.
    agent.write("two.toml", &format!("link = {}", two.replace("two", "three")));
    wait_until("the third is refused", || read("seen").contains("three"));
    assert!(!read("seen").contains("2 pending"), "{}", read("seen"));
    agent.write("two.toml", &format!("link = {two}"));

    let directory = agent.state();
    let inside = format!("/proc/{}/root{}", watch.0.id(), directory.display());
    fs::remove_file(Path::new(&inside).join("fill")).unwrap();
    wait_until("the second is made", || Snapshot::take().index_of("two").is_some());
    watch.terminate(Signal::TERM);
}

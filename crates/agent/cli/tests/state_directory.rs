//! State directories that another user of the host prepared, or could change.
#![allow(clippy::unwrap_used)]

#[allow(dead_code, reason = "shared with the tests of the walk")]
#[path = "../../../core/path/tests/attacks/stage.rs"]
mod stage;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use trueup_testkit::{Snapshot, assert_no_changes, fresh_netns};

use crate::stage::{Stage, set_mode};

const TRUEUP: &str = env!("CARGO_BIN_EXE_trueup");

/// The exit code and output of a run.
#[derive(Debug)]
struct Ran {
    code: Option<i32>,
    out: String,
    err: String,
}

impl Ran {
    fn of(command: &mut Command) -> Ran {
        let output = command.output().unwrap();
        Ran {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }

    #[track_caller]
    fn assert_refused(&self, words: &[&str]) {
        assert_eq!((self.code, self.out.as_str()), (Some(1), ""), "{self:?}");
        for word in words {
            assert!(self.err.contains(word), "no {word:?} in: {}", self.err);
        }
    }
}

/// Runs the program beside a file `f.toml` that declares the link `ours`.
fn run(stage: &Stage, words: &str, state: &Path) -> Ran {
    let declared = "link = [{ name = \"ours\", kind = \"ifb\" }]";
    fs::write(stage.ours().join("f.toml"), declared).unwrap();
    let mut command = Command::new(TRUEUP);
    command.args(words.split(' ')).arg("--state").arg(state);
    Ran::of(command.current_dir(stage.ours()))
}

fn directory(stage: &Stage, name: &str, mode: u32) -> PathBuf {
    let path = stage.ours().join(name);
    fs::create_dir(&path).unwrap();
    set_mode(&path, mode);
    path
}

#[test]
fn a_state_directory_that_another_user_can_change_is_refused() {
    let stage = Stage::new();
    if !stage.has_ours() {
        return;
    }
    fresh_netns();
    let his = directory(&stage, "his", 0o755);
    let above = directory(&stage, "above", 0o777);
    fs::create_dir(above.join("ours")).unwrap();
    let sticky = directory(&stage, "sticky", 0o1777);
    let link = sticky.join("link");
    symlink(directory(&stage, "target", 0o711), &link).unwrap();
    stage.give(&his);
    stage.give(&link);
    for state in [directory(&stage, "all", 0o777), sticky, his, above.join("ours"), link] {
        let shown = state.to_str().unwrap();
        let commands =
            ["plan f.toml", "apply f.toml", "watch f.toml", "why link ours", "journal check"];
        for words in commands {
            let ran = assert_no_changes(|| run(&stage, words, &state));
            ran.assert_refused(&["cannot use the state directory", shown]);
            let remedies = ["use another folder", "name the file or folder"];
            assert!(remedies.iter().any(|it| ran.err.contains(it)), "{ran:?}");
        }
        let ran = assert_no_changes(|| run(&stage, "doctor", &state));
        assert_eq!(ran.code, Some(2), "{ran:?}");
        for words in ["none that can be used", shown, "--state DIR"] {
            assert!(ran.out.contains(words), "{words}: {ran:?}");
        }
        assert!(!ran.out.contains("as the owner of"), "{ran:?}");
        let names = fs::read_dir(&state).unwrap();
        let journals = names.filter(|it| {
            let name = it.as_ref().unwrap().file_name();
            name.to_string_lossy().contains("netns")
        });
        assert_eq!(journals.count(), 0);
    }
    let ran = run(&stage, "doctor", &stage.ours().join("made"));
    let words = "which no other user can change";
    assert!(ran.out.contains(words), "{ran:?}");
}

/// The attack as it was reported: `ln -s /precious DIR/netns-COOKIE-116.journal.lock`, and `.new`.
#[test]
fn a_link_in_the_place_of_a_state_file_truncates_nothing() {
    let stage = Stage::new();
    if !stage.has_ours() {
        return;
    }
    fresh_netns();
    let precious = stage.ours().join("precious");
    fs::write(&precious, "precious").unwrap();
    let state = directory(&stage, "state", 0o711);
    let doctor = run(&stage, "doctor --format json", &state);
    let (_, rest) = doctor.out.split_once(state.to_str().unwrap()).unwrap();
    let (_, rest) = rest.split_once(state.to_str().unwrap()).unwrap();
    let (name, _) = rest.split_once('"').unwrap();
    assert!(name.ends_with("-116.journal"), "{name}");
    // The new file is made once the pass has something to record.
    for (extension, code) in [("lock", 1), ("new", 2)] {
        let link = PathBuf::from(format!("{}{name}.{extension}", state.display()));
        let _ = fs::remove_file(&link);
        symlink(&precious, &link).unwrap();
        let ran = run(&stage, "apply f.toml", &state);
        assert_eq!(ran.code, Some(code), "{ran:?}");
        let said = ran.out + &ran.err;
        for words in [link.to_str().unwrap(), "it is a symbolic link"] {
            assert!(said.contains(words), "{words}: {said}");
        }
        assert_eq!(Snapshot::take().index_of("ours"), None);
        assert_eq!(fs::read_to_string(&precious).unwrap(), "precious");
        fs::remove_file(&link).unwrap();
    }
    let ran = run(&stage, "apply f.toml", &state);
    assert_eq!(ran.code, Some(0), "{ran:?}");
}

/// The environment is as `su` leaves it.
#[test]
fn the_runtime_directory_of_another_user_is_ignored() {
    let stage = Stage::new();
    if !stage.has_ours() {
        return;
    }
    fresh_netns();
    let his = stage.home();
    set_mode(&his, 0o700);
    fs::write(stage.ours().join("f.toml"), "route = []").unwrap();
    let run = |words: &str| {
        let script = format!("mount -t tmpfs -o ro none /run && exec \"$0\" {words}");
        let mut shell = Command::new("unshare");
        shell.args(["--mount", "sh", "-c", &script, TRUEUP]);
        shell.env("XDG_RUNTIME_DIR", &his);
        Ran::of(shell.current_dir(stage.ours()))
    };
    let ignored = format!(
        "$XDG_RUNTIME_DIR is ignored: user {} owns {}, and trueup runs as user 0",
        stage.attacker,
        his.display()
    );
    let ran = assert_no_changes(|| run("apply f.toml"));
    ran.assert_refused(&["no state directory", &ignored, "--state DIR"]);
    let ran = run("doctor");
    assert_eq!(ran.code, Some(2), "{ran:?}");
    assert!(ran.err.contains(&ignored), "{ran:?}");
    assert_eq!(fs::read_dir(&his).unwrap().count(), 0);
}

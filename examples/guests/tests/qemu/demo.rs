//! Runs the demo of `cargo xtask demo --guests`.

use std::process::Command;

crate::tests![the_demo_shows_a_backup_that_outlives_its_agent];

fn the_demo_shows_a_backup_that_outlives_its_agent() {
    let demo = Command::new(env!("CARGO_BIN_EXE_guests-demo")).output().unwrap();
    let text = String::from_utf8_lossy(&demo.stdout);
    let said = String::from_utf8_lossy(&demo.stderr);
    assert!(demo.status.success(), "{text}\n{said}");
    let (before, after) = text.split_once("--- Another agent").unwrap();
    assert!(before.contains("job of the backup: "), "{text}");
    assert!(after.contains("backup root.nightly.backup: complete"), "{text}");
    assert!(after.contains("at most 7 requests"), "{text}");
    assert!(text.trim_end().ends_with("complete") && text.contains("db: stopped"), "{text}");
}

//! Inputs of the example with QEMU guests: its file, keys of objects, and ids of tasks.

use trueup_guests::file::File;
use trueup_guests::key::Key;
use trueup_guests::objects::desired;
use trueup_guests::task::TaskId;

/// If a file parses, its objects have valid keys; otherwise the error names the line.
pub fn guests(data: &[u8]) {
    let Ok(text) = str::from_utf8(data) else {
        return;
    };
    match File::parse(text) {
        Ok(file) => {
            for key in desired(&file).keys() {
                let read = Key::parse(key).expect("the agent made it");
                assert_eq!(read.to_string(), *key);
            }
        }
        Err(error) => assert!((1..=text.lines().count().max(1) + 1).contains(&error.line())),
    }
    if let Some(key) = Key::parse(text) {
        assert_eq!(key.to_string(), text);
        assert!(text.starts_with(key.guest()));
    }
    if let Some(id) = TaskId::parse(text) {
        assert_eq!(TaskId::parse(&id.to_string()), Some(id));
    }
}

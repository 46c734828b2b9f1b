//! The contract of a keyed backend, on files, and on backends that break a promise.

#![allow(clippy::unwrap_used, reason = "a test")]

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::{fs, io};

use trueup_contracts::keyed::{Fixture, Sample, backend_contract, check_backend};
use trueup_reconcile::ErrorClass;
use trueup_reconcile::keyed::{Backend, Change, Keys, Observation};

/// The files of a directory by name, with a promise to break.
#[derive(Clone)]
struct Files {
    folder: PathBuf,
    breaks: &'static str,
}

impl Backend for Files {
    type Scope = ();
    type Key = String;
    type Value = String;
    type Error = io::Error;

    const KIND: &'static str = "file";

    fn observe(
        &mut self,
        (): &(),
        keys: Keys<'_, String>,
    ) -> io::Result<Observation<String, String>> {
        let mut seen = Observation::from(BTreeMap::new());
        for name in keys.iter() {
            match fs::read_to_string(self.folder.join(name)) {
                Ok(text) if self.breaks == "single" && !keys.is_everything() => {
                    seen.values.insert(name.clone(), format!("{text}!"));
                }
                Ok(text) => drop(seen.values.insert(name.clone(), text)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => seen = seen.with_unread(name.clone(), error.to_string()),
            }
        }
        Ok(seen)
    }

    fn apply(&mut self, (): &(), change: &Change<String, String>) -> io::Result<()> {
        let path = self.folder.join(change.key());
        match change {
            Change::Create { to, .. } if self.breaks == "form" => {
                fs::write(path, to.to_uppercase())
            }
            Change::Create { to, .. } if self.breaks == "create" => fs::write(path, to),
            Change::Create { to, .. }
                if self.breaks == "adopt"
                    && fs::read_to_string(&path).is_ok_and(|it| it == *to) =>
            {
                Ok(())
            }
            Change::Create { .. } if self.breaks == "class" && path.exists() => {
                Err(io::Error::other("it did not work"))
            }
            Change::Create { to, .. } => {
                let new = self.folder.join("new");
                fs::write(&new, to)?;
                let made = fs::hard_link(&new, path);
                fs::remove_file(new).and(made)
            }
            Change::Update { .. } if self.breaks == "update" => Ok(()),
            Change::Update { to, .. } if path.exists() => fs::write(path, to),
            Change::Delete { .. } if self.breaks == "bystander" => {
                fs::remove_file(self.folder.join("bystander")).or(Ok(()))
            }
            _ => fs::remove_file(path),
        }
    }

    fn classify(error: &io::Error) -> ErrorClass {
        error.kind().into()
    }
}

struct Folder(Files);

impl Folder {
    fn new(breaks: &'static str) -> Folder {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("trueup-contracts-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        let _left = fs::remove_dir_all(&folder);
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("bystander"), "another writer's").unwrap();
        Folder(Files { folder, breaks })
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _left = fs::remove_dir_all(&self.0.folder);
    }
}

impl Fixture for Folder {
    type Backend = Files;

    fn backend(&self) -> Files {
        self.0.clone()
    }

    fn scope(&self) -> &() {
        &()
    }

    fn samples(&self) -> Vec<Sample<Files>> {
        let sample = |name: &str| (name.to_owned(), format!("{name} one"), format!("{name} two"));
        ["a", "b", "c"].map(sample).into()
    }

    fn write(&self, key: &String, value: Option<&String>) -> bool {
        let path = self.0.folder.join(key);
        match value {
            Some(value) => fs::write(path, value).unwrap(),
            None => drop(fs::remove_file(path)),
        }
        true
    }

    fn bystanders(&self) -> String {
        fs::read_to_string(self.0.folder.join("bystander")).unwrap_or_default()
    }
}

#[test]
fn files_keep_the_contract() {
    check_backend(|| Folder::new(""));
}

#[test]
fn a_broken_promise_is_found() {
    for (breaks, named) in [
        ("single", "single_keys_read_as_in_a_full_read"),
        ("form", "a_value_reads_back_and_is_not_written_again"),
        ("update", "a_changed_value_is_replaced_in_place"),
        ("create", "a_create_takes_no_other_writers_object"),
        ("create", "an_object_that_another_writer_makes_first_stays_foreign"),
        ("adopt", "a_create_takes_no_other_writers_object"),
        ("adopt", "an_object_that_another_writer_makes_first_stays_foreign"),
        ("class", "a_create_takes_no_other_writers_object"),
        ("class", "an_object_that_another_writer_makes_first_stays_foreign"),
        ("bystander", "a_value_reads_back_and_is_not_written_again"),
    ] {
        let found: Vec<_> = backend_contract::<Folder>()
            .into_iter()
            .filter(|(_, test)| {
                catch_unwind(AssertUnwindSafe(|| test(&Folder::new(breaks)))).is_err()
            })
            .map(|(name, _)| name)
            .collect();
        assert!(found.contains(&named), "{breaks}: {found:?}");
    }
}

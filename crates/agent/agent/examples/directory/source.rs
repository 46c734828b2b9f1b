//! Files with their content, as a section from a keyed backend. It overwrites other writers'
//! changes of files that it made, and removes and overwrites no other file.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::os::fd::AsRawFd as _;
use std::path::Path;
use std::{fs, io};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, linkat, open};
use trueup_agent::{KeyedSection, Namespace, keyed_section};
use trueup_reconcile::ErrorClass;
use trueup_reconcile::keyed::{Backend, Change, Keys, Observation, Ownership};

/// The content of each file, by path.
pub(crate) struct Directory;

impl Backend for Directory {
    type Scope = Namespace;
    type Key = String;
    type Value = String;
    type Error = io::Error;

    const KIND: &'static str = "directory";
    const OWNERSHIP: Ownership = Ownership::Key;

    fn observe(
        &mut self,
        _: &Namespace,
        keys: Keys<'_, String>,
    ) -> io::Result<Observation<String, String>> {
        let mut seen = Observation::from(BTreeMap::new());
        for path in keys.iter() {
            match fs::read(path) {
                Ok(content) => {
                    let content = String::from_utf8_lossy(&content).into_owned();
                    seen.values.insert(path.clone(), content);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => seen = seen.with_unread(path.clone(), error.to_string()),
            }
        }
        Ok(seen)
    }

    fn apply(&mut self, _: &Namespace, change: &Change<String, String>) -> io::Result<()> {
        match change {
            Change::Create { key, to } => create(key, to),
            Change::Update { key, to, .. } => fs::write(key, to),
            Change::Delete { key, .. } => fs::remove_file(key),
        }
    }

    fn classify(error: &io::Error) -> ErrorClass {
        error.kind().into()
    }
}

/// Makes a file with its whole content in one step, which fails if there is one by now.
fn create(path: &str, content: &str) -> io::Result<()> {
    let folder = Path::new(path).parent().unwrap_or(Path::new("/"));
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let mut file = fs::File::from(open(folder, flags, Mode::from_raw_mode(0o644))?);
    file.write_all(content.as_bytes())?;
    let made = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(linkat(CWD, made, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

/// The section `[[directory]]`: each has a `path` and a `content`.
pub(crate) fn section() -> KeyedSection<Directory> {
    let section = keyed_section(
        || Directory,
        |Element { path, content }: Element| match Path::new(&path).is_absolute() {
            true => Ok((path, content)),
            false => Err("write an absolute `path`".to_owned()),
        },
    );
    section.outliving_boots()
}

#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Element {
    path: String,
    content: String,
}

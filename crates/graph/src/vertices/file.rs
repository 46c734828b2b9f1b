//! A vertex that keeps a file.

mod write;

use std::fs;
use std::io::Read as _;
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, fchmod};
use trueup_reconcile::{ErrorClass, Hints};

use self::write::{set_owner, sync};
use super::created::Created;
use super::watch_file;
use crate::{Failure, Records, RunContext, Verdict, Vertex, Watch};

/// The largest file that is read.
const MAX_LEN: u64 = 64 * 1024 * 1024;

/// A vertex that keeps the content, the mode and the owner of a regular file.
///
/// - Content is replaced at once: it is written to `.NAME.trueup-new` beside the file, synced, and
///   renamed. Readers see the old file or the new one, also after a loss of power. Other hard links
///   to the file keep the old content.
/// - A symbolic link, a directory or a device in the file's place is a conflict, and stays. Links
///   among its parents are followed.
/// - It is watched, and its source is: another writer's change is undone.
/// - If it leaves the graph, the file is removed if the vertex created it, in this process or an
///   earlier one, and it still has the content that was written. Anything else stays. A vertex of
///   another path does not take over what was created: the old file is removed first.
#[derive(Clone, Debug)]
pub struct File {
    path: PathBuf,
    content: Content,
    mode: Option<u32>,
    user: Option<u32>,
    group: Option<u32>,
    created: Created,
}

#[derive(Clone, Debug)]
enum Content {
    Bytes(Vec<u8>),
    Source(PathBuf),
}

impl File {
    /// Makes a vertex of a file with this content. A file that is created has the mode 0644 and our
    /// owner; one that exists keeps its own.
    pub fn new(path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) -> Self {
        File {
            path: path.into(),
            content: Content::Bytes(content.into()),
            mode: None,
            user: None,
            group: None,
            created: Created::default(),
        }
    }

    /// Makes a vertex of a file with the content of another file, which is read at each run.
    pub fn from_source(path: impl Into<PathBuf>, source: impl Into<PathBuf>) -> Self {
        File {
            content: Content::Source(source.into()),
            ..File::new(path, Vec::new())
        }
    }

    /// Makes a vertex to reverse: of what [`Vertex::record`] has returned, for
    /// [`Driver::start_with_restore`](crate::Driver::start_with_restore).
    ///
    /// # Errors
    ///
    /// The record is not one of a file.
    pub fn from_record(record: &[u8]) -> Result<Self, Failure> {
        let (path, created) = Created::from_record(record).ok_or_else(|| {
            let message = "the record is not one of a file; restore it by another vertex";
            Failure::new(ErrorClass::Invalid, message)
        })?;
        Ok(File {
            created,
            ..File::new(path, Vec::new())
        })
    }

    /// Sets the mode: the lowest 12 bits count.
    #[must_use]
    pub fn with_mode(self, mode: u32) -> Self {
        File {
            mode: Some(mode & 0o7777),
            ..self
        }
    }

    /// Sets the user and the group by number; `None` leaves one open.
    #[must_use]
    pub fn with_owner(self, user: Option<u32>, group: Option<u32>) -> Self {
        File {
            user,
            group,
            ..self
        }
    }

    fn content(&self) -> Result<Vec<u8>, Failure> {
        match &self.content {
            Content::Bytes(bytes) => Ok(bytes.clone()),
            Content::Source(source) => {
                let file =
                    fs::File::open(source).map_err(|error| failed(source, "read", &error))?;
                read(source, &file)
            }
        }
    }

    /// Opens the file, if there is one, without waiting for a FIFO or a device.
    fn open(&self) -> Result<Option<(fs::File, fs::Metadata)>, Failure> {
        let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC).bits();
        let found = match fs::symlink_metadata(&self.path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
            found => found.map_err(|error| failed(&self.path, "read", &error))?,
        };
        if !found.is_file() {
            let what = match found.is_symlink() {
                true => "a symbolic link",
                false => "no regular file",
            };
            let path = self.path.display();
            let message = format!("{path}: it is {what}; remove it, or declare another path");
            return Err(Failure::new(ErrorClass::Conflict, message));
        }
        let file = fs::OpenOptions::new()
            .read(true)
            .custom_flags(flags as i32)
            .open(&self.path);
        let opened = file.and_then(|file| file.metadata().map(|metadata| (file, metadata)));
        opened
            .map(Some)
            .map_err(|error| failed(&self.path, "read", &error))
    }

    fn is_as_created(&self) -> Result<bool, Failure> {
        match self.open() {
            Ok(Some((file, found))) if found.len() <= MAX_LEN => {
                Ok(self.created.is_unchanged(&read(&self.path, &file)?))
            }
            Ok(_) => Ok(false),
            // It is something else by now.
            Err(failure) if failure.class() == ErrorClass::Conflict => Ok(false),
            Err(failure) => Err(failure),
        }
    }

    fn has_owner(&self, found: &fs::Metadata) -> bool {
        self.user.is_none_or(|it| it == found.uid())
            && self.group.is_none_or(|it| it == found.gid())
    }

    fn has_mode(&self, found: &fs::Metadata) -> bool {
        self.mode.is_none_or(|it| it == found.mode() & 0o7777)
    }
}

impl Vertex for File {
    fn check_apply(&mut self, _: &RunContext, apply: bool) -> Result<Verdict, Failure> {
        let content = self.content()?;
        let found = self.open()?;
        let is_equal = match &found {
            Some((file, metadata)) if metadata.len() == content.len() as u64 => {
                read(&self.path, file)? == content
            }
            _ => false,
        };
        if !is_equal && !self.created.plan(found.is_some(), &content) && apply {
            // It is to be created after all, which is not recorded.
            return Ok(Verdict::WouldChange);
        }
        match &found {
            Some((_, found)) if is_equal && self.has_owner(found) && self.has_mode(found) => {
                self.created.finish(&content);
                return Ok(Verdict::InPlace);
            }
            _ if !apply => return Ok(Verdict::WouldChange),
            Some((file, found)) if is_equal => {
                // The owner first: changing it clears bits of the mode.
                let mode = Mode::from_raw_mode(self.mode.unwrap_or(found.mode() & 0o7777));
                set_owner(file, found, self.user, self.group)
                    .and_then(|()| Ok(fchmod(file, mode)?))
                    .map_err(|error| failed(&self.path, "set mode and owner", &error))?;
            }
            _ => {
                self.created.begin();
                self.write(&content, found.as_ref().map(|it| &it.1))?;
            }
        }
        self.created.finish(&content);
        match self.open()? {
            Some((_, found)) if self.has_owner(&found) && self.has_mode(&found) => {
                Ok(Verdict::Changed)
            }
            _ => {
                let message = format!(
                    "{}: its mode or owner reads back differently; does its file system keep them?",
                    self.path.display()
                );
                Err(Failure::new(ErrorClass::StoredOtherwise, message))
            }
        }
    }

    fn watch(&mut self, _: Hints) -> Result<Watch, Failure> {
        match &self.content {
            Content::Bytes(_) => watch_file::watch(&[&self.path]),
            Content::Source(source) => watch_file::watch(&[&self.path, source]),
        }
    }

    fn records(&self) -> Records {
        Records::Varying
    }

    fn record(&self) -> Option<Vec<u8>> {
        self.created.to_record(&self.path)
    }

    fn adopt(&mut self, record: &[u8]) -> bool {
        match Created::from_record(record) {
            Some((path, created)) if path == self.path => {
                self.created = created;
                true
            }
            _ => false,
        }
    }

    fn reverse(&mut self, _: &RunContext) -> Result<Verdict, Failure> {
        if self.created.is_empty() {
            return Ok(Verdict::InPlace);
        }
        match self.is_as_created()? {
            true => {
                let removed = fs::remove_file(&self.path).and_then(|()| sync(self.folder()));
                removed.map_err(|it| failed(&self.path, "remove", &it))?;
                Ok(Verdict::Changed)
            }
            // Another writer has changed or removed it.
            false => Ok(Verdict::InPlace),
        }
    }
}

fn read(path: &Path, file: &fs::File) -> Result<Vec<u8>, Failure> {
    let mut content = Vec::new();
    let result = file.take(MAX_LEN + 1).read_to_end(&mut content);
    result.map_err(|error| failed(path, "read", &error))?;
    match content.len() as u64 > MAX_LEN {
        true => {
            let message = format!("{}: it is larger than {MAX_LEN} bytes", path.display());
            Err(Failure::new(ErrorClass::Invalid, message))
        }
        false => Ok(content),
    }
}

pub(super) fn failed(path: &Path, what: &str, error: &std::io::Error) -> Failure {
    let (class, remedy) = match error.kind() {
        std::io::ErrorKind::NotFound => (ErrorClass::Dependency, "create it or its folder"),
        std::io::ErrorKind::PermissionDenied => (ErrorClass::Permission, "run as another user"),
        _ => (ErrorClass::Busy, "it is tried again"),
    };
    let message = format!("{}: cannot {what}: {error}; {remedy}", path.display());
    Failure::new(class, message)
}

//! A vertex that keeps a file.

mod created;
mod place;
mod watch;
mod write;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::Waker;

use trueup_path::{Error, ErrorKind, Place, TrustedUsers, read};
use trueup_reconcile::{ErrorClass, Hints};

use self::created::Created;
pub use self::place::Places;
use self::place::{Claim, failed, failure};
use self::watch::FileWatch;
use self::write::Whose;
use crate::{Failure, Records, RunContext, Verdict, Vertex};

/// The largest file that is read.
const MAX_LEN: u64 = 64 * 1024 * 1024;

/// A vertex that keeps the content, the mode and the owner of a regular file.
///
/// - Content is replaced at once: it is written to `.NAME.HASH.trueup-new` beside the file, synced, and
///   exchanged with the file. Readers see the old file or the new one, also after a loss of power.
///   Other hard links to the file keep the old content. The new file has the extended attributes of
///   the old one, and so its access control list, unless another user can have set them.
/// - A symbolic link, a directory or a device in the file's place is a conflict, and stays.
/// - A link among its parents is followed if root or we own it, in a folder where nobody else can
///   have put it. The path may lead into a folder of another user, and never out of it again. Any other
///   path is a conflict: nothing is read, written or removed there. See [`trueup_path`].
/// - A folder that others can write may have a file that one of them has made. If neither root, we
///   nor the declared owner own it, it is replaced by one with our owner and group and the mode
///   0644, where these are not declared. Of any other file there the owner and group stay as they
///   are, and the mode but for the permission of others to write.
/// - Owner and mode are changed in place only if nobody else can have the file open to write, nor
///   under another name. Otherwise the file is replaced.
/// - It is watched, and its source is: another writer's change is undone. Where the folder comes later,
///   or is replaced further up, and for writes by another name, give the vertex a
///   [poll](crate::VertexSpec::with_poll): the kernel does not announce these.
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
    users: Option<TrustedUsers>,
    /// The places of this vertex and others, and the one that it has.
    places: Option<(Places, Option<Arc<Claim>>)>,
    watch: FileWatch,
}

#[derive(Clone, Debug)]
enum Content {
    Bytes(Vec<u8>),
    Source(PathBuf),
}

impl File {
    /// Makes a vertex of a file with this content. A file that is created has the mode 0644 and our
    /// owner. One that exists keeps its own, unless another user can have put it there.
    pub fn new(path: impl Into<PathBuf>, content: impl Into<Vec<u8>>) -> Self {
        File {
            path: path.into(),
            content: Content::Bytes(content.into()),
            mode: None,
            user: None,
            group: None,
            created: Created::default(),
            users: None,
            places: None,
            watch: FileWatch::default(),
        }
    }

    /// Makes a vertex of a file with the content of another file, which is read at each run: a
    /// regular file of at most 64 MiB. In a folder of another user it must be that user's own, and
    /// in one such as `/tmp` ours or root's.
    pub fn from_source(path: impl Into<PathBuf>, source: impl Into<PathBuf>) -> Self {
        File { content: Content::Source(source.into()), ..File::new(path, Vec::new()) }
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
        Ok(File { created, ..File::new(path, Vec::new()) })
    }

    /// Sets the mode: the lowest 12 bits count.
    #[must_use]
    pub fn with_mode(self, mode: u32) -> Self {
        File { mode: Some(mode & 0o7777), ..self }
    }

    /// Sets the user and the group by number; `None` leaves one open.
    #[must_use]
    pub fn with_owner(self, user: Option<u32>, group: Option<u32>) -> Self {
        File { user, group, ..self }
    }

    /// Sets the users who are trusted with the folders and links on the paths. Unless set, these
    /// are root and the user that the process runs as.
    #[must_use]
    pub fn with_users(self, users: TrustedUsers) -> Self {
        File { users: Some(users), ..self }
    }

    /// Has the vertex fail where its path leads to the file of another one with the same `places`.
    /// Else each would replace what the other has written.
    #[must_use]
    pub fn with_places(self, places: &Places) -> Self {
        File { places: Some((places.clone(), None)), ..self }
    }

    fn users(&self) -> Result<TrustedUsers, Failure> {
        let users = self.users.clone().map_or_else(TrustedUsers::current, Ok);
        users.map_err(failure)
    }

    /// Returns the paths of the files that it depends on.
    fn watched(&self) -> Vec<&Path> {
        let own = std::iter::once(self.path.as_path());
        match &self.content {
            Content::Bytes(_) => own.collect(),
            Content::Source(source) => own.chain([source.as_path()]).collect(),
        }
    }

    fn content(&self, users: &TrustedUsers) -> Result<Vec<u8>, Failure> {
        match &self.content {
            Content::Bytes(bytes) => Ok(bytes.clone()),
            Content::Source(source) => users.read_of_one_owner(source, MAX_LEN).map_err(failure),
        }
    }

    /// Returns the folder of the file and its name in it, unless something else than a folder is on
    /// the way.
    fn place_to_remove(&self) -> Result<Option<Place>, Failure> {
        match self.users()?.place(&self.path) {
            Err(error) if error.is_not_found() || error.kind() == ErrorKind::NotRegular => Ok(None),
            place => place.map(Some).map_err(failure),
        }
    }

    fn is_as_created(&self, file: &fs::File) -> Result<bool, Error> {
        match read(&self.path, file, MAX_LEN) {
            Err(error) if error.kind() == ErrorKind::TooLarge => Ok(false),
            content => Ok(self.created.is_unchanged(&content?)),
        }
    }
}

impl Vertex for File {
    fn check_apply(&mut self, context: &RunContext, apply: bool) -> Result<Verdict, Failure> {
        let users = self.users()?;
        // Before anything is read, so that no change after it is missed.
        let mut watch = std::mem::take(&mut self.watch);
        let moved = watch.move_to(&users, &self.watched());
        self.watch = watch;
        if let Err(error) = moved {
            context.warn(format_args!(
                "{}: changes are not announced, as its folder cannot be watched: {error}; raise \
                 fs.inotify.max_user_watches or fs.inotify.max_user_instances",
                self.path.display()
            ));
        }
        let content = self.content(&users)?;
        // Held from here on: whatever is renamed on the way to it, it stays the same folder.
        let place = users.place(&self.path).map_err(failure)?;
        if let Some((places, own)) = &mut self.places {
            places.claim(&place, &self.path, own)?;
        }
        let found = open(&place)?;
        let is_equal = match &found {
            Some((file, metadata)) if metadata.len() == content.len() as u64 => {
                read(place.path(), file, MAX_LEN).map_err(failure)? == content
            }
            _ => false,
        };
        if !is_equal && !self.created.plan(found.is_some(), &content) && apply {
            // It is to be created after all, which is not recorded.
            return Ok(Verdict::WouldChange);
        }
        let whose = Whose { users: &users, folder: place.folder().control() };
        let attributes = self.attributes(&whose, found.as_ref().map(|(_, metadata)| metadata));
        match &found {
            Some((_, found)) if is_equal && attributes.are_of(found) => {
                self.created.finish(&content);
                return Ok(Verdict::InPlace);
            }
            _ if !apply => return Ok(Verdict::WouldChange),
            Some((file, found)) if is_equal && whose.may_change(found) => {
                write::set(&place, file, attributes)?;
            }
            _ => {
                if !is_equal {
                    self.created.begin();
                }
                let old = found.as_ref().map(|(file, _)| file);
                write::replace(&place, &content, attributes, old)?;
            }
        }
        self.created.finish(&content);
        Ok(Verdict::Changed)
    }

    fn watch(&mut self, hints: Hints, _: Waker) -> Result<bool, Failure> {
        self.watch.begin(hints);
        Ok(false)
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
        let Some(place) = self.place_to_remove()? else {
            return Ok(Verdict::InPlace);
        };
        match place.remove(|file| self.is_as_created(file)) {
            Ok(true) => Ok(Verdict::Changed),
            // Another writer has changed or removed it.
            Ok(false) => Ok(Verdict::InPlace),
            Err(error) if error.kind() == ErrorKind::NotRegular => Ok(Verdict::InPlace),
            Err(error) => Err(failure(error)),
        }
    }
}

fn open(place: &Place) -> Result<Option<(fs::File, fs::Metadata)>, Failure> {
    let Some(file) = place.open().map_err(failure)? else {
        return Ok(None);
    };
    let metadata = file.metadata().map_err(|error| failed(place.path(), "read", &error))?;
    Ok(Some((file, metadata)))
}

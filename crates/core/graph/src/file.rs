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

/// The largest file to read, in bytes.
const MAX_LEN: u64 = 64 * 1024 * 1024;

/// A vertex that keeps a regular file's content, mode and owner.
///
/// - New content replaces the file in one step: it is written to `.NAME.HASH.trueup-new` beside the
///   file, synced, and exchanged with the file. Readers see the old file or the new one, even after
///   a power failure. Other hard links to the file keep the old content. The new file takes the old
///   one's extended attributes, including its access control list, unless another user could have
///   set them.
/// - A symbolic link, a directory or a device in the file's place is a conflict, and stays.
/// - A link among its parents is followed if root or we own it, in a folder where no other user
///   could have put it. The path may lead into another user's folder, but not out of it again. Any
///   other path is a conflict: nothing is read, written or removed there. See [`trueup_path`].
/// - In a folder that others can write, one of them may have created the file. If neither root, we
///   nor the declared owner own it, it is replaced by a file with our owner and group and the mode
///   0644, except as declared. Any other file there keeps its owner and group, and its mode except
///   for other users' write permission.
/// - Owner and mode are changed in place only if no other user can have the file open for writing
///   or under another name. Otherwise the file is replaced.
/// - The file and its source are watched: another writer's change is undone. The kernel does not
///   announce a folder's later appearance, the replacement of a folder further up, or a write by
///   another name. If these can happen, give the vertex a [poll](crate::VertexSpec::with_poll).
/// - If the vertex leaves the graph, it removes the file if it created it, in this process or an
///   earlier one, and the file still has the written content. Any other file stays. A vertex with
///   another path does not adopt the file: the old file is removed first.
///
/// ```
/// use trueup_graph::File;
///
/// let file = File::new("/etc/resolv.conf", "nameserver 10.0.0.53\n")
///     .with_mode(0o644)
///     .with_owner(Some(0), None); // the group stays as it is
/// # let _ = file;
/// ```
#[derive(Clone, Debug)]
pub struct File {
    path: PathBuf,
    content: Content,
    mode: Option<u32>,
    user: Option<u32>,
    group: Option<u32>,
    created: Created,
    users: Option<TrustedUsers>,
    /// The claims of all vertices, and this vertex's claim.
    places: Option<(Places, Option<Arc<Claim>>)>,
    watch: FileWatch,
}

#[derive(Clone, Debug)]
enum Content {
    Bytes(Vec<u8>),
    Source(PathBuf),
}

impl File {
    /// Creates a vertex for a file with this content. A new file gets the mode 0644 and our owner.
    /// An existing one keeps its own, unless another user could have put it there.
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

    /// Creates a vertex for a copy of another file, which is read at each run: a regular file of at
    /// most 64 MiB. In another user's folder, that user must own it; in a folder such as `/tmp`, we
    /// or root must.
    pub fn from_source(path: impl Into<PathBuf>, source: impl Into<PathBuf>) -> Self {
        File { content: Content::Source(source.into()), ..File::new(path, Vec::new()) }
    }

    /// Creates a vertex to reverse, from the bytes of [`Vertex::record`], for
    /// [`Driver::start_with_restore`](crate::Driver::start_with_restore).
    ///
    /// # Errors
    ///
    /// The record has another form than a file's.
    pub fn from_record(record: &[u8]) -> Result<Self, Failure> {
        let (path, created) = Created::from_record(record).ok_or_else(|| {
            let message = "the record is not one of a file; restore it by another vertex";
            Failure::new(ErrorClass::Invalid, message)
        })?;
        Ok(File { created, ..File::new(path, Vec::new()) })
    }

    /// Sets the mode; only the lowest 12 bits count.
    #[must_use]
    pub fn with_mode(self, mode: u32) -> Self {
        File { mode: Some(mode & 0o7777), ..self }
    }

    /// Sets the user and the group by number; `None` leaves that one as it is.
    #[must_use]
    pub fn with_owner(self, user: Option<u32>, group: Option<u32>) -> Self {
        File { user, group, ..self }
    }

    /// Sets the users who are trusted with the folders and links on the paths; by default root and
    /// the process's user.
    #[must_use]
    pub fn with_users(self, users: TrustedUsers) -> Self {
        File { users: Some(users), ..self }
    }

    /// Makes the vertex fail if its path leads to the same file as another vertex with these
    /// `places`. Without this, each would replace the other's content.
    #[must_use]
    pub fn with_places(self, places: &Places) -> Self {
        File { places: Some((places.clone(), None)), ..self }
    }

    fn users(&self) -> Result<TrustedUsers, Failure> {
        let users = self.users.clone().map_or_else(TrustedUsers::current, Ok);
        users.map_err(failure)
    }

    /// Returns the paths of the files that the vertex depends on.
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

    /// Returns the file's folder and its name there; `None` if something other than a folder is on
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
        // Begin before anything is read, so that no later change is missed.
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
        // From here on the folder is held open: it stays the same folder whatever is renamed on the
        // way.
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
            // The file is missing after all, and its creation is not recorded.
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

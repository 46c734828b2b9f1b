//! Directories for journals: their places, checks for their use, and how they are made.
//!
//! The journals in such a directory decide what trueup owns and deletes. So no other user may
//! change its content, or put another directory in its place.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use crate::error::{Context as _, Result};
use rustix::fs::{Access, access};
use rustix::process::geteuid;
use trueup_path::{self as path, ErrorKind, Folder, TrustedUsers};

const RUNTIME: &str = "XDG_RUNTIME_DIR";

/// Returns the directories that may have journals: the given one, or the default ones.
pub fn directories(given: Option<&Path>) -> Vec<PathBuf> {
    if let Some(given) = given {
        return vec![given.to_owned()];
    }
    let runtime = runtime_directory().ok().flatten();
    [PathBuf::from("/run")].into_iter().chain(runtime).map(|base| base.join("trueup")).collect()
}

/// Returns why the runtime directory of the environment is ignored, or `None` if it is used.
pub(crate) fn ignored_runtime_directory() -> Option<String> {
    runtime_directory().err()
}

fn runtime_directory() -> Result<Option<PathBuf>, String> {
    match std::env::var_os(RUNTIME).filter(|dir| !dir.is_empty()) {
        Some(directory) => owned_by(directory.into(), geteuid().as_raw()).map(Some),
        None => Ok(None),
    }
}

/// Returns the runtime directory if it belongs to the effective user. If not, returns why it is
/// ignored: `su` and `sudo -E` keep the calling user's directory.
fn owned_by(directory: PathBuf, us: u32) -> Result<PathBuf, String> {
    let shown = directory.display();
    if directory.is_relative() {
        return Err(format!("${RUNTIME} is ignored: {shown} is no absolute path"));
    }
    match fs::metadata(&directory) {
        Ok(found) if found.uid() == us => Ok(directory),
        Ok(found) => Err(format!(
            "${RUNTIME} is ignored: user {} owns {shown}, and trueup runs as user {us}",
            found.uid()
        )),
        Err(error) => Err(format!("${RUNTIME} is ignored: {shown}: {error}")),
    }
}

/// Opens a state directory. Returns `None` if there is none.
///
/// # Errors
///
/// Fails if another user can change its content or lead us to another directory, or if it is
/// unknown whether it exists.
pub fn existing(directory: &Path) -> Result<Option<Folder>> {
    let found = TrustedUsers::current().and_then(|users| users.folder(directory)?.ours());
    match found {
        Err(error) if error.is_not_found() || error.kind() == ErrorKind::NotRegular => Ok(None),
        Err(error) if !error.is_refused() => Err(error).with_context(|| {
            let shown = directory.display();
            format!(
                "cannot know what trueup made, as that may be in {shown}; run it as the owner of \
                 {shown}, or name another directory with --state DIR"
            )
        }),
        found => found.map(Some).with_context(|| cannot_use(directory)),
    }
}

/// Opens a state directory, and creates it if it is missing. Every user may search it, to learn
/// that a namespace has no journal: `StateFile::is_in_use`. Only its owner can read the journal
/// itself.
///
/// # Errors
///
/// Fails like [`existing`], and if it cannot be created.
pub(crate) fn make(directory: &Path) -> Result<Folder> {
    TrustedUsers::current()
        .and_then(|users| users.make_folder(directory, 0o711)?.ours())
        .with_context(|| cannot_use(directory))
}

fn cannot_use(directory: &Path) -> String {
    format!("cannot use the state directory {}", directory.display())
}

/// Returns true if the error says that another user could change the state.
pub(crate) fn is_unsafe(error: &crate::error::Error) -> bool {
    error.find().is_some_and(path::Error::is_refused)
}

/// Returns true if journals can be written there, or if the missing directory can be made.
pub(crate) fn is_usable(directory: &Path) -> bool {
    let all = Access::READ_OK | Access::WRITE_OK | Access::EXEC_OK;
    match access(directory, Access::EXISTS) {
        Ok(()) => directory.is_dir() && access(directory, all).is_ok(),
        Err(_) => directory
            .parent()
            .is_some_and(|parent| access(parent, Access::WRITE_OK | Access::EXEC_OK).is_ok()),
    }
}

/// Returns the message for the case that no default directory can be written.
pub(crate) fn no_state_directory() -> String {
    let ignored = ignored_runtime_directory().map_or_else(String::new, |why| format!("; {why}"));
    format!(
        "no state directory: neither /run/trueup nor ${RUNTIME}/trueup can be written{ignored}; \
         name a directory with --state DIR"
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt as _, symlink};

    use trueup_testkit::Scratch;

    use super::super::{Agent, NamespaceKey, StateFile};
    use super::*;
    use crate::testing::set_mode;

    const OTHER: u32 = 4_242;

    fn directory(folder: &Path, name: &str, mode: u32) -> PathBuf {
        let path = folder.join(name);
        fs::create_dir(&path).unwrap();
        set_mode(&path, mode);
        path
    }

    fn find(directory: &Path) -> Result<Option<StateFile>> {
        let (marker, domain) = (116, None);
        let key = NamespaceKey { cookie: 7, name: None };
        StateFile::find(Some(directory), &key, &Agent { marker, domain })
    }

    /// The error's text for a reader, and for a writer.
    fn refusals(directory: &Path) -> [String; 2] {
        let errors =
            [find(directory).map(drop).unwrap_err(), make(directory).map(drop).unwrap_err()];
        errors.map(|error| {
            assert!(is_unsafe(&error), "{error:#}");
            format!("{error:#}")
        })
    }

    #[test]
    fn a_directory_that_others_can_change_is_refused_with_the_remedy() {
        let own = Scratch::make("state-open").unwrap();
        let mut directories = vec![
            directory(&own, "all", 0o777),
            directory(&own, "sticky", 0o1777),
            directory(&own, "write-only", 0o712),
        ];
        let (his, above) = (directory(&own, "his", 0o755), directory(&own, "above", 0o777));
        fs::create_dir(above.join("ours")).unwrap();
        directories.push(above.join("ours"));
        if std::os::unix::fs::chown(&his, Some(OTHER), None).is_ok() {
            directories.extend([his.join("made"), his]);
        }
        for directory in directories {
            // A missing directory in another user's folder is refused when it is about to be made.
            let found = if directory.exists() {
                refusals(&directory).to_vec()
            } else {
                vec![format!("{:#}", make(&directory).unwrap_err())]
            };
            for text in found {
                let shown = directory.display().to_string();
                assert!(text.contains(&shown), "{text}");
                let remedies = ["use another folder", "it is not made, as user 4242"];
                assert!(remedies.iter().any(|it| text.contains(it)), "{text}");
            }
            let names = fs::read_dir(directory).into_iter().flatten();
            assert_eq!(names.count(), 0);
        }
    }

    #[test]
    fn a_directory_is_made_and_links_of_ours_are_followed() {
        let own = Scratch::make("state-made").unwrap();
        let made = own.join("one/two");
        assert!(existing(&made).unwrap().is_none());
        assert!(find(&made).unwrap().is_some());
        make(&made).unwrap();
        for directory in [&made, &own.join("one")] {
            let mode = fs::metadata(directory).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o711);
        }
        let link = own.join("link");
        symlink("one/two", &link).unwrap();
        assert_eq!(existing(&link).unwrap().unwrap().path(), made);
    }

    #[test]
    fn only_the_runtime_directory_of_the_effective_user_counts() {
        let own = Scratch::make("state-runtime").unwrap();
        let us = geteuid().as_raw();
        assert_eq!(owned_by(own.to_path_buf(), us), Ok(own.to_path_buf()));
        // As `su` leaves it.
        let ignored = owned_by(own.to_path_buf(), us + 1).unwrap_err();
        let words = format!("user {us} owns {}", own.display());
        assert!(ignored.contains(&words), "{ignored}");
        for elsewhere in ["relative", "/nowhere"] {
            owned_by(elsewhere.into(), us).unwrap_err();
        }
    }
}

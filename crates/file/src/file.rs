//! A file as a whole: read, checked, and turned into what it declares.

use std::fs;
use std::io::{self, Read as _};
use std::path::Path;

use trueup_diff::Desired;
use trueup_sysctl as sysctl;

use crate::collect::Collector;
use crate::error::{Diagnostic, Error, ErrorKind};
use crate::graph::{self, Exec, ManagedFile};
use crate::location::{Cursor, Locations};
use crate::settings::Settings;
use crate::tables::TableNames;
use crate::value::Fault;
use crate::world::{Collect, Export};
use crate::{json, toml};

/// The largest file that is read, in bytes: some ten million routes.
const MAX_BYTES: u64 = 1 << 30;

/// A desired-state file: what it declares, and where.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct File {
    /// The settings, which hold for all of it.
    pub settings: Settings,
    /// The objects in the order of the file, routes in the order of their keys. They do not bear
    /// the marker yet.
    pub desired: Desired,
    /// The sysctls; `None` if they are unmanaged.
    pub sysctl: Option<sysctl::Desired>,
    /// What this host exports to others; `None` if its exports are unmanaged.
    pub exports: Option<Vec<Export>>,
    /// What this host takes from others.
    pub collects: Option<Vec<Collect>>,
    /// The files that have this content, mode and path; `None` if they are unmanaged.
    pub files: Option<Vec<ManagedFile>>,
    /// The commands that run when something has changed; `None` without any.
    pub execs: Option<Vec<Exec>>,
    /// The location of each object.
    pub locations: Locations,
}

impl File {
    /// Reads a file. It is JSON if its name ends in `.json` or its text starts with `{`, else TOML.
    ///
    /// Opening a FIFO waits for its other end. A caller that must not wait opens the file itself
    /// and calls [`File::read_from`].
    ///
    /// # Errors
    ///
    /// When the file cannot be read or is no desired state.
    pub fn read(path: &Path, tables: &TableNames) -> Result<File, Error> {
        let name = path.display().to_string();
        let file = fs::File::open(path).map_err(|error| Error::unreadable(&name, &error))?;
        File::read_from(&name, file, tables)
    }

    /// Reads a text to its end, at most 1 GiB. Errors call it `name`.
    ///
    /// # Errors
    ///
    /// When the text cannot be read, is longer, or is no desired state.
    pub fn read_from(name: &str, text: impl io::Read, tables: &TableNames) -> Result<File, Error> {
        let mut bytes = Vec::new();
        text.take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| Error::unreadable(name, &error))?;
        if bytes.len() as u64 > MAX_BYTES {
            let message = "is larger than 1 GiB: no desired state is".to_owned();
            let location = None;
            let diagnostics = vec![Diagnostic { location, message }];
            return Err(Error::new(ErrorKind::Unreadable, name, diagnostics));
        }
        File::parse(name, &bytes, tables)
    }

    /// Parses a text. Errors call it `name`. Owners of files that are names are looked up among the
    /// users and groups of this system.
    ///
    /// # Errors
    ///
    /// When the text is no desired state.
    pub fn parse(name: &str, bytes: &[u8], tables: &TableNames) -> Result<File, Error> {
        let text = std::str::from_utf8(bytes).map_err(|error| {
            let fault = Fault {
                at: error.valid_up_to(),
                message: "this is not UTF-8: save the file as UTF-8 text".to_owned(),
            };
            located(ErrorKind::Syntax, name, bytes, vec![fault])
        })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let mut collector = Collector::new(text, tables);
        let is_json = name.ends_with(".json") || text.trim_start().starts_with('{');
        let syntax = match is_json {
            true => json::read(text, &mut collector),
            false => toml::read(text, &mut collector),
        };
        let is_wrong = |kind, faults| Err(located(kind, name, text.as_bytes(), faults));
        let mut faults = collector.take_faults();
        if let Err(fault) = syntax {
            faults.push(fault);
            return is_wrong(ErrorKind::Syntax, faults);
        }
        if collector.is_empty() && faults.is_empty() {
            let message = "this declares nothing: write a section, such as [[route]], or \
                           `route = []` for no routes"
                .to_owned();
            faults.push(Fault { at: 0, message });
        }
        if !faults.is_empty() {
            return is_wrong(ErrorKind::Invalid, faults);
        }
        let duplicates = collector.duplicates();
        if !duplicates.is_empty() {
            return Err(Error::new(ErrorKind::Invalid, name, duplicates));
        }
        let file = collector.finish();
        match graph::check(&file) {
            wrong if wrong.is_empty() => Ok(file),
            wrong => Err(Error::new(ErrorKind::Invalid, name, wrong)),
        }
    }
}

/// Returns the error of faults in `text`, each at its location.
fn located(kind: ErrorKind, name: &str, text: &[u8], mut faults: Vec<Fault>) -> Error {
    faults.sort_by_key(|fault| fault.at);
    let mut cursor = Cursor::new(text);
    let diagnostic = |fault: Fault| Diagnostic {
        location: Some(cursor.location(fault.at)),
        message: fault.message,
    };
    Error::new(kind, name, faults.into_iter().map(diagnostic).collect())
}

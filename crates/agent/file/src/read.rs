//! Reads a file, checks it, and turns it into its declared values.

use std::io::{self, Read as _};
use std::path::Path;

use serde_json::value::RawValue;

use crate::collect::Collector;
use crate::error::{Diagnostic, Error};
use crate::file::File;
use crate::file_keys::{self, SYSCTL};
use crate::json::{Input, Pairs};
use crate::location::Cursor;
use crate::tables::TableNames;
use crate::value::{Fault, MAX_DEPTH, Result};
use crate::{order_check, toml};

/// The largest file that is read, in bytes. It has room for some ten million routes.
const MAX_BYTES: u64 = 1 << 30;

impl File {
    /// Reads a file. It is JSON if its name ends in `.json` or its text starts with `{`, else TOML.
    ///
    /// Opens it without waiting, and does not check who can write it. To refuse another user's
    /// file, open it with `trueup_path::TrustedUsers::open_ours`, and call [`File::read_from`].
    ///
    /// # Errors
    ///
    /// Fails if it is not a regular file, cannot be read, or is not a valid desired state.
    pub fn read(path: &Path, tables: &TableNames) -> std::result::Result<File, Error> {
        let name = path.display().to_string();
        let file = trueup_path::open_any(path).map_err(|error| Error::unopened(&name, &error))?;
        File::read_from(&name, file, tables, &[])
    }

    /// Reads a text to its end, at most 1 GiB. Errors call it `name`. Another crate reads the
    /// sections in `own`: see [`File::parse_with`].
    ///
    /// ```
    /// use trueup_file::{File, TableNames};
    ///
    /// let text = "route = []".as_bytes(); // any reader
    /// let file = File::read_from("standard input", text, &TableNames::default(), &[])?;
    /// assert!(file.desired.routes.is_some_and(|routes| routes.is_empty())); // none of ours
    /// # Ok::<(), trueup_file::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the text cannot be read, is longer than 1 GiB, or is not a valid desired state.
    pub fn read_from(
        name: &str,
        text: impl io::Read,
        tables: &TableNames,
        own: &[&'static str],
    ) -> std::result::Result<File, Error> {
        let mut bytes = Vec::new();
        text.take(MAX_BYTES + 1)
            .read_to_end(&mut bytes)
            .map_err(|error| Error::unreadable(name, &error))?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(Error::at(name, None, "is larger than 1 GiB: no desired state is"));
        }
        File::parse_with(name, &bytes, tables, own)
    }

    /// Parses a text. Errors call it `name`. Names of files' owners are looked up among the users
    /// and groups of this system.
    ///
    /// ```
    /// use trueup_file::{File, TableNames};
    ///
    /// let json = br#"{ "route": [ { "dst": "10.2.0.0/16", "via": "10.1.0.9" } ] }"#;
    /// let file = File::parse("edge", json, &TableNames::default())?; // it starts with `{`
    /// assert_eq!(file.settings.protocol, 116);
    /// # Ok::<(), trueup_file::Error>(())
    /// ```
    ///
    /// # Errors
    ///
    /// Fails if the text is not a valid desired state.
    pub fn parse(
        name: &str,
        bytes: &[u8],
        tables: &TableNames,
    ) -> std::result::Result<File, Error> {
        File::parse_with(name, bytes, tables, &[])
    }

    /// Parses like [`File::parse`], with further sections that another crate reads. `own` has their
    /// names. Each section is a list (`[[name]]`) or one table (`[name]`), and its elements are in
    /// [`own_sections`](Self::own_sections).
    ///
    /// # Errors
    ///
    /// Fails like [`File::parse`].
    pub fn parse_with(
        name: &str,
        bytes: &[u8],
        tables: &TableNames,
        own: &[&'static str],
    ) -> std::result::Result<File, Error> {
        let marked = std::str::from_utf8(bytes).map_err(|error| {
            let message = "this is not UTF-8: save the file as UTF-8 text".to_owned();
            located(name, bytes, vec![Fault { at: error.valid_up_to(), message }])
        })?;
        let text = marked.strip_prefix('\u{feff}').unwrap_or(marked);
        if let Some(at) = yaml(name, text) {
            let message = "this is YAML: a desired state is TOML, such as [[route]] above dst = \
                           \"10.0.0.0/8\" and via = \"10.1.0.9\", or JSON of the same shape"
                .to_owned();
            return Err(located(name, text.as_bytes(), vec![Fault { at, message }]));
        }
        let mut collector = Collector::new(text, tables, own);
        let is_json = name.ends_with(".json") || text.trim_start().starts_with('{');
        let syntax =
            if is_json { json(text, &mut collector) } else { toml::read(text, &mut collector) };
        let mut faults = collector.take_faults();
        faults.extend(syntax.err());
        if faults.is_empty() && collector.is_empty() {
            let message = "this declares nothing: write a section, such as [[route]], or \
                           `route = []` for no routes"
                .to_owned();
            faults.push(Fault { at: 0, message });
        }
        if !faults.is_empty() {
            return Err(located(name, text.as_bytes(), faults));
        }
        let duplicates = collector.duplicates();
        if !duplicates.is_empty() {
            return Err(Error::new(name, duplicates));
        }
        let file = collector.finish();
        match order_check::check(&file) {
            wrong if wrong.is_empty() => Ok(file),
            wrong => Err(Error::new(name, wrong)),
        }
    }
}

/// Returns the place at which a text begins if it is YAML. The file's name shows this, or a first
/// line that is a key with a colon, an element with a hyphen, or the mark of a document. No line of
/// TOML or JSON begins like this.
fn yaml(name: &str, text: &str) -> Option<usize> {
    let (line, at) = text
        .split_inclusive('\n')
        .scan(0, |at, line| {
            let start = *at;
            *at += line.len();
            Some((line, start))
        })
        .find(|(line, _)| !matches!(line.trim_start().chars().next(), None | Some('#')))
        .unwrap_or(("", 0));
    let word = line.split(':').next().unwrap_or_default();
    let has_key = word.len() < line.len()
        && word.starts_with(|first: char| first.is_ascii_alphabetic())
        && word.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'));
    let is_yaml = name.ends_with(".yaml") || name.ends_with(".yml");
    let is_marked = line.starts_with("---") || line.starts_with("- ");
    (is_yaml || has_key || is_marked).then_some(at)
}

/// Returns the error of faults in `text`, each at its location.
fn located(name: &str, text: &[u8], mut faults: Vec<Fault>) -> Error {
    faults.sort_by_key(|fault| fault.at);
    let mut cursor = Cursor::new(text);
    let diagnostics = faults
        .into_iter()
        .map(|Fault { at, message }| Diagnostic { location: Some(cursor.location(at)), message });
    Error::new(name, diagnostics.collect())
}

/// Reads a JSON text into `collector`, one object at a time.
///
/// # Errors
///
/// Fails at the first violation of JSON. Faults of objects are added to the collector.
fn json<'a>(text: &'a str, collector: &mut Collector<'a>) -> Result<()> {
    let mut input = Input { text, is_sysctl: false };
    let pairs: Pairs<'a> = input.parse(text)?;
    for (key, value) in pairs.0 {
        let key = input.key(key)?;
        input.is_sysctl = key.name == SYSCTL;
        if !value.get().starts_with('[') || file_keys::find(&key.name).is_some() {
            collector.pair(key, input.value(value, MAX_DEPTH)?)?;
            continue;
        }
        let elements: Vec<&'a RawValue> = input.parse(value.get())?;
        collector.list(&key)?;
        for element in elements {
            collector.element(&key.name, input.value(element, MAX_DEPTH)?);
        }
    }
    Ok(())
}

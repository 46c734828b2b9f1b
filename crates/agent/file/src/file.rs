//! A whole file: its content with locations.

use std::collections::BTreeMap;

use serde::de::DeserializeOwned;
use trueup_net::{Desired, setters};
use trueup_sysctl as sysctl;
use trueup_world::Collect;

use crate::error::Diagnostic;
use crate::graph::{Exec, ManagedFile};
use crate::location::{Location, Locations};
use crate::settings::Settings;
use crate::world::Export;

/// The content of a desired-state file, with locations.
///
/// ```
/// use trueup_file::{File, TableNames};
///
/// let text = b"[[route]]\ndst = \"10.2.0.0/16\"\nvia = \"10.1.0.9\"\n";
/// let file = File::parse("edge.toml", text, &TableNames::default())?;
/// assert_eq!(file.desired.routes.as_ref().map(|routes| routes.len()), Some(1));
/// assert!(file.desired.links.is_none()); // no `[[link]]`: links are not managed
/// # Ok::<(), trueup_file::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct File {
    /// The settings for all objects; each has its default if it is not in the file.
    pub settings: Settings,
    /// The objects in the order of the file, routes in the order of their keys. They do not have
    /// the marker yet.
    pub desired: Desired,
    /// The sysctls. `None` if they are unmanaged.
    pub sysctl: Option<sysctl::Desired>,
    /// This host's exports to others. `None` if its exports are unmanaged.
    pub exports: Option<Vec<Export>>,
    /// The exports of others that this host collects. `None` without `[[collect]]`.
    pub collects: Option<Vec<Collect>>,
    /// The managed files. `None` if files are unmanaged.
    pub files: Option<Vec<ManagedFile>>,
    /// The commands that run after a change. `None` without any.
    pub execs: Option<Vec<Exec>>,
    /// The elements of sections that another crate reads, by the section's name.
    pub own_sections: BTreeMap<&'static str, Vec<OwnElement>>,
    /// The location of each object, for messages.
    pub locations: Locations,
}

setters! { impl File {
    with_settings(settings: Settings);
    with_desired(desired: Desired);
    with_sysctl(sysctl: sysctl::Desired);
} }

/// An element of a section that another crate reads: see [`File::parse_with`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OwnElement {
    /// The place where the element begins.
    pub location: Location,
    /// The element's keys and values.
    pub(crate) value: serde_json::Value,
}

impl OwnElement {
    /// Reads the element's keys and values into a type.
    ///
    /// # Errors
    ///
    /// Fails if a key is missing, or has a value of another sort.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Diagnostic> {
        T::deserialize(&self.value).map_err(|error| self.fault(error.to_string()))
    }

    /// Returns a diagnostic with `message` at the element's place.
    pub fn fault(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic { location: Some(self.location), message: message.into() }
    }
}

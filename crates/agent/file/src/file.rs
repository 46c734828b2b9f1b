//! A file as a whole: what it declares, and where.

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

/// A desired-state file: what it declares, and where.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// The elements of sections that another crate reads, by their names.
    pub own_sections: BTreeMap<&'static str, Vec<OwnElement>>,
    /// The location of each object.
    pub locations: Locations,
}

setters! { impl File {
    with_settings(settings: Settings);
    with_desired(desired: Desired);
    with_sysctl(sysctl: impl Into<Option<sysctl::Desired>>);
} }

/// An element of a section that another crate reads: see [`File::parse_with`].
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct OwnElement {
    /// Where it begins.
    pub location: Location,
    /// Its keys and values.
    pub(crate) value: serde_json::Value,
}

impl OwnElement {
    /// Reads its keys and values.
    ///
    /// # Errors
    ///
    /// When a key is missing, or has a value of another sort.
    pub fn read<T: DeserializeOwned>(&self) -> Result<T, Diagnostic> {
        T::deserialize(&self.value).map_err(|error| self.fault(error.to_string()))
    }

    /// Returns the diagnostic that something is wrong with it.
    pub fn fault(&self, message: impl Into<String>) -> Diagnostic {
        Diagnostic { location: Some(self.location), message: message.into() }
    }
}

//! The crates that are published, as cargo knows them.

use std::path::PathBuf;

use serde_json::Value;

use crate::tools::{Result, cargo, output};

/// A crate that is published.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) rust_version: String,
    /// The folder of its manifest.
    pub(crate) folder: PathBuf,
    /// The name of its library in Rust: the CLI has none.
    pub(crate) library: Option<String>,
    pub(crate) features: Vec<String>,
}

/// Returns the workspace's public crates, by name.
pub(crate) fn public() -> Result<Vec<Package>> {
    let text = output(&mut cargo(&["metadata", "--no-deps", "--format-version=1"]))?;
    let metadata: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    let packages = metadata["packages"].as_array().into_iter().flatten();
    let mut public: Vec<Package> = packages
        // `publish = false` is an empty list of registries.
        .filter(|package| package["publish"].is_null())
        .filter_map(package)
        .collect();
    public.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(public)
}

fn package(package: &Value) -> Option<Package> {
    let manifest = PathBuf::from(package["manifest_path"].as_str()?);
    let mut targets = package["targets"].as_array()?.iter();
    let library = targets.find(|target| target["kind"][0] == "lib");
    let features = package["features"].as_object()?;
    Some(Package {
        name: package["name"].as_str()?.to_owned(),
        rust_version: package["rust_version"].as_str()?.to_owned(),
        version: package["version"].as_str()?.to_owned(),
        folder: manifest.parent()?.to_owned(),
        library: library.and_then(|target| Some(target["name"].as_str()?.to_owned())),
        features: features.keys().cloned().collect(),
    })
}

//! The published crates, by cargo's metadata.

use std::path::PathBuf;

use serde_json::Value;

use crate::tools::{Result, cargo, output};

/// A crate that is published.
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) rust_version: String,
    /// The directory of its manifest.
    pub(crate) folder: PathBuf,
    /// The name of its library in Rust; `None` for the CLI.
    pub(crate) library: Option<String>,
    pub(crate) features: Vec<String>,
}

/// Returns the workspace's public crates, sorted by name.
pub(crate) fn public() -> Result<Vec<Package>> {
    let members = members()?.into_iter();
    let mut public: Vec<Package> = members
        // `publish = false` is an empty list of registries.
        .filter(|member| member["publish"].is_null())
        .filter_map(|member| package(&member))
        .collect();
    public.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(public)
}

/// Returns the features of all members, each as `PACKAGE/FEATURE`.
pub(crate) fn features() -> Result<Vec<String>> {
    let mut all = Vec::new();
    for member in members()? {
        let name = member["name"].as_str().unwrap_or_default();
        let features = member["features"].as_object().into_iter().flatten();
        all.extend(features.map(|(feature, _)| format!("{name}/{feature}")));
    }
    Ok(all)
}

/// Returns cargo's metadata on each member of the workspace.
fn members() -> Result<Vec<Value>> {
    let text = output(&mut cargo(&["metadata", "--no-deps", "--format-version=1"]))?;
    let mut metadata: Value = serde_json::from_str(&text).map_err(|error| error.to_string())?;
    match metadata["packages"].take() {
        Value::Array(members) => Ok(members),
        _ => Err("cargo metadata names no packages".to_owned()),
    }
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

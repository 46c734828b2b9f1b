//! `[[export]]`: what this host offers to others.

use trueup_net::{IfName, Kind, Route};
use trueup_world::Hosts;

use super::{hosts, route};
use crate::element::{Element, Keyed};
use crate::fields::Fields;
use crate::file_keys::WORLD;
use crate::parse;
use crate::value::Result;

/// An object that this host offers to others.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Export {
    /// The name, by which it is replaced.
    pub name: String,
    /// The hosts that it is for.
    pub to: Hosts,
    /// The object.
    pub route: Route<IfName>,
}

impl Export {
    /// Returns the kind of the object.
    pub fn kind(&self) -> Kind {
        Kind::Route
    }

    /// Returns the object as text, as [`exported_route`](crate::exported_route) reads it.
    pub fn data(&self) -> String {
        route::to_data(&self.route)
    }
}

impl Element for Export {
    const NAME: &'static str = "export";
    const WITH_ARTICLE: &'static str = "an export";
    const NEEDS: Option<&'static str> = Some(WORLD);
    const KEYS: &'static [&'static str] = &["name", "to", "route"];

    fn read(fields: &Fields<'_>) -> Result<Export> {
        let example = "route = { dst = \"10.20.1.0/24\", via = \"10.0.0.11\" }";
        Ok(Export {
            name: fields.required("name", "name = \"pods\"", parse::element_name)?,
            to: fields.read("to", hosts)?.unwrap_or(Hosts::Any),
            route: fields.required("route", example, route::read)?,
        })
    }
}

impl Keyed for Export {
    const REMEDY: &'static str = "another name";
    type Key = (Hosts, Kind, String);

    fn key(&self) -> Self::Key {
        (self.to.clone(), self.kind(), self.name.clone())
    }

    fn describe(&self) -> String {
        format!("export `{}` to {}", self.name, self.to)
    }
}

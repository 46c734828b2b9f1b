//! What other hosts export, as routes of this host.

use std::borrow::Cow;
use std::collections::BTreeMap;

use anyhow::{Context as _, Result, bail};
use trueup::diff::{Kind, RouteKey};
use trueup::world::{Resource, ResourceKey};
use trueup::{IfName, Namespace, Route, Rtnl, Source as _, rtnl};
use trueup_file::{self as file, Accepted, Collect, File};

use crate::commands::authored_routes;

/// The routes of ours that an earlier process may have collected. They stay until it is known
/// what other hosts export.
#[derive(Clone, Debug, Default)]
pub(crate) struct Retained(Vec<Route<IfName>>);

impl Retained {
    /// Reads the routes that bear our marker, and which a collection could have made.
    ///
    /// # Errors
    ///
    /// When the namespace cannot be read whole, or such a route cannot be declared as it is: it
    /// could not be kept.
    pub(crate) fn read(
        namespace: &Namespace,
        options: &rtnl::Options,
        collects: &[Collect],
    ) -> Result<Retained> {
        if collects.is_empty() {
            return Ok(Retained::default());
        }
        let snapshot = Rtnl::new().observe(namespace, options)?.observed();
        let snapshot = snapshot.context("cannot read the namespace")?;
        if let Some(doubt) = snapshot.incomplete.first() {
            bail!("cannot know which routes were collected before: {doubt}; try again");
        }
        let (routes, left_out) = authored_routes(&snapshot.observed, |route| {
            let key = route.canonical_key();
            let is_ours = route.protocol == options.protocol();
            is_ours && collects.iter().any(|collect| collect.contains(&key))
        });
        if let Some(route) = left_out.first() {
            bail!(
                "a route of ours that may have been collected before cannot be kept as it is, \
                 {route}: delete it"
            );
        }
        Ok(Retained(routes))
    }
}

/// Makes routes of what other hosts export.
pub(crate) fn accepted(
    declared: &File,
    host: &str,
    resources: &BTreeMap<ResourceKey, Resource>,
) -> Accepted {
    let collects = declared.collects.as_deref().unwrap_or_default();
    let routes = resources
        .iter()
        .filter(|(key, _)| key.kind == Kind::Route.name());
    let named: Vec<(Cow<'_, str>, &str, &Resource)> = routes
        .map(|(key, resource)| {
            let name = String::from_utf8_lossy(&key.name);
            (name, key.exporter.as_str(), resource)
        })
        .collect();
    let resources = named.iter().map(|(name, exporter, it)| file::Resource {
        exporter,
        name,
        created: it.created.0,
        data: &it.data,
    });
    let mut accepted = file::accept(collects, host, resources);
    if let Some(routes) = &declared.desired.routes {
        accepted.yield_to(routes);
    }
    accepted
}

/// Returns the routes to have beside those of the file: the accepted ones, and what is retained.
pub(crate) fn routes(
    declared: &File,
    accepted: &Accepted,
    retained: &Retained,
) -> BTreeMap<RouteKey, Route<IfName>> {
    let collects = declared.collects.as_deref().unwrap_or_default();
    let own = declared.desired.routes.as_ref();
    let keyed = retained.0.iter().map(|it| (it.canonical_key(), it));
    let retained = keyed.filter(|(key, _)| {
        let is_declared = own.is_some_and(|own| own.get(key).is_some());
        !is_declared && collects.iter().any(|collect| collect.contains(key))
    });
    let accepted = accepted
        .routes
        .iter()
        .map(|(key, (route, _))| (*key, route));
    let all = retained.chain(accepted);
    all.map(|(key, route)| (key, route.clone())).collect()
}

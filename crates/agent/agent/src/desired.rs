//! What is desired of a network namespace, and how settings are split.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use trueup_net::{Desired as Network, Kind, LinkKind, VethAttrs};
use trueup_reconcile::Both;
use trueup_sysctl as sysctl;

/// What is desired of a namespace, or of one of its parts.
#[derive(Clone, Default)]
pub struct Desired {
    /// The network.
    pub network: Arc<Network>,
    /// `None`: sysctls are not managed. In the network's part, all: those that its links reset.
    pub settings: Option<sysctl::Desired>,
    /// True if the first part has found that the network's pass cannot run: then the others before
    /// that change nothing. All parts of a desired state share it.
    pub(crate) is_refused: Arc<AtomicBool>,
}

impl Both<Network, sysctl::Desired> for Desired {
    fn first(&self) -> &Network {
        &self.network
    }

    fn second(&self) -> Option<&sysctl::Desired> {
        self.settings.as_ref()
    }
}

impl Desired {
    /// Returns the same with other settings.
    pub(crate) fn with_settings(&self, settings: sysctl::Desired) -> Desired {
        Desired { settings: Some(settings), ..self.clone() }
    }

    /// Returns the settings that are of no declared link, and those that are, if there are any;
    /// `None` if settings are not managed.
    pub(crate) fn split(&self) -> Option<(sysctl::Desired, Option<sysctl::Desired>)> {
        let settings = self.settings.clone()?;
        let devices = declared_devices(&self.network);
        if settings.keys().all(|key| key.device().is_none_or(|it| !devices.contains(it))) {
            return Some((settings, None));
        }
        let (of_links, others) = settings.split(devices);
        Some((others, Some(of_links)))
    }

    /// Returns the links alone.
    pub(crate) fn links(&self) -> Arc<Network> {
        let Network { links, adopt, .. } = &*self.network;
        let adopt = adopt.iter().filter(|(kind, _)| *kind == Kind::Link);
        let mut alone = Network::default().with_adopt(adopt.copied());
        alone.links.clone_from(links);
        Arc::new(alone)
    }
}

/// Returns the names of the declared links, and of the other ends of pairs.
fn declared_devices(network: &Network) -> BTreeSet<String> {
    let links = network.links.iter().flatten();
    let names = links.flat_map(|link| {
        let peer = match &link.kind {
            Some(LinkKind::Veth(VethAttrs { peer, .. })) => *peer,
            _ => None,
        };
        [Some(link.name), peer].into_iter().flatten()
    });
    names.filter_map(|name| name.as_str().map(str::to_owned)).collect()
}

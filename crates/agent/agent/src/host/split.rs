//! The parts of a desired state.

use std::collections::BTreeSet;
use std::sync::Arc;

use trueup_net::{Desired as Network, IfName, Kind, LinkKind, VethAttrs};

use super::{Desired, Part};

impl Desired {
    /// Splits what is desired of a namespace by parts, in the order in which they run. Those before
    /// the network are there only if settings are declared that they are about.
    pub fn parts(self) -> Vec<(Part, Desired)> {
        let Some(settings) = self.settings.clone() else {
            return vec![(Part::Network, self)];
        };
        let (network, is_refused) = (Arc::clone(&self.network), Arc::clone(&self.is_refused));
        let alone = (
            Part::Network,
            Desired {
                network: Arc::clone(&network),
                settings: Some(settings.clone()),
                is_refused: Arc::clone(&is_refused),
            },
        );
        let devices = declared_devices(&network);
        let is_of_link =
            |device: Option<&str>| device.is_some_and(|device| devices.contains(device));
        if !settings.keys().any(|key| is_of_link(key.device())) {
            return vec![(Part::Settings, self), alone];
        }
        let (of_links, others) = settings.split(devices);
        let of = |network, settings| Desired {
            network,
            settings: Some(settings),
            is_refused: Arc::clone(&is_refused),
        };
        let links = Arc::new(links_alone(&network));
        vec![
            (Part::Settings, of(network, others)),
            (Part::Links, of(links, of_links.clone())),
            (Part::LinkSettings, of(Arc::default(), of_links)),
            alone,
        ]
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
    names.filter_map(text).collect()
}

fn text(name: IfName) -> Option<String> {
    String::from_utf8(name.as_bytes().to_vec()).ok()
}

fn links_alone(network: &Network) -> Network {
    let Network { links, adopt, .. } = network;
    let adopt = adopt.iter().filter(|(kind, _)| *kind == Kind::Link);
    let mut alone = Network::default().with_adopt(adopt.copied());
    alone.links.clone_from(links);
    alone
}

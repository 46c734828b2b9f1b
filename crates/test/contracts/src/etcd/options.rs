//! How the members of a cluster are started, and where.

use std::net::{IpAddr, Ipv4Addr};

/// How members are started.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ClusterOptions {
    /// Where they run: one each.
    pub places: Vec<Place>,
    /// Further arguments of `etcd`.
    pub arguments: Vec<String>,
    /// True if clients connect with TLS, each with a certificate.
    pub has_tls: bool,
}

/// Where a member runs.
#[derive(Clone, Debug)]
pub struct Place {
    /// The address on which it listens. Its ports are free ones of that address, as this process
    /// sees it, or those given.
    pub address: IpAddr,
    /// The ports for clients and for the other members.
    pub ports: Option<(u16, u16)>,
    /// What its command line begins with, such as `ip netns exec NAME`.
    pub launcher: Vec<String>,
}

impl Place {
    /// Makes a member's place in the network namespace of that name, which has that address. Its
    /// ports are etcd's own, 2379 and 2380.
    pub fn in_namespace(name: &str, address: impl Into<IpAddr>) -> Place {
        let launcher = ["ip", "netns", "exec", name].map(str::to_owned);
        Place { address: address.into(), ports: Some((2379, 2380)), launcher: launcher.to_vec() }
    }
}

impl ClusterOptions {
    /// Makes options for so many members on 127.0.0.1.
    pub fn local(members: usize) -> ClusterOptions {
        let place =
            Place { address: Ipv4Addr::LOCALHOST.into(), ports: None, launcher: Vec::new() };
        ClusterOptions::at(vec![place; members])
    }

    /// Makes options for one member at each place.
    pub fn at(places: Vec<Place>) -> ClusterOptions {
        ClusterOptions { places, ..ClusterOptions::default() }
    }

    /// Adds arguments of `etcd`.
    #[must_use]
    pub fn with_arguments<A: Into<String>>(mut self, words: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(words.into_iter().map(Into::into));
        self
    }

    /// Has clients connect with TLS.
    #[must_use]
    pub fn with_tls(mut self) -> Self {
        self.has_tls = true;
        self
    }
}

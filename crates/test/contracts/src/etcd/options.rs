//! The number, places and arguments of a cluster's members.

use std::net::{IpAddr, Ipv4Addr};

/// Options for the members of a cluster.
///
/// ```no_run
/// use trueup_contracts::etcd::{Cluster, ClusterOptions};
///
/// let mut cluster = Cluster::start(&ClusterOptions::local(3).with_tls())?;
/// let leader = cluster.wait_for_leader()?;
/// cluster.kill(leader)?;
/// assert_ne!(cluster.wait_for_leader()?, leader);
/// # Ok::<(), std::io::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct ClusterOptions {
    /// One place for each member.
    pub places: Vec<Place>,
    /// Additional arguments for `etcd`, the same for each member.
    pub arguments: Vec<String>,
    /// True if clients connect with TLS, each with a certificate.
    pub has_tls: bool,
}

/// The place of one member: its address, its ports and its launcher.
#[derive(Clone, Debug)]
pub struct Place {
    /// The address on which it listens.
    pub address: IpAddr,
    /// The ports for clients and for other members; if `None`, free ones of the address, as this
    /// process sees it.
    pub ports: Option<(u16, u16)>,
    /// The beginning of its command line, such as `ip netns exec NAME`.
    pub launcher: Vec<String>,
}

impl Place {
    /// Makes a place in the network namespace `name`, which has that address. The ports are etcd's
    /// own, 2379 and 2380.
    pub fn in_namespace(name: &str, address: impl Into<IpAddr>) -> Place {
        let launcher = ["ip", "netns", "exec", name].map(str::to_owned);
        Place { address: address.into(), ports: Some((2379, 2380)), launcher: launcher.to_vec() }
    }
}

impl ClusterOptions {
    /// Makes options for `members` members on 127.0.0.1.
    pub fn local(members: usize) -> ClusterOptions {
        let place =
            Place { address: Ipv4Addr::LOCALHOST.into(), ports: None, launcher: Vec::new() };
        ClusterOptions::at(vec![place; members])
    }

    /// Makes options for one member at each place.
    pub fn at(places: Vec<Place>) -> ClusterOptions {
        ClusterOptions { places, ..ClusterOptions::default() }
    }

    /// Adds arguments for `etcd`.
    #[must_use]
    pub fn with_arguments<A: Into<String>>(mut self, words: impl IntoIterator<Item = A>) -> Self {
        self.arguments.extend(words.into_iter().map(Into::into));
        self
    }

    /// Makes clients connect with TLS, each with a certificate.
    #[must_use]
    pub fn with_tls(mut self) -> Self {
        self.has_tls = true;
        self
    }
}

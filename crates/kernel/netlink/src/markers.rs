//! [`markers`]: the kinds of objects on which the kernel keeps the protocol that marks their owner.
//!
//! A kernel drops an attribute that it does not know from a write, without an error. So a writer
//! that recognises its objects by their marker has to know beforehand whether the kernel keeps it.
//! [`markers`] writes nothing to find out: it requests dumps, which needs no privilege.
//!
//! - *Routes* and *nexthop objects* have it in their fixed header, on every kernel that has them.
//! - A kernel with `FRA_PROTOCOL` (Linux 4.17) puts it on every *rule*, even as 0
//!   (`fib_nl_fill_rule` in net/core/fib_rules.c): one rule is enough to see it. IPv4 multicast
//!   routing has one of its own in every namespace, where the kernel was built with its tables
//!   (`CONFIG_IP_MROUTE_MULTIPLE_TABLES`), and hardly ever more. Elsewhere all rules are read.
//! - *Neighbours* (`NDA_PROTOCOL`, Linux 5.0) and *addresses* (`IFA_PROTO`, Linux 5.18) have it
//!   only when it is not 0, so there may be no object to look at. But a dump request may carry
//!   attributes, and under strict checking (Linux 4.20) the kernel refuses an attribute that it
//!   knows and cannot filter by with another message than one that it does not know
//!   (`__nla_validate_parse` in lib/nlattr.c). The latter message is learnt from a request with a
//!   number that no kernel uses. A kernel without strict checking is older than both attributes.
//!
//! Forwarding entries (`AF_BRIDGE`) are no neighbours here: the kernel drops their `NDA_PROTOCOL`.

use trueup_net::{Kind, Kinds};

use crate::codec;
use crate::dump::DumpStep;
use crate::error::Error;
use crate::socket::Socket;
use crate::wire::{MessageWriter, NLA_TYPE_MASK, NLM_F_REQUEST};

/// The kernel's treatment of the marker of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Marker {
    /// The kernel stores and reports it.
    Kept,
    /// The kernel drops it without an error.
    NotKept,
    /// It is unknown: it was not asked for, or there was no rule to look at, and so no rule of any
    /// owner.
    Unknown,
}

/// The result of [`markers`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub struct Markers {
    /// `rtm_protocol` of IPv4 and IPv6 routes: always kept.
    pub route: Marker,
    /// `FRA_PROTOCOL` of rules.
    pub rule: Marker,
    /// `NDA_PROTOCOL` of IPv4 and IPv6 neighbours and proxies.
    pub neighbour: Marker,
    /// `IFA_PROTO` of addresses: kept only if it is in both families. Up to some version between
    /// Linux 6.1 and 6.12 a replace of an IPv4 address leaves it as it was.
    pub address: Marker,
    /// `nhm_protocol` of nexthop objects: always kept.
    pub nexthop: Marker,
}

/// Returns which markers the kernel keeps of the given kinds, in the socket's namespace; those of
/// other kinds that it would have to ask for are [`Marker::Unknown`]. It changes nothing and needs
/// no privilege. It costs four refused dumps for addresses, two for neighbours, and for rules a
/// dump of those of IPv4 multicast routing, or of all where there is none; once for a namespace is
/// enough, unless rules were [`Marker::Unknown`].
///
/// # Errors
///
/// As for [`Socket::dump`], when the kernel could not be asked or gave an unexpected answer.
pub fn markers(socket: &mut Socket, kinds: Kinds) -> Result<Markers, Error> {
    let mut markers = Markers {
        route: Marker::Kept,
        rule: Marker::Unknown,
        neighbour: Marker::Unknown,
        address: Marker::Unknown,
        nexthop: Marker::Kept,
    };
    if kinds.contains(Kind::Address) {
        let mut address = |family| {
            let header = [family, 0, 0, 0, 0, 0, 0, 0];
            marker_of_attribute(socket, codec::address::GET, &header, IFA_PROTO)
        };
        let (inet, inet6) = (address(AF_INET)?, address(AF_INET6)?);
        // The worse of both.
        markers.address = inet.max(inet6);
    }
    if kinds.contains(Kind::Rule) {
        markers.rule = marker_of_rules(socket)?;
    }
    if kinds.contains(Kind::Neighbour) {
        let (get, header) = (codec::neighbour::GET, &[0; 12]);
        markers.neighbour = marker_of_attribute(socket, get, header, NDA_PROTOCOL)?;
    }
    Ok(markers)
}

const IFA_PROTO: u16 = 11;
const NDA_PROTOCOL: u16 = 12;
const FRA_PROTOCOL: u16 = 21;
/// The greatest attribute number, which no kernel uses: the kernel numbers attributes from 1.
const UNUSED_ATTRIBUTE: u16 = NLA_TYPE_MASK;

const AF_INET: u8 = 2;
const AF_INET6: u8 = 10;
/// `RTNL_FAMILY_IPMR`: the rules of IPv4 multicast routing.
const IPMR: u8 = 128;
/// All families.
const AF_UNSPEC: u8 = 0;

/// Returns whether the kernel knows an attribute, by its message about a dump request with it.
fn marker_of_attribute(
    socket: &mut Socket,
    kind: u16,
    header: &[u8],
    number: u16,
) -> Result<Marker, Error> {
    let Some(unknown) = refusal(socket, kind, header, UNUSED_ATTRIBUTE)? else {
        return Ok(Marker::NotKept);
    };
    Ok(match refusal(socket, kind, header, number)? {
        Some(words) if words == unknown => Marker::NotKept,
        _ => Marker::Kept,
    })
}

/// Returns the kernel's message about a dump request with an attribute; `None` if it dumps.
fn refusal(
    socket: &mut Socket,
    kind: u16,
    header: &[u8],
    number: u16,
) -> Result<Option<Box<str>>, Error> {
    let mut request = Vec::new();
    let mut message = MessageWriter::begin(&mut request, kind, NLM_F_REQUEST);
    message.body(header);
    message.attr_u8(number, 0);
    message.finish()?;
    match socket.dump(&request, |_| {}) {
        Ok(_) => Ok(None),
        // Without a message all refusals are alike, and the marker counts as not kept.
        Err(error) if error.errno() == Some(libc::EINVAL) => {
            Ok(Some(error.kernel_message().unwrap_or_default().into()))
        }
        Err(error) => Err(error),
    }
}

/// Returns whether rules show their marker. An incomplete dump is enough: one rule shows it.
fn marker_of_rules(socket: &mut Socket) -> Result<Marker, Error> {
    match marker_of_family(socket, IPMR) {
        Ok(Marker::Unknown) => marker_of_family(socket, AF_UNSPEC),
        // The kernel has no such rules.
        Err(error) if error.errno() == Some(libc::EAFNOSUPPORT) => {
            marker_of_family(socket, AF_UNSPEC)
        }
        found => found,
    }
}

fn marker_of_family(socket: &mut Socket, family: u8) -> Result<Marker, Error> {
    let mut request = Vec::new();
    let mut message = MessageWriter::begin(&mut request, codec::rule::GET, NLM_F_REQUEST);
    message.body(&[family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    message.finish()?;
    let mut found = Marker::Unknown;
    let _one_is_enough = socket.dump(&request, |step| {
        let DumpStep::Message(message) = step else {
            return;
        };
        let Some((_, mut attrs)) = message.split(12) else {
            return;
        };
        let shown = attrs.any(|(number, _)| number == FRA_PROTOCOL);
        // The better of all.
        found = found.min(if shown { Marker::Kept } else { Marker::NotKept });
    })?;
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Namespace;

    /// The answers of each kernel are tested elsewhere; this tests that no privilege is needed.
    #[test]
    fn whoever_asks_is_answered() {
        let mut socket = Socket::open(&Namespace::current()).unwrap();
        let found = markers(&mut socket, Kinds::ALL).unwrap();
        assert_eq!((found.route, found.nexthop), (Marker::Kept, Marker::Kept));
        assert_ne!(found.neighbour, Marker::Unknown);
        assert_ne!(found.address, Marker::Unknown);
        let sequence = socket.sequence;
        let found = markers(&mut socket, Kinds::NONE.with(Kind::Route)).unwrap();
        assert_eq!((found.route, found.address), (Marker::Kept, Marker::Unknown));
        assert_eq!(socket.sequence, sequence, "routes need no question");
    }
}

//! [`marker`]: whether the kernel keeps the protocol that marks an object's owner.
//!
//! A kernel drops an attribute that it does not know from a write, without an error. So a writer
//! that recognises its objects by their marker has to know beforehand whether the kernel keeps it.
//! [`marker`] writes nothing to find out: it requests dumps, which needs no privilege.
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

use trueup_net::Kind;

use crate::codec;
use crate::dump::DumpStep;
use crate::error::Error;
use crate::socket::Socket;
use crate::wire::{MessageWriter, NLA_TYPE_MASK, NLM_F_REQUEST};

/// Returns whether the kernel stores and reports the marker of a kind of objects, in the socket's
/// namespace. `None` if it is unknown: there was no rule of any owner to look at, or links and other
/// kinds have no marker.
///
/// Routes and nexthop objects cost no question. Addresses cost four refused dumps: their marker is
/// kept only if it is in both families. Up to some version between Linux 6.1 and 6.12 a replace of
/// an IPv4 address leaves the marker as it was. Neighbours cost two refused dumps, and rules a dump
/// of those of IPv4 multicast routing, or of all where there is none. Once for a namespace is
/// enough, unless the answer was `None`.
///
/// # Errors
///
/// As for [`Socket::dump`], when the kernel could not be asked or gave an unexpected answer.
pub fn marker(socket: &mut Socket, kind: Kind) -> Result<Option<bool>, Error> {
    match kind {
        Kind::Address => {
            let mut is_kept = true;
            for family in [AF_INET, AF_INET6] {
                let header = [family, 0, 0, 0, 0, 0, 0, 0];
                is_kept &= knows_attribute(socket, codec::address::GET, &header, IFA_PROTO)?;
            }
            Ok(Some(is_kept))
        }
        Kind::Neighbour => {
            knows_attribute(socket, codec::neighbour::GET, &[0; 12], NDA_PROTOCOL).map(Some)
        }
        Kind::Rule => match marker_of_rules(socket, IPMR) {
            Ok(None) => marker_of_rules(socket, AF_UNSPEC),
            // The kernel has no such rules.
            Err(error) if error.errno() == Some(libc::EAFNOSUPPORT) => {
                marker_of_rules(socket, AF_UNSPEC)
            }
            found => found,
        },
        // In the fixed header, on every kernel that has the kind.
        _ => Ok(kind.bears_protocol().then_some(true)),
    }
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
fn knows_attribute(
    socket: &mut Socket,
    kind: u16,
    header: &[u8],
    number: u16,
) -> Result<bool, Error> {
    let Some(unknown) = refusal(socket, kind, header, UNUSED_ATTRIBUTE)? else {
        return Ok(false);
    };
    Ok(refusal(socket, kind, header, number)?.is_none_or(|words| words != unknown))
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

/// Returns whether the rules of a family show their marker; `None` if there is none. An incomplete
/// dump is enough: one rule shows it.
fn marker_of_rules(socket: &mut Socket, family: u8) -> Result<Option<bool>, Error> {
    let mut request = Vec::new();
    let mut message = MessageWriter::begin(&mut request, codec::rule::GET, NLM_F_REQUEST);
    message.body(&[family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    message.finish()?;
    let mut found = None;
    let _one_is_enough = socket.dump(&request, |step| {
        if let DumpStep::Message(message) = step
            && let Some((_, mut attrs)) = message.split(12)
        {
            let is_shown = attrs.any(|(number, _)| number == FRA_PROTOCOL);
            found = Some(is_shown || found == Some(true));
        }
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
        for kind in [Kind::Address, Kind::Neighbour] {
            assert_ne!(marker(&mut socket, kind).unwrap(), None);
        }
        let sequence = socket.sequence;
        for kind in [Kind::Route, Kind::Nexthop] {
            assert_eq!(marker(&mut socket, kind).unwrap(), Some(true));
        }
        assert_eq!(socket.sequence, sequence, "routes need no question");
    }
}

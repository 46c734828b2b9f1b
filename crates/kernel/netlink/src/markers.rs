//! [`marker`] finds out if the kernel stores the protocol that marks an object's owner.
//!
//! A kernel silently drops an unknown attribute from a write. So a writer that recognises its
//! objects by their marker must know beforehand if the kernel stores it. [`marker`] finds out
//! without writing: it requests dumps, which needs no privilege.
//!
//! - *Routes* and *nexthop objects* have it in their fixed header, on every kernel that has them.
//! - A kernel with `FRA_PROTOCOL` (Linux 4.17) puts it on every *rule*, even as 0
//!   (`fib_nl_fill_rule` in net/core/fib_rules.c), so a single rule suffices. IPv4 multicast
//!   routing has its own rule in every namespace if the kernel was built with its tables
//!   (`CONFIG_IP_MROUTE_MULTIPLE_TABLES`), and rarely more. On other kernels all rules are read.
//! - *Neighbours* (`NDA_PROTOCOL`, Linux 5.0) and *addresses* (`IFA_PROTO`, Linux 5.18) have it
//!   only if it is not 0, so there may be no object to look at. But a dump request may have
//!   attributes. Under strict checking (Linux 4.20) the kernel refuses a known attribute by which
//!   it cannot filter with another message than an unknown attribute (`__nla_validate_parse` in
//!   lib/nlattr.c). The latter message is learned from a request with a number that no kernel uses.
//!   A kernel without strict checking is older than both attributes.
//!
//! Forwarding entries (`AF_BRIDGE`) are no neighbours here: the kernel drops their `NDA_PROTOCOL`.

use trueup_net::Kind;

use crate::codec;
use crate::dump::DumpStep;
use crate::error::Error;
use crate::socket::Socket;
use crate::wire::{MessageWriter, NLA_TYPE_MASK, NLM_F_REQUEST};

/// Returns true if the kernel stores and reports the marker of a kind of objects, in the socket's
/// namespace. `None` if it is unknown: there was no rule of any owner to look at, or the kind, such
/// as links, has no marker.
///
/// Routes and nexthop objects need no request. Addresses take four refused dumps: their marker
/// counts as stored only if it is in both families. Up to some version between Linux 6.1 and 6.12 a
/// replace of an IPv4 address keeps the old marker. Neighbours take two refused dumps. Rules take a
/// dump of IPv4 multicast routing's, or of all rules if there are none. Once per namespace
/// suffices, unless the answer was `None`.
///
/// # Errors
///
/// The same as [`Socket::dump`], if the kernel could not be asked or gave an unexpected answer.
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

/// Returns true if the kernel knows an attribute, by its message about a dump request with it.
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
        // Without a message all refusals are the same, and the marker counts as not stored.
        Err(error) if error.errno() == Some(libc::EINVAL) => {
            Ok(Some(error.kernel_message().unwrap_or_default().into()))
        }
        Err(error) => Err(error),
    }
}

/// Returns true if the rules of a family show their marker; `None` if there are no rules. An
/// incomplete dump suffices, since one rule shows it.
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

    /// The answers of each kernel are tested elsewhere. This test shows that no privilege is
    /// needed.
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

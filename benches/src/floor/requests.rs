//! Requests as bytes, made before the clock starts: many messages in each batch, of which only the
//! last asks for an acknowledgement. They are written by hand: the least that the kernel accepts.

use std::net::IpAddr;

use anyhow::{Context as _, Result};
use trueup_netlink::wire::{
    Header, MessageWriter, NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE,
    NLM_F_REQUEST,
};
use trueup_works::{Destination, PROTOCOL};

use crate::writer::Verb;

/// Larger sends are not cheaper.
const BATCH_BYTES: usize = 64 * 1024;

// The types of creating messages; the deleting type is the next number.
const RTM_NEWLINK: u16 = 16;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const RTM_NEWRULE: u16 = 32;
const RTM_NEWNEXTHOP: u16 = 104;
const RTM_GETROUTE: u16 = 26;
const RTM_GETRULE: u16 = 34;

const RTN_UNICAST: u8 = 1;
const RT_SCOPE_NOWHERE: u8 = 255;
const RT_TABLE_MAIN: u8 = 254;
const FR_ACT_TO_TBL: u8 = 1;

/// The id of the only nexthop object.
const OBJECT: u32 = 1;

/// Encoded requests, divided into batches.
#[derive(Debug, Default)]
pub(crate) struct Requests {
    bytes: Vec<u8>,
    /// The end of each batch except the last.
    ends: Vec<usize>,
    /// The offset of the last message.
    last: usize,
    count: u32,
}

/// An attribute with its type.
enum Attribute<'a> {
    Address(u16, IpAddr),
    Number(u16, u32),
    Byte(u16, u8),
    Name(u16, &'a str),
    /// `IFLA_LINKINFO` with a kind of links.
    Kind(&'a str),
}
use Attribute::{Address, Byte, Kind, Name, Number};

impl Requests {
    /// Returns the bytes of each batch.
    pub(super) fn batches(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        let ends = self.ends.iter().copied().chain([self.bytes.len()]);
        let batches = starts.zip(ends).filter_map(|(start, end)| self.bytes.get(start..end));
        batches.filter(|batch| !batch.is_empty())
    }

    /// Returns the requests that `each` writes, called for every place below `count`.
    pub(super) fn of(
        count: usize,
        mut each: impl FnMut(&mut Requests, usize) -> Result<()>,
    ) -> Result<Requests> {
        let mut requests = Requests::default();
        (0..count).try_for_each(|at| each(&mut requests, at))?;
        requests.finish()
    }

    /// Ends the requests: the last message is the one to be acknowledged.
    pub(super) fn finish(mut self) -> Result<Requests> {
        self.acknowledge()?;
        Ok(self)
    }

    /// Adds a route in table main.
    pub(super) fn route(
        &mut self,
        verb: Verb,
        (address, length): Destination,
        gateway: IpAddr,
        protocol: u8,
    ) -> Result<()> {
        let to = Address(1, address); // RTA_DST
        if verb == Verb::Delete {
            let mut head = rtmsg(address, length, 0);
            (head[6], head[7]) = (RT_SCOPE_NOWHERE, 0);
            return self.push(RTM_NEWROUTE, verb, &head, &[to]);
        }
        let via = Address(5, gateway); // RTA_GATEWAY
        self.push(RTM_NEWROUTE, verb, &rtmsg(address, length, protocol), &[to, via])
    }

    /// Adds a route in table main that uses the nexthop object.
    pub(super) fn route_by_object(&mut self, (address, length): Destination) -> Result<()> {
        let head = rtmsg(address, length, PROTOCOL);
        let attributes = [Address(1, address), Number(30, OBJECT)]; // RTA_DST, RTA_NH_ID
        self.push(RTM_NEWROUTE, Verb::Create, &head, &attributes)
    }

    /// Adds the nexthop object: a gateway behind a link.
    pub(super) fn object(&mut self, verb: Verb, gateway: IpAddr, link: u32) -> Result<()> {
        // struct nhmsg: family, scope, protocol, one reserved, flags.
        let id = Number(1, OBJECT); // NHA_ID
        if verb == Verb::Delete {
            return self.push(RTM_NEWNEXTHOP, verb, &[0; 8], &[id]);
        }
        let head = [family(gateway), 0, PROTOCOL, 0, 0, 0, 0, 0];
        let attributes = [id, Number(5, link), Address(6, gateway)]; // NHA_OIF, NHA_GATEWAY
        self.push(RTM_NEWNEXTHOP, verb, &head, &attributes)
    }

    /// Adds a rule that leads from a single address to table main.
    pub(super) fn rule(&mut self, verb: Verb, priority: u32, from: IpAddr) -> Result<()> {
        // struct fib_rule_hdr: family, length of destination and source, TOS, table, two reserved,
        // action, flags.
        let length = if from.is_ipv4() { 32 } else { 128 };
        let head = [family(from), 0, length, 0, RT_TABLE_MAIN, 0, 0, FR_ACT_TO_TBL, 0, 0, 0, 0];
        // FRA_SRC, FRA_PRIORITY, FRA_PROTOCOL
        let attributes = [Address(2, from), Number(6, priority), Byte(21, PROTOCOL)];
        self.push(RTM_NEWRULE, verb, &head, &attributes)
    }

    /// Adds an address on a link, given by its index.
    pub(super) fn address(&mut self, link: u32, address: IpAddr, length: u8) -> Result<()> {
        // struct ifaddrmsg: family, length, flags, scope, index.
        let [a, b, c, d] = link.to_ne_bytes();
        let head = [family(address), length, 0, 0, a, b, c, d];
        let attributes = [Address(2, address), Address(1, address)]; // IFA_LOCAL, IFA_ADDRESS
        self.push(RTM_NEWADDR, Verb::Create, &head, &attributes)
    }

    /// Makes or deletes a link of kind ifb, by its name.
    pub(super) fn link(&mut self, verb: Verb, name: &str) -> Result<()> {
        let attributes = [Name(3, name), Kind("ifb")]; // IFLA_IFNAME
        let count = if verb == Verb::Delete { 1 } else { 2 };
        self.push(RTM_NEWLINK, verb, &[0; 16], &attributes[..count])
    }

    fn push(
        &mut self,
        create: u16,
        verb: Verb,
        head: &[u8],
        attributes: &[Attribute<'_>],
    ) -> Result<()> {
        let start = self.bytes.len();
        let (kind, flags) = match verb {
            Verb::Create => (create, NLM_F_CREATE | NLM_F_EXCL),
            Verb::Replace => (create, NLM_F_REPLACE),
            Verb::Delete => (create + 1, 0),
        };
        let mut message = MessageWriter::begin(&mut self.bytes, kind, NLM_F_REQUEST | flags);
        message.body(head);
        for attribute in attributes {
            match *attribute {
                Address(kind, address) => message.attr_ip(kind, address),
                Number(kind, number) => message.attr_u32(kind, number),
                Byte(kind, byte) => message.attr_u8(kind, byte),
                Name(kind, name) => message.attr_string(kind, name.as_bytes()),
                Kind(kind) => {
                    let info = message.nest(18); // IFLA_LINKINFO
                    message.attr_string(1, kind.as_bytes()); // IFLA_INFO_KIND
                    message.end_nest(info);
                }
            }
        }
        message.finish()?;
        self.end_message(start)
    }

    /// Adds an encoded message that asks for no acknowledgement.
    pub(super) fn encoded(&mut self, message: &[u8]) -> Result<()> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message);
        self.end_message(start)
    }

    /// Numbers the last message, which begins at `start`, and ends the batch before it if it does
    /// not fit.
    fn end_message(&mut self, start: usize) -> Result<()> {
        let batch = self.ends.last().copied().unwrap_or(0);
        if self.bytes.len() - batch > BATCH_BYTES && start > batch {
            self.acknowledge()?;
            self.ends.push(start);
        }
        self.count += 1;
        self.last = start;
        let number = self.count;
        self.patch(|header| {
            header.sequence = number;
            header.flags |= NLM_F_REQUEST;
        })
    }

    /// Makes the last message ask for an acknowledgement.
    fn acknowledge(&mut self) -> Result<()> {
        if self.count == 0 {
            return Ok(());
        }
        self.patch(|header| header.flags |= NLM_F_ACK)
    }

    fn patch(&mut self, change: impl FnOnce(&mut Header)) -> Result<()> {
        let bytes = self.bytes.get_mut(self.last..).unwrap_or_default();
        let mut header = Header::read(bytes).context("a message has a header")?;
        change(&mut header);
        let new = header.to_bytes();
        bytes[..new.len()].copy_from_slice(&new);
        Ok(())
    }
}

/// Returns a `struct rtmsg` of a route in table main: family, length of destination and source,
/// TOS, table, protocol, scope, type, flags.
fn rtmsg(address: IpAddr, length: u8, protocol: u8) -> [u8; 12] {
    [family(address), length, 0, 0, RT_TABLE_MAIN, protocol, 0, RTN_UNICAST, 0, 0, 0, 0]
}

/// Returns a request for all routes, or only those of table main, or of a protocol that is not 0;
/// the kernel filters by it.
pub(super) fn dump_routes(family: u8, main: bool, protocol: u8) -> Result<Vec<u8>> {
    let table = if main { RT_TABLE_MAIN } else { 0 };
    dump(RTM_GETROUTE, &[family, 0, 0, 0, table, protocol, 0, 0, 0, 0, 0, 0])
}

/// Returns a request for all rules.
pub(super) fn dump_rules(family: u8) -> Result<Vec<u8>> {
    dump(RTM_GETRULE, &[family, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0])
}

fn dump(kind: u16, head: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut message = MessageWriter::begin(&mut bytes, kind, NLM_F_REQUEST | NLM_F_DUMP);
    message.body(head);
    message.finish()?;
    Ok(bytes)
}

/// Returns `AF_INET` or `AF_INET6`.
fn family(address: IpAddr) -> u8 {
    if address.is_ipv4() { 2 } else { 10 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use trueup_netlink::wire::Messages;

    #[test]
    fn batches_are_full_and_the_last_message_of_each_asks_for_its_answer() {
        let gateway = IpAddr::from([10, 200, 0, 2]);
        let requests = Requests::of(3_000, |requests, at| {
            let [.., a, b] = at.to_be_bytes();
            requests.route(Verb::Create, (IpAddr::from([16, a, b, 0]), 24), gateway, 116)
        })
        .unwrap();
        let batches: Vec<&[u8]> = requests.batches().collect();
        assert_eq!(batches.len(), 3);
        let mut sequence = 0;
        for (at, batch) in batches.iter().enumerate() {
            assert!(batch.len() <= BATCH_BYTES && (at == 2 || batch.len() > BATCH_BYTES - 100));
            let headers: Vec<Header> = Messages::new(batch).map(|it| it.header).collect();
            let (last, others) = headers.split_last().unwrap();
            assert!(last.flags & NLM_F_ACK != 0);
            assert!(others.iter().all(|header| header.flags & NLM_F_ACK == 0));
            for header in headers {
                sequence += 1;
                assert_eq!(header.sequence, sequence);
            }
        }
        assert_eq!(sequence, 3_000);
        assert_eq!(Requests::of(0, |_, _| Ok(())).unwrap().batches().count(), 0);
    }
}

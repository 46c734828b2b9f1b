//! Requests as bytes, made before the clock starts: many messages a batch, of which the last alone
//! asks for its acknowledgement. Written by hand, so that they are the least that the kernel takes.

use std::net::IpAddr;

use anyhow::{Context as _, Result};
use trueup_netlink::wire::{
    Header, MessageWriter, NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REPLACE,
    NLM_F_REQUEST,
};

/// More in one send makes nothing cheaper.
const BATCH_BYTES: usize = 64 * 1024;

const RTM_NEWLINK: u16 = 16;
const RTM_DELLINK: u16 = 17;
const RTM_NEWADDR: u16 = 20;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
const RTM_GETROUTE: u16 = 26;
const RTM_NEWRULE: u16 = 32;
const RTM_DELRULE: u16 = 33;
const RTM_GETRULE: u16 = 34;
const RTM_NEWNEXTHOP: u16 = 104;
const RTM_DELNEXTHOP: u16 = 105;

const IFLA_IFNAME: u16 = 3;
const IFLA_LINKINFO: u16 = 18;
const IFLA_INFO_KIND: u16 = 1;
const IFA_ADDRESS: u16 = 1;
const IFA_LOCAL: u16 = 2;
const RTA_DST: u16 = 1;
const RTA_GATEWAY: u16 = 5;
const RTA_NH_ID: u16 = 30;
const FRA_SRC: u16 = 2;
const FRA_PRIORITY: u16 = 6;
const FRA_PROTOCOL: u16 = 21;
const NHA_ID: u16 = 1;
const NHA_OIF: u16 = 5;
const NHA_GATEWAY: u16 = 6;

const RTN_UNICAST: u8 = 1;
const RT_SCOPE_NOWHERE: u8 = 255;
const RT_TABLE_MAIN: u8 = 254;
const FR_ACT_TO_TBL: u8 = 1;

/// Requests in batches.
#[derive(Debug, Default)]
pub struct Requests {
    bytes: Vec<u8>,
    /// Where each batch ends, but the last.
    ends: Vec<usize>,
    /// Where the last message begins.
    last: usize,
    count: u32,
}

/// What is done to a route or a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verb {
    /// It is made, exclusively.
    Create,
    /// It takes the place of the one on its key.
    Replace,
    /// It is deleted, whoever made it.
    Delete,
}

impl Requests {
    /// The batches.
    pub(super) fn batches(&self) -> impl Iterator<Item = &[u8]> {
        let starts = [0].into_iter().chain(self.ends.iter().copied());
        let ends = self.ends.iter().copied().chain([self.bytes.len()]);
        starts
            .zip(ends)
            .filter_map(|(start, end)| self.bytes.get(start..end))
            .filter(|batch| !batch.is_empty())
    }

    /// Those that `each` writes, for every place below `count`.
    pub(super) fn of(
        count: usize,
        mut each: impl FnMut(&mut Requests, usize) -> Result<()>,
    ) -> Result<Requests> {
        let mut requests = Requests::default();
        for at in 0..count {
            each(&mut requests, at)?;
        }
        requests.finish()
    }

    /// To be called behind the last of them: it is then the one that is acknowledged.
    pub(super) fn finish(mut self) -> Result<Requests> {
        self.acknowledge()?;
        Ok(self)
    }

    /// How many they are.
    pub(super) fn len(&self) -> usize {
        self.count as usize
    }

    /// A route in table main.
    pub(super) fn route(
        &mut self,
        verb: Verb,
        (address, length): (IpAddr, u8),
        gateway: IpAddr,
        protocol: u8,
    ) -> Result<()> {
        let kind = match verb {
            Verb::Delete => RTM_DELROUTE,
            Verb::Create | Verb::Replace => RTM_NEWROUTE,
        };
        let family = family(address);
        // struct rtmsg: family, length of destination and source, TOS, table, protocol, scope,
        // type, flags.
        let mut head = [0; 12];
        head[0] = family;
        head[1] = length;
        head[4] = RT_TABLE_MAIN;
        if verb == Verb::Delete {
            head[6] = RT_SCOPE_NOWHERE;
        } else {
            head[5] = protocol;
            head[7] = RTN_UNICAST;
        }
        self.push(kind, verb, &head, |message| {
            message.attr_ip(RTA_DST, address);
            if verb != Verb::Delete {
                message.attr_ip(RTA_GATEWAY, gateway);
            }
        })
    }

    /// A route in table main that points at a nexthop object.
    pub(super) fn route_by_object(
        &mut self,
        verb: Verb,
        (address, length): (IpAddr, u8),
        object: u32,
        protocol: u8,
    ) -> Result<()> {
        let mut head = [0; 12];
        head[0] = family(address);
        head[1] = length;
        head[4] = RT_TABLE_MAIN;
        head[5] = protocol;
        head[7] = RTN_UNICAST;
        self.push(RTM_NEWROUTE, verb, &head, |message| {
            message.attr_ip(RTA_DST, address);
            message.attr_u32(RTA_NH_ID, object);
        })
    }

    /// A nexthop object: a gateway behind a link.
    pub(super) fn object(
        &mut self,
        verb: Verb,
        id: u32,
        gateway: IpAddr,
        link: u32,
        protocol: u8,
    ) -> Result<()> {
        let kind = match verb {
            Verb::Delete => RTM_DELNEXTHOP,
            Verb::Create | Verb::Replace => RTM_NEWNEXTHOP,
        };
        // struct nhmsg: family, scope, protocol, one reserved, flags.
        let mut head = [0; 8];
        if verb != Verb::Delete {
            head[0] = family(gateway);
            head[2] = protocol;
        }
        self.push(kind, verb, &head, |message| {
            message.attr_u32(NHA_ID, id);
            if verb != Verb::Delete {
                message.attr_u32(NHA_OIF, link);
                message.attr_ip(NHA_GATEWAY, gateway);
            }
        })
    }

    /// A rule that leads from a single address to table main.
    pub(super) fn rule(
        &mut self,
        verb: Verb,
        priority: u32,
        from: IpAddr,
        protocol: u8,
    ) -> Result<()> {
        let kind = match verb {
            Verb::Delete => RTM_DELRULE,
            Verb::Create | Verb::Replace => RTM_NEWRULE,
        };
        // struct fib_rule_hdr: family, length of destination and source, TOS, table, two reserved,
        // action, flags.
        let mut head = [0; 12];
        head[0] = family(from);
        head[2] = if from.is_ipv4() { 32 } else { 128 };
        head[4] = RT_TABLE_MAIN;
        head[7] = FR_ACT_TO_TBL;
        self.push(kind, verb, &head, |message| {
            message.attr_ip(FRA_SRC, from);
            message.attr_u32(FRA_PRIORITY, priority);
            message.attr_u8(FRA_PROTOCOL, protocol);
        })
    }

    /// An address on a link, by the link's index.
    pub(super) fn address(&mut self, link: u32, address: IpAddr, length: u8) -> Result<()> {
        // struct ifaddrmsg: family, length, flags, scope, index.
        let mut head = [0; 8];
        head[0] = family(address);
        head[1] = length;
        head[4..].copy_from_slice(&link.to_ne_bytes());
        self.push(RTM_NEWADDR, Verb::Create, &head, |message| {
            message.attr_ip(IFA_LOCAL, address);
            message.attr_ip(IFA_ADDRESS, address);
        })
    }

    /// A link of kind ifb, made or deleted by its name.
    pub(super) fn link(&mut self, verb: Verb, name: &str) -> Result<()> {
        let kind = match verb {
            Verb::Delete => RTM_DELLINK,
            Verb::Create | Verb::Replace => RTM_NEWLINK,
        };
        self.push(kind, verb, &[0; 16], |message| {
            message.attr_string(IFLA_IFNAME, name.as_bytes());
            if verb != Verb::Delete {
                let info = message.nest(IFLA_LINKINFO);
                message.attr_string(IFLA_INFO_KIND, b"ifb");
                message.end_nest(info);
            }
        })
    }

    fn push(
        &mut self,
        kind: u16,
        verb: Verb,
        head: &[u8],
        attributes: impl FnOnce(&mut MessageWriter<'_>),
    ) -> Result<()> {
        let start = self.bytes.len();
        let flags = NLM_F_REQUEST
            | match verb {
                Verb::Create => NLM_F_CREATE | NLM_F_EXCL,
                Verb::Replace => NLM_F_REPLACE,
                Verb::Delete => 0,
            };
        let mut message = MessageWriter::begin(&mut self.bytes, kind, flags);
        message.body(head);
        attributes(&mut message);
        message.finish()?;
        self.end_message(start)
    }

    /// A message that is encoded already, which asks for no acknowledgement.
    pub(super) fn encoded(&mut self, message: &[u8]) -> Result<()> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(message);
        self.end_message(start)
    }

    /// Numbers the message that begins at `start`, which is the last, and has a batch end before it
    /// where it does not fit.
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

    /// Has the message that was pushed last ask for its acknowledgement.
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

/// What a dump of routes is limited to, beside its family; the kernel heeds it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wanted {
    /// Table main alone.
    pub(super) main: bool,
    /// Who made it.
    pub(super) protocol: Option<u8>,
}

/// A request for all routes, or those wanted.
pub(super) fn dump_routes(family: u8, wanted: Wanted) -> Result<Vec<u8>> {
    let mut head = [0; 12];
    head[0] = family;
    head[4] = if wanted.main { RT_TABLE_MAIN } else { 0 };
    head[5] = wanted.protocol.unwrap_or(0);
    dump(RTM_GETROUTE, &head)
}

/// A request for all rules.
pub(super) fn dump_rules(family: u8) -> Result<Vec<u8>> {
    let mut head = [0; 12];
    head[0] = family;
    dump(RTM_GETRULE, &head)
}

fn dump(kind: u16, head: &[u8]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let mut message = MessageWriter::begin(&mut bytes, kind, NLM_F_REQUEST | NLM_F_DUMP);
    message.body(head);
    message.finish()?;
    Ok(bytes)
}

/// `AF_INET`, `AF_INET6`.
pub(super) fn family(address: IpAddr) -> u8 {
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

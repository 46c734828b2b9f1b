//! One side of the comparison: the model or the running kernel, behind a transport.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use trueup_netlink::{Group, Namespace, Transport};
use trueup_testkit::{Action, Kind, RawMessage};

use crate::compared::compared;
use crate::message::{DUMP, Message, ifinfomsg};

const NLM_F_MULTI: u16 = 0x02;
const NLM_F_DUMP_FILTERED: u16 = 0x20;
const NLMSG_ERROR: u16 = 2;
const NLMSG_DONE: u16 = 3;
const IFLA_LINK: u16 = 5;
const IFLA_LINKINFO: u16 = 18;
const IFLA_IFALIAS: u16 = 20;
const IFLA_GROUP: u16 = 27;
const IFF_UP: u8 = 0x1;

/// The answer to one request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reply {
    /// Positive; 0 is success.
    pub(crate) errno: i32,
    /// Rows of a dump or the answer to a GET, reduced by `stable` and sorted.
    pub(crate) rows: Vec<RawMessage>,
    /// True if the answer ended with `NLMSG_DONE`, not with `NLMSG_ERROR`. The end reports the
    /// error of a dump that has started.
    pub(crate) is_done: bool,
    /// `NLM_F_MULTI` and `NLM_F_DUMP_FILTERED`, of the rows and of the end.
    pub(crate) flags: (u16, u16),
}

pub(crate) struct Machine {
    requests: Box<dyn Transport>,
    events: Box<dyn Transport>,
    sequence: u32,
    /// The index of the link last requested.
    recent: u32,
    /// The IPv6 addresses present when the machine last settled.
    settled: BTreeSet<(u32, Vec<u8>)>,
    /// The last announcement of each link: the kernel also announces links if only the carrier
    /// changed.
    links: BTreeMap<u32, RawMessage>,
}

impl Machine {
    pub(crate) fn new(namespace: &Namespace) -> Self {
        let mut requests = namespace.connect().unwrap();
        requests.prepare_requests().unwrap();
        let mut events = namespace.connect().unwrap();
        for group in Group::OBJECTS.into_iter().chain([Group::NEXTHOP]) {
            events.join(group).unwrap();
        }
        Self {
            requests,
            events,
            sequence: 0,
            recent: 0,
            settled: BTreeSet::new(),
            links: BTreeMap::new(),
        }
    }

    /// Sends one request and waits for its answer.
    pub(crate) fn send(&mut self, message: &Message) -> Reply {
        self.sequence += 1;
        const RTM_NEWLINK: u16 = 16;
        if let Some(&[a, b, c, d]) = message.body.get(4..8)
            && message.kind == RTM_NEWLINK
        {
            self.recent = u32::from_ne_bytes([a, b, c, d]);
        }
        let mut bytes = Vec::new();
        let length = u32::try_from(16 + message.body.len()).unwrap();
        bytes.extend(length.to_ne_bytes());
        bytes.extend(message.kind.to_ne_bytes());
        bytes.extend((message.flags | 0x5).to_ne_bytes());
        bytes.extend(self.sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(&message.body);
        self.requests.send(&bytes).unwrap();

        let mut reply = Reply::default();
        let mut buffer = Vec::with_capacity(256 * 1024);
        loop {
            match self.requests.receive(&mut buffer) {
                Ok(_) => {}
                Err(error) => panic!("no answer to {message}: {error}"),
            }
            for (kind, flags, sequence, body) in messages(&buffer) {
                assert_eq!(sequence, self.sequence);
                let flags = flags & (NLM_F_MULTI | NLM_F_DUMP_FILTERED);
                match kind {
                    NLMSG_ERROR | NLMSG_DONE => {
                        reply.is_done = kind == NLMSG_DONE;
                        reply.flags.1 = flags;
                        reply.errno = -i32::from_ne_bytes(body[..4].try_into().unwrap());
                        reply.rows.sort();
                        return reply;
                    }
                    _ => {
                        let row = RawMessage::parse(kind, body).as_ref().and_then(compared);
                        reply.flags.0 |= row.as_ref().map_or(0, |_| flags);
                        reply.rows.extend(row);
                    }
                }
            }
        }
    }

    /// Returns all rows of these kinds, reduced and sorted.
    pub(crate) fn everything(&mut self, kinds: &[Kind]) -> Vec<RawMessage> {
        let mut rows = Vec::new();
        for (kind, families) in [
            (Kind::Link, &[0_u8][..]),
            (Kind::Address, &[2, 10]),
            (Kind::Neighbour, &[2, 10, 7]),
            (Kind::Nexthop, &[0]),
            (Kind::Route, &[2, 10]),
            (Kind::Rule, &[2, 10]),
        ]
        .into_iter()
        .filter(|(kind, _)| kinds.contains(kind))
        {
            for family in families {
                let mut fixed = vec![0; kind.header_len()];
                fixed[0] = *family;
                let all = Message::new(kind.new_type() + 2, DUMP, &fixed);
                rows.extend(self.send(&all).rows);
                if kind == Kind::Neighbour && *family != 7 {
                    fixed[10] = 8; // NTF_PROXY
                    let proxies = Message::new(kind.new_type() + 2, DUMP, &fixed);
                    rows.extend(self.send(&proxies).rows);
                }
            }
        }
        rows.sort();
        rows
    }

    /// Waits until the kernel's work queues have finished: duplicate detection is over, and each
    /// link's operational state follows its carrier. The model needs no wait.
    pub(crate) fn settle(&mut self) {
        self.settle_carriers();
        const IFA_F_TENTATIVE: u8 = 0x40;
        const IFA_F_DADFAILED: u8 = 0x08;
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let addresses = self.raw_dump(Kind::Address, 10);
            let tentative = addresses
                .iter()
                .any(|row| row.header[2] & (IFA_F_TENTATIVE | IFA_F_DADFAILED) == IFA_F_TENTATIVE);
            if !tentative {
                self.wait_for_lock();
                return self.settle_undetected(&addresses);
            }
            assert!(Instant::now() < end, "an address stays tentative");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Waits for addresses without duplicate detection (`IFA_F_NODAD`). They are never tentative,
    /// but the same work queue announces them. Then they have their local route, unless another
    /// writer took it.
    fn settle_undetected(&mut self, addresses: &[RawMessage]) {
        const IFA_F_NODAD: u8 = 0x02;
        const IFA_ADDRESS: u16 = 1;
        const IFA_LOCAL: u16 = 2;
        const RTA_DST: u16 = 1;
        const RTN_LOCAL: u8 = 2;
        let undetected = |row: &&RawMessage| row.header[2] & IFA_F_NODAD != 0;
        let end = Instant::now() + Duration::from_secs(5);
        let address = |row: &RawMessage| {
            let local = row.attrs.get(&IFA_LOCAL);
            let address = local.or_else(|| row.attrs.get(&IFA_ADDRESS))?;
            Some((row.device(), address.clone()))
        };
        let mut missing: Vec<_> = addresses
            .iter()
            .filter(undetected)
            .filter_map(address)
            .filter(|address| !self.settled.contains(address))
            .collect();
        self.settled = addresses.iter().filter_map(address).collect();
        while !missing.is_empty() && Instant::now() < end {
            for route in self.raw_dump(Kind::Route, 10) {
                if let Some(own) =
                    route.attrs.get(&RTA_DST).filter(|_| route.header[7] == RTN_LOCAL)
                {
                    missing.retain(|(device, address)| *device != route.device() || address != own);
                }
            }
        }
        self.wait_for_lock();
    }

    /// Waits until no other process changes anything, by a request for an unused index: it needs
    /// the lock that a writer holds.
    fn wait_for_lock(&mut self) {
        const RTM_SETLINK: u16 = 19;
        const ENODEV: i32 = 19;
        let nothing = Message::new(RTM_SETLINK, 0, &ifinfomsg(1 << 30, 0, 0));
        assert_eq!(self.send(&nothing).errno, ENODEV);
    }

    /// Waits for the kernel's link watch, which announces carriers after the request that changed
    /// them; then for the watch's lock.
    fn settle_carriers(&mut self) {
        const IFLA_OPERSTATE: u16 = 16;
        const IFLA_CARRIER: u16 = 33;
        const IF_OPER_UNKNOWN: u8 = 0;
        const IF_OPER_UP: u8 = 6;
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let links = self.raw_dump(Kind::Link, 0);
            let moving = links.iter().filter(|row| {
                let byte = |number| row.attrs.get(&number).map_or(0, |payload| payload[0]);
                // An upper link has a state only after its first update.
                let unknown =
                    byte(IFLA_OPERSTATE) == IF_OPER_UNKNOWN && !row.attrs.contains_key(&IFLA_LINK);
                let message = byte(IFLA_OPERSTATE) == IF_OPER_UP || unknown;
                // A link that is down is reported as down, whatever its carrier.
                row.header[8] & IFF_UP != 0 && message != (byte(IFLA_CARRIER) == 1)
            });
            // In the watch's order: the pair's end that was set up, then the other.
            let Some(moving) = moving.min_by_key(|row| row.device() != self.recent) else {
                // For links that are down, no process can see if the watch has updated them.
                for row in links.iter().filter(|row| row.header[8] & IFF_UP == 0) {
                    self.look_at(row.device());
                }
                return self.wait_for_lock();
            };
            assert!(Instant::now() < end, "a carrier stays untold: {moving}");
            self.look_at(moving.device());
        }
    }

    /// Requests a link. The watch updates most links only once a second, but a requested link at
    /// once.
    fn look_at(&mut self, index: u32) {
        let get = Message::new(Kind::Link.new_type() + 2, 0, &ifinfomsg(index, 0, 0));
        self.send(&get);
    }

    /// Deletes proxies. A proxy without a device outlives its namespace, and a new namespace at the
    /// same place in memory inherits it.
    pub(crate) fn forget_proxies(&mut self) {
        const NTF_PROXY: u8 = 0x08;
        for family in [2, 10] {
            let mut fixed = vec![0; Kind::Neighbour.header_len()];
            fixed[0] = family;
            fixed[10] = NTF_PROXY;
            let all = Message::new(Kind::Neighbour.new_type() + 2, DUMP, &fixed);
            for row in self.send(&all).rows {
                let mut delete = Message::new(Kind::Neighbour.new_type() + 1, 0, &row.header);
                for (number, payload) in &row.attrs {
                    delete = delete.with(*number, payload);
                }
                let reply = self.send(&delete);
                assert_eq!(reply.errno, 0, "{row}: {reply:?}");
            }
        }
    }

    /// Returns the rows unreduced.
    pub(crate) fn raw_dump(&mut self, kind: Kind, family: u8) -> Vec<RawMessage> {
        self.sequence += 1;
        let mut body = vec![0; kind.header_len()];
        body[0] = family;
        let mut bytes = Vec::new();
        bytes.extend(u32::try_from(16 + body.len()).unwrap().to_ne_bytes());
        bytes.extend((kind.new_type() + 2).to_ne_bytes());
        bytes.extend((DUMP | 1).to_ne_bytes());
        bytes.extend(self.sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(&body);
        self.requests.send(&bytes).unwrap();
        let mut rows = Vec::new();
        let mut buffer = Vec::with_capacity(256 * 1024);
        loop {
            self.requests.receive(&mut buffer).unwrap();
            for (kind, _, _, body) in messages(&buffer) {
                if matches!(kind, NLMSG_ERROR | NLMSG_DONE) {
                    return rows;
                }
                rows.extend(RawMessage::parse(kind, body));
            }
        }
    }

    /// Returns the announcements since the last call, reduced by `compared`, in order. Of a link it
    /// returns only the last one, if it changed: the number of announcements is not promised.
    pub(crate) fn announced(&mut self) -> Vec<RawMessage> {
        let mut all = Vec::new();
        let mut last = BTreeMap::new();
        let mut buffer = Vec::with_capacity(256 * 1024);
        while self.events.receive(&mut buffer).is_ok() {
            for (kind, _, _, body) in messages(&buffer) {
                let Some(message) = RawMessage::parse(kind, body).as_ref().and_then(compared)
                else {
                    continue;
                };
                if message.kind != Kind::Link {
                    all.push(message);
                } else if message.family() != 7 {
                    last.insert(message.device(), message);
                }
            }
        }
        for (index, message) in last {
            // The kernel does not announce the arrival of a pair's other end. Nor, for a link that
            // is down, changes of alias, group and the kind's data. The next announcement has them
            // all.
            let mut essence = message.clone();
            if essence.action == Action::New {
                essence.attrs.remove(&IFLA_LINK);
                if essence.header[8] & IFF_UP == 0 {
                    for number in [IFLA_LINKINFO, IFLA_IFALIAS, IFLA_GROUP] {
                        essence.attrs.remove(&number);
                    }
                }
            }
            if self.links.insert(index, essence.clone()).as_ref() != Some(&essence) {
                all.push(essence);
            }
        }
        all
    }
}

/// Returns type, flags, sequence number and body of each message in a datagram.
fn messages(mut bytes: &[u8]) -> Vec<(u16, u16, u32, &[u8])> {
    let mut all = Vec::new();
    while bytes.len() >= 16 {
        let length = u32::from_ne_bytes(bytes[..4].try_into().unwrap()) as usize;
        let kind = u16::from_ne_bytes(bytes[4..6].try_into().unwrap());
        let flags = u16::from_ne_bytes(bytes[6..8].try_into().unwrap());
        let sequence = u32::from_ne_bytes(bytes[8..12].try_into().unwrap());
        all.push((kind, flags, sequence, &bytes[16..length]));
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    all
}

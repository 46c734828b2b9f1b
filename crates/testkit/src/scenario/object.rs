//! The kernel's rows in iproute2's words, read from raw bytes: written apart from the codecs under test.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::Selection;
use super::command::{BRIDGE, INET, INET6, RTAX, TYPES};
use super::text::Phrase;
use crate::message::{Action, Kind, RawMessage, attributes, u16_at, u32_at};

/// Names of interfaces by index.
pub(super) type Names = BTreeMap<u32, String>;

/// A row as a phrase. With `details` also what is status, and what has a value by chance.
pub(super) fn phrase(row: &RawMessage, names: &Names, details: bool) -> Phrase {
    let mut words = String::new();
    let mut say = Say {
        row,
        names,
        details,
        out: &mut words,
    };
    match row.kind {
        Kind::Link => say.link(),
        Kind::Address => say.address(),
        Kind::Neighbour if row.family() == BRIDGE => say.forwarding(),
        Kind::Neighbour => say.neighbour(),
        Kind::Route => say.route(),
        Kind::Rule => say.rule(),
        Kind::Nexthop => say.nexthop(),
    }
    Phrase::new(&words)
}

/// An expected row, with what goes without saying.
pub(super) fn expected(kind: Kind, text: &str) -> Phrase {
    let phrase = Phrase::new(text);
    match kind {
        Kind::Route => phrase.or("proto", "boot").or("table", "main"),
        Kind::Neighbour if !text.contains("proxy") => phrase.or("nud", "permanent"),
        _ => phrase,
    }
}

/// An announcement.
pub(super) fn event(row: &RawMessage, names: &Names) -> String {
    let gone = if row.action == Action::Del {
        "deleted "
    } else {
        ""
    };
    format!("{gone}{} {}", row.kind.word(), phrase(row, names, false))
}

/// An expected announcement, in the form of [`event`].
pub(super) fn expected_event(text: &str) -> String {
    let (gone, object) = match text.strip_prefix("deleted ") {
        Some(object) => ("deleted ", object),
        None => ("", text),
    };
    let (word, rest) = object.split_once(' ').unwrap_or((object, ""));
    let kind = Kind::ALL.into_iter().find(|kind| kind.word() == word);
    let phrase = kind.map_or_else(|| Phrase::new(rest), |kind| expected(kind, rest));
    format!("{gone}{word} {phrase}")
}

impl Selection {
    pub(super) fn takes(&self, row: &RawMessage, phrase: &Phrase, names: &Names) -> bool {
        let family = self.family == 0 || row.family() == self.family;
        let with = self.with.iter().all(|(word, value)| {
            phrase.value(word) == Some(value)
                || (word == "dev" && names.get(&row.device()).is_some_and(|name| name == value))
                || (word == "to" && phrase.says(&Phrase::new(value)))
        });
        family && with && (self.all || !is_the_kernels_own(row))
    }
}

/// What is there without anybody's doing, or follows from something else.
pub(super) fn is_the_kernels_own(row: &RawMessage) -> bool {
    const KERNEL: u8 = 2;
    const TABLE_LOCAL: u32 = 255;
    const LOOPBACK: u32 = 1;
    let head = row.header.as_slice();
    match row.kind {
        Kind::Route => {
            row.protocol() == Some(KERNEL)
                || (row.table() == Some(TABLE_LOCAL) && row.header[7] == 5)
        }
        Kind::Rule => row.protocol() == Some(KERNEL),
        Kind::Address if row.family() == INET6 => match row.attrs.get(&1).map(Vec::as_slice) {
            Some([0xfe, second, ..]) => {
                second & 0xc0 == 0x80 && row.protocol().is_none_or(|p| (1..=3).contains(&p))
            }
            Some(address) => row.device() == LOOPBACK && address == Ipv6Addr::LOCALHOST.octets(),
            None => false,
        },
        Kind::Address => {
            row.device() == LOOPBACK
                && row
                    .attrs
                    .get(&2)
                    .is_some_and(|local| local == &[127, 0, 0, 1])
        }
        Kind::Neighbour if row.family() == BRIDGE => {
            // The ports' own addresses, and those of multicast groups.
            let multicast = row
                .attrs
                .get(&2)
                .is_some_and(|lladdr| lladdr.first().is_some_and(|b| b & 1 != 0));
            multicast || u16_at(head, 8) & 0x80 != 0 && head[10] & 0x02 == 0
        }
        Kind::Link => row.device() == LOOPBACK,
        Kind::Neighbour | Kind::Nexthop => false,
    }
}

struct Say<'a> {
    row: &'a RawMessage,
    names: &'a Names,
    details: bool,
    out: &'a mut String,
}

fn ip(bytes: &[u8]) -> String {
    if let Ok(four) = <[u8; 4]>::try_from(bytes) {
        return Ipv4Addr::from(four).to_string();
    }
    match <[u8; 16]>::try_from(bytes) {
        Ok(sixteen) => Ipv6Addr::from(sixteen).to_string(),
        Err(_) => format!("?{bytes:02x?}").replace(' ', ""),
    }
}

fn lladdr(bytes: &[u8]) -> String {
    let bytes: Vec<_> = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    bytes.join(":")
}

fn text(bytes: &[u8]) -> String {
    let bytes = bytes.strip_suffix(&[0]).unwrap_or(bytes);
    String::from_utf8_lossy(bytes).replace(' ', "_")
}

fn number(bytes: &[u8]) -> u32 {
    match bytes {
        [byte] => u32::from(*byte),
        [_, _] => u32::from(u16_at(bytes, 0)),
        [_, _, _, _, ..] => u32_at(bytes, 0),
        _ => 0,
    }
}

fn by_number(names: &[(&'static str, u32)], number: u32) -> String {
    let known = names.iter().find(|(_, n)| *n == number);
    known.map_or_else(|| number.to_string(), |(name, _)| (*name).to_owned())
}

impl<'a> Say<'a> {
    fn word(&mut self, word: impl AsRef<str>) {
        if !self.out.is_empty() {
            self.out.push(' ');
        }
        self.out.push_str(word.as_ref());
    }

    fn pair(&mut self, word: &str, value: impl ToString) {
        self.word(word);
        self.word(value.to_string());
    }

    fn attr(&self, number: u16) -> Option<&'a [u8]> {
        self.row.attrs.get(&number).map(Vec::as_slice)
    }

    fn dev(&self, index: u32) -> String {
        self.names
            .get(&index)
            .cloned()
            .unwrap_or_else(|| format!("if{index}"))
    }

    /// The names of the bits that are set.
    fn flags(&mut self, set: u32, flags: &[(u32, &str)]) {
        for (bit, name) in flags {
            if set & bit != 0 {
                self.word(name);
            }
        }
    }

    fn prefix(&mut self, attr: u16, len: u8) -> String {
        match self.attr(attr) {
            None if len == 0 => "default".to_owned(),
            None if self.row.family() == INET => format!("0.0.0.0/{len}"),
            None => format!("::/{len}"),
            Some(address) => format!("{}/{len}", ip(address)),
        }
    }

    fn link(&mut self) {
        const IFF_UP: u32 = 1;
        self.word(self.row.ifname().unwrap_or_default());
        let info: BTreeMap<u16, &[u8]> = attributes(self.attr(18).unwrap_or_default()).collect();
        let kind = info.get(&1).map(|kind| text(kind)).unwrap_or_default();
        if !kind.is_empty() {
            self.pair("type", &kind);
        }
        let up = u32_at(&self.row.header, 8) & IFF_UP != 0;
        self.word(if up { "up" } else { "down" });
        if let Some(mtu) = self
            .row
            .attr_u32(4)
            .filter(|mtu| *mtu != 1500 || self.details)
        {
            self.pair("mtu", mtu);
        }
        if let Some(lower) = self.row.attr_u32(5).filter(|lower| *lower != 0) {
            self.pair(
                if kind == "veth" { "peer" } else { "link" },
                self.dev(lower),
            );
        }
        if let Some(master) = self.row.attr_u32(10) {
            self.pair("master", self.dev(master));
        }
        if let Some(alias) = self.attr(20) {
            self.pair("alias", text(alias));
        }
        if let Some(group) = self.row.attr_u32(27).filter(|group| *group != 0) {
            self.pair("group", group);
        }
        if let Some(address) = self.attr(1).filter(|_| self.details) {
            self.pair("address", lladdr(address));
        }
        let data: BTreeMap<u16, &[u8]> =
            attributes(info.get(&2).copied().unwrap_or_default()).collect();
        let said: &[(u16, &str)] = match kind.as_str() {
            "vxlan" => &[
                (1, "id"),
                (2, "remote"),
                (16, "remote"),
                (4, "local"),
                (17, "local"),
                (15, "dstport"),
            ],
            "vlan" | "vlan.1q" => &[(1, "id")],
            "macvlan" => &[(1, "mode")],
            "vrf" => &[(1, "table")],
            "bond" => &[(1, "mode")],
            "bridge" if self.details => &[
                (1, "forward_delay"),
                (4, "ageing_time"),
                (5, "stp_state"),
                (7, "vlan_filtering"),
            ],
            _ => &[],
        };
        for (attr, word) in said {
            let Some(bytes) = data.get(attr) else {
                continue;
            };
            let value = match *word {
                "remote" | "local" => ip(bytes),
                "dstport" => u16::from_be_bytes([bytes[0], bytes[1]]).to_string(),
                "mode" if kind == "macvlan" => {
                    let modes = [
                        ("private", 1),
                        ("vepa", 2),
                        ("bridge", 4),
                        ("passthru", 8),
                        ("source", 16),
                    ];
                    by_number(&modes, number(bytes))
                }
                _ => number(bytes).to_string(),
            };
            self.pair(word, value);
        }
    }

    fn address(&mut self) {
        let far = self.attr(1).map(ip).unwrap_or_default();
        let local = self.attr(2).map_or_else(|| far.clone(), ip);
        let dev = self.dev(self.row.device());
        let len = self.row.header[1];
        if far == local {
            self.word(format!("{local}/{len}"));
        } else {
            self.word(local);
            self.pair("peer", format!("{far}/{len}"));
        }
        self.pair("dev", &dev);
        if self.row.header[3] != 0 && (self.details || self.row.family() == INET) {
            self.pair("scope", self.row.header[3]);
        }
        if let Some(label) = self.attr(3).map(text).filter(|label| *label != dev) {
            self.pair("label", label);
        }
        if let Some(broadcast) = self.attr(4) {
            self.pair("broadcast", ip(broadcast));
        }
        if let Some(metric) = self.row.attr_u32(9).filter(|metric| *metric != 0) {
            self.pair("metric", metric);
        }
        if let Some(protocol) = self.row.protocol() {
            self.pair("proto", protocol);
        }
        let life = self
            .attr(6)
            .map_or([u32::MAX; 2], |cache| [u32_at(cache, 0), u32_at(cache, 4)]);
        for (word, left) in ["preferred_lft", "valid_lft"].into_iter().zip(life) {
            if left != u32::MAX {
                // Clocks run: to the next ten seconds.
                self.pair(word, left.next_multiple_of(10));
            }
        }
        let set = self
            .row
            .attr_u32(8)
            .unwrap_or(u32::from(self.row.header[2]));
        let config = [
            (0x02, "nodad"),
            (0x10, "home"),
            (0x100, "mngtmpaddr"),
            (0x200, "noprefixroute"),
            (0x400, "autojoin"),
        ];
        self.flags(set, &config);
        if self.details {
            let status = [
                (0x01, "secondary"),
                (0x04, "optimistic"),
                (0x08, "dadfailed"),
                (0x20, "deprecated"),
                (0x40, "tentative"),
            ];
            self.flags(set, &status);
        }
    }

    fn neighbour(&mut self) {
        let flags = self.row.header[10];
        let proxy = flags & 0x08 != 0;
        if proxy {
            self.word("proxy");
        }
        self.word(self.attr(1).map(ip).unwrap_or_default());
        self.pair("dev", self.dev(self.row.device()));
        if let Some(address) = self.attr(2).filter(|address| !address.is_empty()) {
            self.pair("lladdr", lladdr(address));
        }
        if !proxy {
            let state = match u16_at(&self.row.header, 8) {
                state if state & 0x80 != 0 => "permanent",
                state if state & 0x40 != 0 => "noarp",
                _ => "dynamic",
            };
            self.pair("nud", state);
        }
        self.flags(
            u32::from(flags),
            &[(0x10, "extern_learn"), (0x80, "router")],
        );
        if let Some(protocol) = self.row.protocol().filter(|protocol| *protocol != 0) {
            self.pair("proto", protocol);
        }
    }

    fn forwarding(&mut self) {
        self.word(self.attr(2).map(lladdr).unwrap_or_default());
        self.pair("dev", self.dev(self.row.device()));
        if let Some(dst) = self.attr(1) {
            self.pair("dst", ip(dst));
        }
        if let Some(master) = self.row.attr_u32(9) {
            self.pair("master", self.dev(master));
        }
        let state = u16_at(&self.row.header, 8);
        self.pair(
            "nud",
            match state {
                state if state & 0x80 != 0 => "permanent",
                state if state & 0x40 != 0 => "static",
                _ => "dynamic",
            },
        );
        if let Some(protocol) = self.row.protocol() {
            self.pair("proto", protocol);
        }
    }

    fn route(&mut self) {
        let row = self.row;
        let [_, dst_len, src_len, tos, _, protocol, scope, kind] = row.header[..8] else {
            return;
        };
        if kind != 1 {
            self.word(by_number(TYPES, kind.into()));
        }
        let dst = self.prefix(1, dst_len);
        self.word(dst);
        if src_len != 0 {
            let from = self.prefix(2, src_len);
            self.pair("from", from);
        }
        if tos != 0 {
            self.pair("tos", format!("{tos:#x}"));
        }
        if let Some(id) = row.attr_u32(30) {
            self.pair("nhid", id);
        }
        if let Some(via) = via(&row.attrs.iter().map(|(n, v)| (*n, v.as_slice())).collect()) {
            self.pair("via", via);
        }
        if row.device() != 0 {
            self.pair("dev", self.dev(row.device()));
        }
        self.pair("proto", protocol);
        if let Some(metric) = row.attr_u32(6).filter(|metric| *metric != 0) {
            self.pair("metric", metric);
        }
        self.pair("table", row.table().unwrap_or(0));
        if scope != 0 {
            self.pair("scope", scope);
        }
        if let Some(src) = self.attr(7) {
            self.pair("src", ip(src));
        }
        for (attr, value) in attributes(self.attr(8).unwrap_or_default()) {
            let name = RTAX
                .iter()
                .find(|(_, n)| *n == u32::from(attr))
                .map_or("metric?", |(name, _)| name);
            self.pair(name, number(value));
        }
        // struct rta_cacheinfo: the third word, in hundredths of a second, if it ends at all.
        if let Some(cache) = self.attr(12).filter(|cache| cache.len() >= 12) {
            let left = u32_at(cache, 8).div_ceil(100);
            if left != 0 {
                self.pair("expires", left.next_multiple_of(10));
            }
        }
        if let Some([preference]) = self.attr(20)
            && *preference != 0
        {
            self.pair(
                "pref",
                by_number(&[("high", 1), ("low", 3)], (*preference).into()),
            );
        }
        self.hop_flags(u32_at(&row.header, 8));
        let mut rest = self.attr(9).unwrap_or_default();
        // struct rtnexthop: length, flags, weight less one, device; its attributes follow within the length.
        while rest.len() >= 8 {
            let len = usize::from(u16_at(rest, 0)).clamp(8, rest.len());
            self.word("nexthop");
            if let Some(via) = via(&attributes(&rest[8..len]).collect()) {
                self.pair("via", via);
            }
            self.pair("dev", self.dev(u32_at(rest, 4)));
            if rest[3] != 0 {
                self.pair("weight", u32::from(rest[3]) + 1);
            }
            self.hop_flags(u32::from(rest[2]));
            rest = rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        }
    }

    fn hop_flags(&mut self, set: u32) {
        self.flags(set, &[(4, "onlink")]);
        if self.details {
            self.flags(
                set,
                &[(1, "dead"), (16, "linkdown"), (8, "offload"), (64, "trap")],
            );
        }
    }

    fn rule(&mut self) {
        let row = self.row;
        let [family, dst_len, src_len, tos, _, _, _, action, ..] = row.header[..] else {
            return;
        };
        if family == INET6 {
            self.word("-6");
        }
        if row.header[8] & 2 != 0 {
            self.word("not");
        }
        self.pair("pref", row.attr_u32(6).unwrap_or(0));
        for (word, attr, len) in [("from", 2, src_len), ("to", 1, dst_len)] {
            if len != 0 {
                let prefix = self.prefix(attr, len);
                self.pair(word, prefix);
            }
        }
        for (word, attr) in [("iif", 3), ("oif", 17)] {
            if let Some(name) = self.attr(attr) {
                self.pair(word, text(name));
            }
        }
        let (mark, mask) = (row.attr_u32(10), row.attr_u32(16));
        if let Some(mark) = mark.filter(|mark| *mark != 0 || mask.is_some_and(|mask| mask != 0)) {
            match mask {
                Some(mask) if mask != u32::MAX || self.details => {
                    self.pair("fwmark", format!("{mark:#x}/{mask:#x}"))
                }
                _ => self.pair("fwmark", format!("{mark:#x}")),
            }
        }
        if tos != 0 {
            self.pair("tos", format!("{tos:#x}"));
        }
        if let Some(protocol) = self.attr(22) {
            self.pair("ipproto", number(protocol));
        }
        for (word, attr, width) in [("sport", 23, 2), ("dport", 24, 2), ("uidrange", 20, 4)] {
            if let Some(range) = self.attr(attr).filter(|range| range.len() == 2 * width) {
                let (first, last) = range.split_at(width);
                let (first, last) = (number(first), number(last));
                if first == last && word != "uidrange" {
                    self.pair(word, first);
                } else {
                    self.pair(word, format!("{first}-{last}"));
                }
            }
        }
        for (word, attr) in [("suppress_prefixlength", 14), ("suppress_ifgroup", 13)] {
            match row.attr_u32(attr) {
                Some(u32::MAX) if self.details => self.pair(word, -1),
                None | Some(u32::MAX) => {}
                Some(number) => self.pair(word, number),
            }
        }
        if let Some(protocol) = row
            .protocol()
            .filter(|protocol| *protocol != 0 || self.details)
        {
            self.pair("proto", protocol);
        }
        if self.attr(19).is_some_and(|l3mdev| l3mdev != [0]) {
            self.word("l3mdev");
        }
        match action {
            1 if row.table() != Some(0) => self.pair("table", row.table().unwrap_or(0)),
            2 => self.pair("goto", row.attr_u32(4).unwrap_or(0)),
            3 => self.word("nop"),
            6 => self.word("blackhole"),
            7 => self.word("unreachable"),
            8 => self.word("prohibit"),
            _ => {}
        }
    }

    fn nexthop(&mut self) {
        let row = self.row;
        self.pair("id", row.attr_u32(1).unwrap_or(0));
        if let Some(group) = self.attr(2) {
            let members = group.chunks_exact(8).map(|member| match member[4] {
                0 => u32_at(member, 0).to_string(),
                weight => format!("{},{}", u32_at(member, 0), u32::from(weight) + 1),
            });
            self.pair("group", members.collect::<Vec<_>>().join("/"));
        }
        if self.attr(4).is_some() {
            self.word("blackhole");
        }
        if let Some(via) = self.attr(6) {
            self.pair("via", ip(via));
        }
        if row.device() != 0 {
            self.pair("dev", self.dev(row.device()));
        }
        if let Some(protocol) = row.protocol().filter(|protocol| *protocol != 0) {
            self.pair("proto", protocol);
        }
        self.hop_flags(u32_at(&row.header, 4));
    }
}

fn via(attrs: &BTreeMap<u16, &[u8]>) -> Option<String> {
    const RTA_GATEWAY: u16 = 5;
    const RTA_VIA: u16 = 18;
    let gateway = attrs.get(&RTA_GATEWAY).map(|gateway| ip(gateway));
    gateway.or_else(|| attrs.get(&RTA_VIA).and_then(|via| via.get(2..)).map(ip))
}

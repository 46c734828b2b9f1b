//! The objects that direct packets, in iproute2's words: routes, rules, nexthops.

use std::collections::BTreeMap;

use super::super::numbers::{INET6, RTAX, TYPES};
use super::{Say, by_number, ip, number, text};
use trueup_testkit::{attributes, u16_at, u32_at};

impl Say<'_> {
    pub(super) fn route(&mut self) {
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
        // struct rta_cacheinfo: the third word, in hundredths of a second; 0 if it never expires.
        if let Some(cache) = self.attr(12).filter(|cache| cache.len() >= 12) {
            let left = u32_at(cache, 8).div_ceil(100);
            if left != 0 {
                self.pair("expires", left.next_multiple_of(10));
            }
        }
        if let Some([preference]) = self.attr(20)
            && *preference != 0
        {
            self.pair("pref", by_number(&[("high", 1), ("low", 3)], (*preference).into()));
        }
        self.hop_flags(u32_at(&row.header, 8));
        let mut rest = self.attr(9).unwrap_or_default();
        // struct rtnexthop: length, flags, weight less one, device; its attributes follow within
        // the length.
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
            self.flags(set, &[(1, "dead"), (16, "linkdown"), (8, "offload"), (64, "trap")]);
        }
    }

    pub(super) fn rule(&mut self) {
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
        if let Some(protocol) = row.protocol().filter(|protocol| *protocol != 0 || self.details) {
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

    pub(super) fn nexthop(&mut self) {
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

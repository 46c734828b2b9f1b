//! Objects of one device in iproute2's words: links, addresses, neighbours, rows of a forwarding
//! database.

use std::collections::BTreeMap;

use super::super::numbers::INET;
use super::{Say, by_number, ip, lladdr, number, text};
use trueup_testkit::{attributes, u16_at, u32_at};

impl Say<'_> {
    pub(super) fn link(&mut self) {
        const IFF_UP: u32 = 1;
        self.word(self.row.ifname().unwrap_or_default());
        let info: BTreeMap<u16, &[u8]> = attributes(self.attr(18).unwrap_or_default()).collect();
        let kind = info.get(&1).map(|kind| text(kind)).unwrap_or_default();
        if !kind.is_empty() {
            self.pair("type", &kind);
        }
        let up = u32_at(&self.row.header, 8) & IFF_UP != 0;
        self.word(if up { "up" } else { "down" });
        if let Some(mtu) = self.row.attr_u32(4).filter(|mtu| *mtu != 1500 || self.details) {
            self.pair("mtu", mtu);
        }
        if let Some(lower) = self.row.attr_u32(5).filter(|lower| *lower != 0) {
            self.pair(if kind == "veth" { "peer" } else { "link" }, self.dev(lower));
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
            "bridge" if self.details => {
                &[(1, "forward_delay"), (4, "ageing_time"), (5, "stp_state"), (7, "vlan_filtering")]
            }
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

    pub(super) fn address(&mut self) {
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
        let life = self.attr(6).map_or([u32::MAX; 2], |cache| [u32_at(cache, 0), u32_at(cache, 4)]);
        for (word, left) in ["preferred_lft", "valid_lft"].into_iter().zip(life) {
            if left != u32::MAX {
                // Time passes: round up to the next ten seconds.
                self.pair(word, left.next_multiple_of(10));
            }
        }
        let set = self.row.attr_u32(8).unwrap_or(u32::from(self.row.header[2]));
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

    pub(super) fn neighbour(&mut self) {
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
        self.flags(u32::from(flags), &[(0x10, "extern_learn"), (0x80, "router")]);
        if let Some(protocol) = self.row.protocol().filter(|protocol| *protocol != 0) {
            self.pair("proto", protocol);
        }
    }

    pub(super) fn forwarding(&mut self) {
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
}

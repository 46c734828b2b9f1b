//! A rule as it is shown: what it says, and what became of its devices and its target.

use std::collections::BTreeMap;

use crate::message::{Action, Kind, RawMessage};

use super::parse::{ACT_GOTO, Rule};
use super::{
    Device, FIB_RULE_IIF_DETACHED, FIB_RULE_OIF_DETACHED, FIB_RULE_UNRESOLVED, FRA_DPORT_MASK,
    FRA_DPORT_RANGE, FRA_DSCP, FRA_DSCP_MASK, FRA_DST, FRA_FLOW, FRA_FLOWLABEL, FRA_FLOWLABEL_MASK,
    FRA_FWMARK, FRA_FWMASK, FRA_GOTO, FRA_IIFNAME, FRA_IP_PROTO, FRA_L3MDEV, FRA_OIFNAME,
    FRA_PRIORITY, FRA_PROTOCOL, FRA_SPORT_MASK, FRA_SPORT_RANGE, FRA_SRC, FRA_SUPPRESS_IFGROUP,
    FRA_SUPPRESS_PREFIXLEN, FRA_TABLE, FRA_TUN_ID, FRA_UID_RANGE, INET, until_nul,
};

impl Rule {
    /// `fib_nl_fill_rule`.
    pub(super) fn row(&self, family: u8, action: Action) -> RawMessage {
        let table = u8::try_from(self.table).unwrap_or(252);
        let tos = if self.dscp_full { 0 } else { self.dscp };
        let mut flags = self.flags;
        let mut status = |set: bool, bit| flags |= if set { bit } else { 0 };
        status(
            self.action == ACT_GOTO && self.leads_to.is_none(),
            FIB_RULE_UNRESOLVED,
        );
        let detached = |name: &[u8], device| !name.is_empty() && device == Device::Detached;
        let (iif, oif) = (until_nul(&self.iifname), until_nul(&self.oifname));
        status(detached(iif, self.iif), FIB_RULE_IIF_DETACHED);
        status(detached(oif, self.oif), FIB_RULE_OIF_DETACHED);

        let (dst_len, src_len) = (self.dst.1, self.src.1);
        let mut header = vec![family, dst_len, src_len, tos, table, 0, 0, self.action];
        header.extend(flags.to_ne_bytes());
        let mut row = RawMessage {
            kind: Kind::Rule,
            action,
            header,
            attrs: BTreeMap::new(),
        };
        let mut put = |number, payload: &[u8], shown: bool| {
            if shown {
                row.attrs.insert(number, payload.to_vec());
            }
        };
        let mut number = |attribute, value: u32, shown| {
            put(attribute, &value.to_ne_bytes(), shown);
        };
        number(FRA_TABLE, self.table, true);
        number(FRA_SUPPRESS_PREFIXLEN, self.suppress_length, true);
        let group = self.suppress_group;
        number(FRA_SUPPRESS_IFGROUP, group, group != u32::MAX);
        number(FRA_PRIORITY, self.priority, self.priority != 0);
        number(FRA_FWMARK, self.mark, self.mark != 0);
        number(FRA_FWMASK, self.mask, self.mask != 0 || self.mark != 0);
        number(FRA_GOTO, self.target, self.target != 0);
        number(FRA_FLOW, self.realm, self.realm != 0);
        put(FRA_PROTOCOL, &[self.protocol], true);
        put(FRA_IIFNAME, &[iif, &[0]].concat(), !iif.is_empty());
        put(FRA_OIFNAME, &[oif, &[0]].concat(), !oif.is_empty());
        put(FRA_TUN_ID, &self.tunnel, self.tunnel != [0; 8]);
        put(FRA_L3MDEV, &[1], self.l3mdev);
        if let Some((start, end)) = self.uids {
            let range = [start.to_ne_bytes(), end.to_ne_bytes()].concat();
            put(FRA_UID_RANGE, &range, true);
        }
        for (ports, range, mask) in [
            (&self.source_ports, FRA_SPORT_RANGE, FRA_SPORT_MASK),
            (&self.ports, FRA_DPORT_RANGE, FRA_DPORT_MASK),
        ] {
            let both = [ports.start.to_ne_bytes(), ports.end.to_ne_bytes()];
            put(range, &both.concat(), ports.is_set());
            put(mask, &ports.mask.to_ne_bytes(), ports.mask != 0);
        }
        put(FRA_IP_PROTO, &[self.ip_protocol], self.ip_protocol != 0);
        put(FRA_DSCP, &[self.dscp >> 2], self.dscp_full);
        put(FRA_DSCP_MASK, &[self.dscp_mask >> 2], self.dscp_full);
        let labelled = self.flow_label_mask != [0; 4];
        put(FRA_FLOWLABEL, &self.flow_label, labelled);
        put(FRA_FLOWLABEL_MASK, &self.flow_label_mask, labelled);
        let address = if family == INET { 4 } else { 16 };
        put(FRA_DST, &self.dst.0[..address], dst_len != 0);
        put(FRA_SRC, &self.src.0[..address], src_len != 0);
        row
    }
}

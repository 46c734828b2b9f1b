//! Which rules a request means: `rule_exists` and `rule_find`.

use super::parse::{Asked, Ports, Rule};
use super::{
    FRA_DSCP, FRA_DSCP_MASK, FRA_DST, FRA_FLOW, FRA_FLOWLABEL, FRA_FLOWLABEL_MASK, FRA_SRC, INET,
};

impl Asked<'_> {
    /// `rule_exists`: equality, for an exclusive add. The target of a goto and the flags do not count.
    pub(super) fn equals(&self, rule: &Rule, other: &Rule) -> bool {
        other.action == rule.action
            && other.table == rule.table
            && other.priority == rule.priority
            && other.iifname == rule.iifname
            && other.oifname == rule.oifname
            && other.mark == rule.mark
            && other.suppress_group == rule.suppress_group
            && other.suppress_length == rule.suppress_length
            && other.mask == rule.mask
            && other.tunnel == rule.tunnel
            && other.l3mdev == rule.l3mdev
            && other.uids == rule.uids
            && other.ip_protocol == rule.ip_protocol
            && other.protocol == rule.protocol
            && other.source_ports == rule.source_ports
            && other.ports == rule.ports
            && self.family_part_fits(other)
    }

    /// `rule_find`: what is not given fits anything.
    pub(super) fn finds(&self, rule: &Rule, other: &Rule) -> bool {
        let none = [0; 16];
        let ports = |given: &Ports, other: &Ports| {
            let range = (other.start, other.end) == (given.start, given.end);
            (!given.is_set() || range) && (given.mask == 0 || other.mask == given.mask)
        };
        (rule.action == 0 || other.action == rule.action)
            && (rule.table == 0 || other.table == rule.table)
            && (!self.has_priority() || other.priority == rule.priority)
            && (rule.iifname[0] == 0 || rule.iifname == none || other.iifname == rule.iifname)
            && (rule.oifname[0] == 0 || rule.oifname == none || other.oifname == rule.oifname)
            && (rule.mark == 0 || other.mark == rule.mark)
            && (rule.suppress_group == u32::MAX || other.suppress_group == rule.suppress_group)
            && (rule.suppress_length == u32::MAX || other.suppress_length == rule.suppress_length)
            && (rule.mask == 0 || other.mask == rule.mask)
            && (rule.tunnel == [0; 8] || other.tunnel == rule.tunnel)
            && (!rule.l3mdev || other.l3mdev)
            && (rule.uids.is_none() || other.uids == rule.uids)
            && (rule.ip_protocol == 0 || other.ip_protocol == rule.ip_protocol)
            && (rule.protocol == 0 || other.protocol == rule.protocol)
            && ports(&rule.source_ports, &other.source_ports)
            && ports(&rule.ports, &other.ports)
            && self.family_part_fits(other)
    }

    /// `fib4_rule_compare`, `fib6_rule_compare`: what is not given fits anything, also for an exclusive add.
    fn family_part_fits(&self, other: &Rule) -> bool {
        let prefix = |attribute, length, (address, known): ([u8; 16], u8)| {
            length == 0 || (known == length && self.address(attribute, length) == Some(address))
        };
        let given = |attribute| self.attributes.u8(attribute);
        let family = if self.family == INET {
            self.number(FRA_FLOW)
                .is_none_or(|realm| other.realm == realm)
        } else {
            let label = |attribute, known: [u8; 4]| {
                let given = self.attributes.array::<4>(attribute);
                given.is_none_or(|label| label == known)
            };
            label(FRA_FLOWLABEL, other.flow_label)
                && label(FRA_FLOWLABEL_MASK, other.flow_label_mask)
        };
        family
            && prefix(FRA_SRC, self.src_len, other.src)
            && prefix(FRA_DST, self.dst_len, other.dst)
            && (self.tos == 0 || (!other.dscp_full && other.dscp == self.tos))
            && given(FRA_DSCP).is_none_or(|dscp| other.dscp_full && other.dscp == dscp << 2)
            && given(FRA_DSCP_MASK)
                .is_none_or(|mask| other.dscp_full && other.dscp_mask == mask << 2)
    }
}

//! What a request asks of rules: `fib_nl2rule`, and the parts of each family.

use super::super::policy::{Policy, Shape};
use super::super::request::{Attributes, EAFNOSUPPORT, EINVAL, Refusal, Request};
use super::{
    Device, FRA_DPORT_MASK, FRA_DPORT_RANGE, FRA_DSCP, FRA_DSCP_MASK, FRA_DST, FRA_FLOW,
    FRA_FLOWLABEL, FRA_FLOWLABEL_MASK, FRA_FWMARK, FRA_FWMASK, FRA_GOTO, FRA_IIFNAME, FRA_IP_PROTO,
    FRA_L3MDEV, FRA_OIFNAME, FRA_PRIORITY, FRA_PROTOCOL, FRA_SPORT_MASK, FRA_SPORT_RANGE, FRA_SRC,
    FRA_SUPPRESS_IFGROUP, FRA_SUPPRESS_PREFIXLEN, FRA_TABLE, FRA_TUN_ID, FRA_UID_RANGE, INET,
    INET6,
};

pub(super) const ACT_TO_TBL: u8 = 1;
pub(super) const ACT_GOTO: u8 = 2;

/// `fib_rule_policy`.
static POLICY: Policy = Policy {
    shapes: &[
        (FRA_IIFNAME, Shape::Text(15)),
        (FRA_OIFNAME, Shape::Text(15)),
        (FRA_PRIORITY, Shape::U32),
        (FRA_FWMARK, Shape::U32),
        (FRA_FLOW, Shape::U32),
        (FRA_TUN_ID, Shape::U64),
        (FRA_FWMASK, Shape::U32),
        (FRA_TABLE, Shape::U32),
        (FRA_SUPPRESS_PREFIXLEN, Shape::U32),
        (FRA_SUPPRESS_IFGROUP, Shape::U32),
        (FRA_GOTO, Shape::U32),
        (FRA_L3MDEV, Shape::U8),
        (FRA_UID_RANGE, Shape::AtLeast(8)),
        (FRA_PROTOCOL, Shape::U8),
        (FRA_IP_PROTO, Shape::U8),
        (FRA_SPORT_RANGE, Shape::AtLeast(4)),
        (FRA_DPORT_RANGE, Shape::AtLeast(4)),
        (FRA_DSCP, Shape::U8Max(63)),
        (FRA_FLOWLABEL, Shape::U32),
        (FRA_FLOWLABEL_MASK, Shape::U32),
        (FRA_SPORT_MASK, Shape::U16),
        (FRA_DPORT_MASK, Shape::U16),
        (FRA_DSCP_MASK, Shape::U8Mask(63)),
    ],
    max: FRA_DSCP_MASK,
    strict_from: FRA_DSCP,
};

/// One rule. A name is padded with NULs; what follows its first NUL counts for equality.
#[derive(Clone, Debug)]
pub(super) struct Rule {
    pub(super) id: u64,
    pub(super) action: u8,
    pub(super) flags: u32,
    pub(super) priority: u32,
    pub(super) table: u32,
    pub(super) protocol: u8,
    /// Address and prefix length. The kernel keeps host bits, and shows them.
    pub(super) dst: ([u8; 16], u8),
    pub(super) src: ([u8; 16], u8),
    pub(super) iifname: [u8; 16],
    pub(super) oifname: [u8; 16],
    pub(super) iif: Device,
    pub(super) oif: Device,
    pub(super) mark: u32,
    pub(super) mask: u32,
    /// `FRA_TUN_ID`, in network order.
    pub(super) tunnel: [u8; 8],
    pub(super) l3mdev: bool,
    /// -1 for none.
    pub(super) suppress_length: u32,
    /// -1 for none.
    pub(super) suppress_group: u32,
    /// `FRA_GOTO`, and the rule found there.
    pub(super) target: u32,
    pub(super) leads_to: Option<u64>,
    pub(super) uids: Option<(u32, u32)>,
    pub(super) ip_protocol: u8,
    pub(super) source_ports: Ports,
    pub(super) ports: Ports,
    /// As in the header's byte: two bits higher than in `FRA_DSCP`.
    pub(super) dscp: u8,
    pub(super) dscp_mask: u8,
    /// Whether it came as `FRA_DSCP`.
    pub(super) dscp_full: bool,
    /// `FRA_FLOW`, IPv4 alone.
    pub(super) realm: u32,
    pub(super) flow_label: [u8; 4],
    pub(super) flow_label_mask: [u8; 4],
}

impl Default for Rule {
    fn default() -> Self {
        Self {
            id: 0,
            action: 0,
            flags: 0,
            priority: 0,
            table: 0,
            protocol: 0,
            dst: ([0; 16], 0),
            src: ([0; 16], 0),
            iifname: [0; 16],
            oifname: [0; 16],
            iif: Device::Any,
            oif: Device::Any,
            mark: 0,
            mask: 0,
            tunnel: [0; 8],
            l3mdev: false,
            suppress_length: u32::MAX,
            suppress_group: u32::MAX,
            target: 0,
            leads_to: None,
            uids: None,
            ip_protocol: 0,
            source_ports: Ports::default(),
            ports: Ports::default(),
            dscp: 0,
            dscp_mask: 0,
            dscp_full: false,
            realm: 0,
            flow_label: [0; 4],
            flow_label_mask: [0; 4],
        }
    }
}

/// A range of ports, in the machine's order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Ports {
    pub(super) start: u16,
    pub(super) end: u16,
    pub(super) mask: u16,
}

impl Ports {
    pub(super) fn is_set(&self) -> bool {
        self.start != 0 && self.end != 0
    }
}

/// A request for a rule.
pub(super) struct Asked<'a> {
    pub(super) family: u8,
    pub(super) dst_len: u8,
    pub(super) src_len: u8,
    pub(super) tos: u8,
    table: u8,
    action: u8,
    flags: u32,
    pub(super) attributes: Attributes<'a>,
}

const fn refused(words: &'static str) -> Refusal {
    Refusal::errno(EINVAL).because(words)
}

impl<'a> Asked<'a> {
    pub(super) fn new(request: &Request<'a>) -> Result<Self, Refusal> {
        let (header, attributes) = request
            .parts::<12>()
            .map_err(|short| short.because("Invalid msg length"))?;
        if header[0] != INET && header[0] != INET6 {
            return Err(Refusal::errno(EAFNOSUPPORT).because("Rule family not supported"));
        }
        POLICY
            .check(attributes, false)
            .map_err(|refusal| refusal.because("Error parsing msg"))?;
        let [
            family,
            dst_len,
            src_len,
            tos,
            table,
            _,
            _,
            action,
            a,
            b,
            c,
            d,
        ] = *header;
        Ok(Self {
            family,
            dst_len,
            src_len,
            tos,
            table,
            action,
            flags: u32::from_ne_bytes([a, b, c, d]),
            attributes,
        })
    }

    pub(super) fn has_priority(&self) -> bool {
        self.attributes.get(FRA_PRIORITY).is_some()
    }

    pub(super) fn number(&self, attribute: u16) -> Option<u32> {
        self.attributes.u32(attribute)
    }

    /// An address that a prefix length asks for.
    pub(super) fn address(&self, attribute: u16, length: u8) -> Option<[u8; 16]> {
        let width = if self.family == INET { 4 } else { 16 };
        let payload = self.attributes.get(attribute)?;
        if payload.len() != width || usize::from(length) > width * 8 {
            return None;
        }
        let mut address = [0; 16];
        address[..width].copy_from_slice(payload);
        Some(address)
    }

    fn prefix(
        &self,
        attribute: u16,
        length: u8,
        words: &'static str,
    ) -> Result<([u8; 16], u8), Refusal> {
        if length == 0 {
            return Ok(([0; 16], 0));
        }
        let address = self.address(attribute, length).ok_or(refused(words))?;
        Ok((address, length))
    }

    /// The rule described, without what needs the others.
    pub(super) fn rule(&self) -> Result<Rule, Refusal> {
        let src = self.prefix(FRA_SRC, self.src_len, "Invalid source address")?;
        let dst = self.prefix(FRA_DST, self.dst_len, "Invalid dst address")?;
        let mark = self.number(FRA_FWMARK).unwrap_or(0);
        let (iifname, iif) = self.device(FRA_IIFNAME);
        let (oifname, oif) = self.device(FRA_OIFNAME);
        let mut rule = Rule {
            action: self.action,
            flags: self.flags,
            priority: self.number(FRA_PRIORITY).unwrap_or(0),
            table: self.number(FRA_TABLE).unwrap_or_else(|| self.table.into()),
            protocol: self.attributes.u8(FRA_PROTOCOL).unwrap_or(0),
            dst,
            src,
            iifname,
            oifname,
            iif,
            oif,
            mark,
            mask: self
                .number(FRA_FWMASK)
                .unwrap_or(if mark == 0 { 0 } else { u32::MAX }),
            tunnel: self.attributes.array(FRA_TUN_ID).unwrap_or_default(),
            suppress_length: self.number(FRA_SUPPRESS_PREFIXLEN).unwrap_or(u32::MAX),
            suppress_group: self.number(FRA_SUPPRESS_IFGROUP).unwrap_or(u32::MAX),
            ip_protocol: self.attributes.u8(FRA_IP_PROTO).unwrap_or(0),
            ..Rule::default()
        };
        if let Some(l3mdev) = self.attributes.u8(FRA_L3MDEV) {
            if l3mdev != 1 {
                return Err(refused("Invalid l3mdev attribute"));
            }
            rule.l3mdev = true;
        }
        match self.number(FRA_GOTO) {
            Some(_) if rule.action != ACT_GOTO => return Err(refused("Unexpected goto")),
            Some(target) => rule.target = target,
            None if rule.action == ACT_GOTO => {
                return Err(refused("Missing goto target for action goto"));
            }
            None => {}
        }
        if rule.l3mdev && rule.table != 0 {
            return Err(refused("l3mdev and table are mutually exclusive"));
        }
        if let Some([a, b, c, d, e, f, g, h]) = self.attributes.array::<8>(FRA_UID_RANGE) {
            let start = u32::from_ne_bytes([a, b, c, d]);
            let end = u32::from_ne_bytes([e, f, g, h]);
            if start > end || end == u32::MAX {
                return Err(refused("Invalid uid range"));
            }
            rule.uids = Some((start, end));
        }
        rule.source_ports = self.ports(FRA_SPORT_RANGE, FRA_SPORT_MASK, "Invalid sport range")?;
        rule.ports = self.ports(FRA_DPORT_RANGE, FRA_DPORT_MASK, "Invalid dport range")?;
        Ok(rule)
    }

    fn device(&self, attribute: u16) -> ([u8; 16], Device) {
        let mut name = [0; 16];
        let Some(text) = self.attributes.get(attribute) else {
            return (name, Device::Any);
        };
        let text = text.strip_suffix(&[0]).unwrap_or(text);
        let length = text.len().min(15);
        name[..length].copy_from_slice(&text[..length]);
        (name, Device::Detached)
    }

    fn ports(&self, range: u16, mask: u16, words: &'static str) -> Result<Ports, Refusal> {
        let mut ports = Ports::default();
        if let Some([a, b, c, d]) = self.attributes.array::<4>(range) {
            ports.start = u16::from_ne_bytes([a, b]);
            ports.end = u16::from_ne_bytes([c, d]);
            if ports.start == 0 || ports.end == u16::MAX || ports.start > ports.end {
                return Err(refused(words));
            }
            if ports.start == ports.end {
                ports.mask = u16::MAX;
            }
        }
        if let Some(mask) = self.attributes.u16(mask) {
            if ports.start == 0 {
                return Err(refused("Cannot specify port mask without port value"));
            }
            if ports.start != ports.end {
                return Err(refused("Cannot specify port mask for port range"));
            }
            if ports.start & !mask != 0 {
                return Err(refused("Invalid port mask"));
            }
            ports.mask = mask;
        }
        Ok(ports)
    }

    /// `fib4_rule_configure` without the table.
    pub(super) fn configure4(&self, rule: &mut Rule) -> Result<(), Refusal> {
        const IPTOS_TOS_MASK: u8 = 0x1e;
        let label = [FRA_FLOWLABEL, FRA_FLOWLABEL_MASK];
        if label.iter().any(|n| self.attributes.get(*n).is_some()) {
            return Err(refused("Flow label cannot be specified for IPv4 FIB rules"));
        }
        self.header_dscp(rule)?;
        if self.tos & !IPTOS_TOS_MASK != 0 {
            return Err(refused("Invalid tos"));
        }
        self.attribute_dscp(rule)?;
        rule.realm = self.number(FRA_FLOW).unwrap_or(0);
        Ok(())
    }

    /// `fib6_rule_configure` without the table.
    pub(super) fn configure6(&self, rule: &mut Rule) -> Result<(), Refusal> {
        self.header_dscp(rule)?;
        if self.tos != 0 {
            rule.dscp_mask = DSCP;
        }
        self.attribute_dscp(rule)?;
        let label = self.attributes.array::<4>(FRA_FLOWLABEL);
        let mask = self.attributes.array::<4>(FRA_FLOWLABEL_MASK);
        match (label, mask) {
            (None, None) => {}
            (Some(label), Some(mask)) => {
                const IPV6_FLOWLABEL_MASK: u32 = 0x000f_ffff;
                let (bits, known) = (u32::from_be_bytes(label), u32::from_be_bytes(mask));
                if known & !IPV6_FLOWLABEL_MASK != 0 {
                    return Err(refused("Invalid flow label mask"));
                }
                if bits & !known != 0 {
                    return Err(refused("Flow label and mask do not match"));
                }
                rule.flow_label = label;
                rule.flow_label_mask = mask;
            }
            _ => return Err(EINVAL.into()),
        }
        if rule.action == ACT_TO_TBL && !rule.l3mdev && rule.table == 0 {
            return Err(refused("Invalid table"));
        }
        Ok(())
    }

    fn header_dscp(&self, rule: &mut Rule) -> Result<(), Refusal> {
        if self.tos & !DSCP != 0 {
            return Err(refused("Invalid dsfield (tos): ECN bits must be 0"));
        }
        rule.dscp = self.tos;
        Ok(())
    }

    fn attribute_dscp(&self, rule: &mut Rule) -> Result<(), Refusal> {
        if let Some(dscp) = self.attributes.u8(FRA_DSCP) {
            if rule.dscp != 0 {
                return Err(refused("Cannot specify both TOS and DSCP"));
            }
            rule.dscp = dscp << 2;
            rule.dscp_mask = DSCP;
            rule.dscp_full = true;
        }
        if let Some(mask) = self.attributes.u8(FRA_DSCP_MASK) {
            if !rule.dscp_full {
                return Err(refused("Cannot specify DSCP mask without DSCP value"));
            }
            if rule.dscp & !(mask << 2) != 0 {
                return Err(refused("Invalid DSCP mask"));
            }
            rule.dscp_mask = mask << 2;
        }
        Ok(())
    }
}

/// `INET_DSCP_MASK`: the byte without the bits of congestion notification.
const DSCP: u8 = 0xfc;

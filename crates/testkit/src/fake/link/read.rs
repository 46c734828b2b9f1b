//! `RTM_GETLINK`: one link, or all.

use crate::message::{Action, RawMessage, u32_at};

use super::super::dispatch::Dump;
use super::super::request::{
    Attributes, EINVAL, ENODEV, EOPNOTSUPP, NLM_F_DUMP_FILTERED, Refusal, Request,
};
use super::super::state::State;
use super::kind::LinkKind;
use super::write::{IFLA_ALT_IFNAME, IFLA_EXT_MASK, IFLA_TARGET_NETNSID, POLICY};
use super::{IFLA_IFNAME, IFLA_INFO_KIND, IFLA_LINKINFO, IFLA_MASTER, Link};

impl State {
    /// The link that a request names: by its index, or else by its name.
    pub(super) fn requested(&self, index: u32, attrs: Attributes<'_>) -> Result<&Link, Refusal> {
        let found = match (index, attrs.string(IFLA_IFNAME)) {
            (1..=0x7fff_ffff, _) => self.links.get(index),
            (_, Some(name)) => self.links.named(&name),
            (_, None) if attrs.get(IFLA_ALT_IFNAME).is_some() => None,
            (_, None) => return Err(EINVAL.into()),
        };
        found.ok_or(ENODEV.into())
    }

    pub(crate) fn get_link(&mut self, request: &Request<'_>) -> Result<RawMessage, Refusal> {
        let einval = Refusal::errno(EINVAL);
        let words = "Invalid header for get link";
        let (header, attrs) = request.parts::<16>().map_err(|_| einval.because(words))?;
        if request.strict {
            if header[1..4] != [0; 3] || header[8..] != [0; 8] {
                let words = "Invalid values in header for get link request";
                return Err(einval.because(words));
            }
            POLICY.check(attrs, true)?;
            let allowed = [
                IFLA_IFNAME,
                IFLA_ALT_IFNAME,
                IFLA_EXT_MASK,
                IFLA_TARGET_NETNSID,
            ];
            if attrs.all().any(|(number, _)| !allowed.contains(&number)) {
                let words = "Unsupported attribute in get link request";
                return Err(einval.because(words));
            }
        } else {
            POLICY.check(attrs, false)?;
        }
        if attrs.get(IFLA_TARGET_NETNSID).is_some() {
            return Err(einval);
        }
        let link = self.requested(u32_at(header, 4), attrs)?;
        Ok(self.links.row(link, Action::New))
    }

    pub(crate) fn dump_links(&mut self, request: &Request<'_>) -> Result<Dump, Refusal> {
        let einval = Refusal::errno(EINVAL);
        let words = "Invalid header for link dump";
        let mut attrs = Attributes::default();
        if request.strict {
            let (header, all) = request.parts::<16>().map_err(|_| einval.because(words))?;
            if header[1..4] != [0; 3] || header[8..] != [0; 8] {
                let words = "Invalid values in header for link dump request";
                return Err(einval.because(words));
            }
            if header[4..8] != [0; 4] {
                let words = "Filter by device index not supported for link dumps";
                return Err(einval.because(words));
            }
            POLICY.check(all, true)?;
            let allowed = [
                IFLA_EXT_MASK,
                IFLA_MASTER,
                IFLA_LINKINFO,
                IFLA_TARGET_NETNSID,
            ];
            if all.all().any(|(number, _)| !allowed.contains(&number)) {
                let words = "Unsupported attribute in link dump request";
                return Err(einval.because(words));
            }
            if all.get(IFLA_TARGET_NETNSID).is_some() {
                return Err(einval.because("Invalid target network namespace id"));
            }
            attrs = all;
        } else if let Ok((_, all)) = request.parts::<16>()
            && POLICY.check(all, false).is_ok()
        {
            attrs = all;
        }
        let master = attrs.u32(IFLA_MASTER).filter(|master| *master != 0);
        let info = attrs.nested(IFLA_LINKINFO).unwrap_or_default();
        let kind = info.string(IFLA_INFO_KIND);
        let kind = kind.and_then(|kind| LinkKind::parse(&kind));
        let rows = self.links.all.values().filter(|link| {
            let of_master = match master {
                Some(u32::MAX) => link.master.is_none(),
                Some(_) => link.master == master,
                None => true,
            };
            of_master && kind.is_none_or(|kind| kind == link.kind)
        });
        Ok(Dump {
            rows: rows.map(|link| self.links.row(link, Action::New)).collect(),
            flags: if master.is_some() || kind.is_some() {
                NLM_F_DUMP_FILTERED
            } else {
                0
            },
            ..Dump::default()
        })
    }

    /// What the fake does not model is refused instead of dropped.
    pub(super) fn refuse_unmodelled(attrs: Attributes<'_>) -> Result<(), Refusal> {
        // IFLA_PROTINFO, _MAP, _OPERSTATE, _LINKMODE, _NET_NS_PID, _VFINFO_LIST, _VF_PORTS, _PORT_SELF, _AF_SPEC,
        // _NET_NS_FD, _CARRIER, _LINK_NETNSID, _PROTO_DOWN, _XDP, _TARGET_NETNSID, _PROTO_DOWN_REASON.
        const UNMODELLED: [u16; 16] = [
            12, 14, 16, 17, 19, 22, 24, 25, 26, 28, 33, 37, 39, 43, 46, 55,
        ];
        match attrs.all().any(|(number, _)| UNMODELLED.contains(&number)) {
            true => Err(EOPNOTSUPP.into()),
            false => Ok(()),
        }
    }
}

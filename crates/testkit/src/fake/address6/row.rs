//! IPv6 addresses as they are told of, and the requests that read them (`RTM_GETADDR`).

use std::collections::BTreeMap;

use crate::message::{Action, Kind, RawMessage, u32_at};

use super::super::address4::{
    IFA_ADDRESS, IFA_CACHEINFO, IFA_FLAGS, IFA_LOCAL, IFA_PROTO, IFA_RT_PRIORITY,
};
use super::super::dispatch::{Dump, filtered};
use super::super::request::{EADDRNOTAVAIL, EINVAL, ENODEV, Refusal, Request};
use super::super::state::State;
use super::{Address6, IFA_TARGET_NETNSID, POLICY, extract};

impl Address6 {
    pub(super) fn row(&self, index: u32, action: Action) -> RawMessage {
        let mut header = vec![10, self.length, self.flags as u8, self.scope];
        header.extend(index.to_ne_bytes());
        let mut attrs = BTreeMap::new();
        match self.peer {
            Some(peer) => {
                attrs.insert(IFA_LOCAL, self.address.to_vec());
                attrs.insert(IFA_ADDRESS, peer.to_vec());
            }
            None => {
                attrs.insert(IFA_ADDRESS, self.address.to_vec());
            }
        }
        if self.protocol != 0 {
            attrs.insert(IFA_PROTO, vec![self.protocol]);
        }
        attrs.insert(IFA_FLAGS, self.flags.to_ne_bytes().to_vec());
        if self.metric != 0 {
            attrs.insert(IFA_RT_PRIORITY, self.metric.to_ne_bytes().to_vec());
        }
        let cache = [self.preferred, self.valid, 0, 0].map(u32::to_ne_bytes);
        attrs.insert(IFA_CACHEINFO, cache.as_flattened().to_vec());
        RawMessage {
            kind: Kind::Address,
            action,
            header,
            attrs,
        }
    }
}

impl State {
    pub(crate) fn dump_addresses6(&mut self, request: &Request<'_>) -> Result<Dump, Refusal> {
        let mut only = 0;
        if request.strict {
            let einval = Refusal::errno(EINVAL);
            let words = "ipv6: Invalid header for address dump request";
            let (header, attrs) = request.parts::<8>().map_err(|_| einval.because(words))?;
            if header[1..4] != [0; 3] {
                let words = "ipv6: Invalid values in header for address dump request";
                return Err(einval.because(words));
            }
            only = u32_at(header, 4);
            let words = match attrs.all().map(|(number, _)| number).min() {
                Some(IFA_TARGET_NETNSID) => Some("ipv6: Invalid target network namespace id"),
                Some(_) => Some("ipv6: Unsupported attribute in dump request"),
                None => None,
            };
            let refusal = match POLICY.check(attrs, true) {
                Err(refusal) => Some(refusal),
                Ok(()) if words.is_some() => words.map(|words| einval.because(words)),
                Ok(()) if only != 0 && self.links.get(only).is_none() => Some(ENODEV.into()),
                Ok(()) => None,
            };
            if refusal.is_some() {
                return Ok(Dump {
                    end_flags: filtered(only),
                    refusal,
                    ..Dump::default()
                });
            }
        }
        let all = self.addresses6.all.iter();
        let rows = all
            .filter(|(index, _)| only == 0 || **index == only)
            .flat_map(|(index, list)| list.iter().map(|address| address.row(*index, Action::New)));
        Ok(Dump {
            rows: rows.collect(),
            flags: filtered(only),
            end_flags: filtered(only),
            refusal: None,
        })
    }

    pub(crate) fn get_address6(&mut self, request: &Request<'_>) -> Result<RawMessage, Refusal> {
        let einval = Refusal::errno(EINVAL);
        let words = "ipv6: Invalid header for get address request";
        let (header, attrs) = request.parts::<8>().map_err(|_| einval.because(words))?;
        if request.strict && header[1..4] != [0; 3] {
            let words = "ipv6: Invalid values in header for get address request";
            return Err(einval.because(words));
        }
        POLICY.check(attrs, request.strict)?;
        let allowed = |number| matches!(number, IFA_ADDRESS | IFA_LOCAL | IFA_TARGET_NETNSID);
        if request.strict && attrs.all().any(|(number, _)| !allowed(number)) {
            let words = "ipv6: Unsupported attribute in get address request";
            return Err(einval.because(words));
        }
        if attrs.get(IFA_TARGET_NETNSID).is_some() {
            return Err(einval);
        }
        let (address, _) = extract(attrs)?;
        // A device that is not there is as good as none.
        let only = self.links.get(u32_at(header, 4)).map(|link| link.index);
        let found = self
            .addresses6
            .all
            .iter()
            .filter(|(index, _)| only.is_none_or(|only| only == **index))
            .flat_map(|(index, list)| list.iter().map(|found| (*index, found)))
            .filter(|(_, found)| found.address == address)
            .max_by_key(|(_, found)| found.made);
        let (index, found) = found.ok_or(EADDRNOTAVAIL)?;
        Ok(found.row(index, Action::New))
    }
}

//! IPv4 addresses as they are told of, and the request that reads them (`RTM_GETADDR`).

use std::collections::BTreeMap;

use crate::message::{Action, Kind, RawMessage, u32_at};

use super::super::dispatch::{Dump, filtered};
use super::super::request::{EINVAL, ENODEV, Refusal, Request};
use super::super::state::State;
use super::{
    Address4, IFA_ADDRESS, IFA_BROADCAST, IFA_CACHEINFO, IFA_F_PERMANENT, IFA_FLAGS, IFA_LABEL,
    IFA_LOCAL, IFA_PROTO, IFA_RT_PRIORITY, IFA_TARGET_NETNSID, INFINITY, POLICY,
};

impl Address4 {
    pub(super) fn row(&self, index: u32, action: Action) -> RawMessage {
        let mut header = vec![2, self.length, self.flags as u8, self.scope];
        header.extend(index.to_ne_bytes());
        let mut attrs = BTreeMap::new();
        for (number, address) in [
            (IFA_ADDRESS, Some(self.peer)),
            (IFA_LOCAL, Some(self.local)),
            (IFA_BROADCAST, self.broadcast),
        ] {
            if let Some(address) = address.filter(|address| *address != [0; 4]) {
                attrs.insert(number, address.to_vec());
            }
        }
        if !self.label.is_empty() {
            attrs.insert(IFA_LABEL, [&self.label[..], &[0]].concat());
        }
        if self.protocol != 0 {
            attrs.insert(IFA_PROTO, vec![self.protocol]);
        }
        attrs.insert(IFA_FLAGS, self.flags.to_ne_bytes().to_vec());
        if self.metric != 0 {
            attrs.insert(IFA_RT_PRIORITY, self.metric.to_ne_bytes().to_vec());
        }
        // A permanent address tells no preferred lifetime, though it may be deprecated.
        let (preferred, valid) = if self.flags & IFA_F_PERMANENT == 0 {
            (self.preferred, self.valid)
        } else {
            (INFINITY, INFINITY)
        };
        let cache = [preferred, valid, 0, 0].map(u32::to_ne_bytes);
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
    pub(crate) fn dump_addresses4(&mut self, request: &Request<'_>) -> Result<Dump, Refusal> {
        let mut only = 0;
        if request.strict {
            let einval = Refusal::errno(EINVAL);
            let (header, attrs) = request
                .parts::<8>()
                .map_err(|_| einval.because("ipv4: Invalid header for address dump request"))?;
            if header[1..4] != [0; 3] {
                let words = "ipv4: Invalid values in header for address dump request";
                return Err(einval.because(words));
            }
            only = u32_at(header, 4);
            let words = match attrs.all().map(|(number, _)| number).min() {
                Some(IFA_TARGET_NETNSID) => Some("ipv4: Invalid target network namespace id"),
                Some(_) => Some("ipv4: Unsupported attribute in dump request"),
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
        let all = self.addresses4.all.iter();
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
}

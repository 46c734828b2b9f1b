//! Dumps of neighbours and proxies, and the answer for one.

use crate::message::{Action, RawMessage};

use super::super::dispatch::Dump;
use super::super::request::{
    EAFNOSUPPORT, EINVAL, ENODEV, ENOENT, NLM_F_DUMP_FILTERED, Refusal, Request,
};
use super::super::state::State;
use super::proxy::Proxy;
use super::{
    BRIDGE, Header, NDA_DST, NDA_IFINDEX, NDA_MASTER, NTF_PROXY, POLICY, key_length, refused,
};

/// Which rows of a dump are asked for; 0 is all.
#[derive(Default)]
struct Filter {
    device: u32,
    master: u32,
}

impl State {
    /// `neigh_dump_info`.
    pub(crate) fn dump_neighbours(&mut self, request: &Request<'_>) -> Result<Dump, Refusal> {
        let family = request.family();
        if family == BRIDGE {
            return self.dump_forwarding(request);
        }
        let proxies = request.body.get(10) == Some(&(NTF_PROXY as u8)) && request.body.len() >= 12;
        let filter = match dump_filter(request) {
            Err(refusal) if request.strict => return Err(refusal),
            filter => filter.unwrap_or_default(),
        };
        let shown = |of: u8, device: u32| {
            let master = self.links.get(device).and_then(|link| link.master);
            (family == 0 || family == of)
                && (filter.device == 0 || filter.device == device)
                && match filter.master {
                    0 => true,
                    u32::MAX => master.is_none(),
                    wanted => master == Some(wanted),
                }
        };
        let rows = if proxies {
            let all = self.neighbours.proxies.iter();
            all.filter(|proxy| shown(proxy.family, proxy.device))
                .map(Proxy::row)
                .collect()
        } else {
            let all = self.neighbours.all.iter();
            all.filter(|(id, _)| shown(id.0, id.1))
                .map(|(id, entry)| entry.row(id, Action::New))
                .collect()
        };
        let filtered = filter.device != 0 || filter.master != 0;
        Ok(Dump {
            rows,
            flags: if filtered { NLM_F_DUMP_FILTERED } else { 0 },
            ..Dump::default()
        })
    }

    /// `neigh_get`.
    pub(crate) fn get_neighbour(&mut self, request: &Request<'_>) -> Result<RawMessage, Refusal> {
        if request.family() == BRIDGE {
            return self.get_forwarding(request);
        }
        let (fixed, attributes) = request
            .parts::<12>()
            .map_err(|short| short.because("Invalid header for neighbor get request"))?;
        let header = Header::new(fixed);
        let flags = u32::from(header.flags);
        if header.has_values() {
            return Err(refused("Invalid values in header for neighbor get request"));
        }
        if flags & !NTF_PROXY != 0 {
            return Err(refused("Invalid flags in header for neighbor get request"));
        }
        if flags == 0 && header.device == 0 {
            return Err(refused("No device specified"));
        }
        POLICY.check(attributes, true)?;
        let dst = attributes.get(NDA_DST).ok_or(EINVAL)?;
        if attributes.all().any(|(number, _)| number != NDA_DST) {
            return Err(refused("Unsupported attribute in neighbor get request"));
        }
        let length = key_length(header.family).ok_or(
            Refusal::errno(EAFNOSUPPORT)
                .because("Unsupported family in header for neighbor get request"),
        )?;
        if dst.len() != length {
            return Err(refused("Invalid network address in neighbor get request"));
        }
        if header.device != 0 && self.links.get(header.device).is_none() {
            return Err(Refusal::errno(ENODEV).because("Unknown device ifindex"));
        }
        let missing = Refusal::errno(ENOENT);
        if flags & NTF_PROXY != 0 {
            let proxy = self.neighbours.proxy(header.family, dst, header.device);
            return proxy
                .map(Proxy::row)
                .ok_or(missing.because("Proxy neighbour entry not found"));
        }
        let id = (header.family, header.device, dst.to_vec());
        let entry = self.neighbours.all.get(&id);
        entry
            .map(|entry| entry.row(&id, Action::New))
            .ok_or(missing.because("Neighbour entry not found"))
    }
}

/// `neigh_valid_dump_req`.
fn dump_filter(request: &Request<'_>) -> Result<Filter, Refusal> {
    let (fixed, attributes) = request
        .parts::<12>()
        .map_err(|short| short.because("Invalid header for neighbor dump request"))?;
    if request.strict {
        let header = Header::new(fixed);
        if header.has_values() || header.device != 0 {
            return Err(refused(
                "Invalid values in header for neighbor dump request",
            ));
        }
        if u32::from(header.flags) & !NTF_PROXY != 0 {
            return Err(refused("Invalid flags in header for neighbor dump request"));
        }
    }
    POLICY.check(attributes, request.strict)?;
    let known = |number: u16| matches!(number, NDA_IFINDEX | NDA_MASTER);
    if request.strict && attributes.all().any(|(number, _)| !known(number)) {
        return Err(refused("Unsupported attribute in neighbor dump request"));
    }
    Ok(Filter {
        device: attributes.u32(NDA_IFINDEX).unwrap_or(0),
        master: attributes.u32(NDA_MASTER).unwrap_or(0),
    })
}

//! A dump of IPv4 routes, and what a dump of routes of either family is limited to.

use crate::message::{Action, u32_at};

use super::super::dispatch::Dump;
use super::super::request::{EINVAL, ENODEV, ENOENT, NLM_F_DUMP_FILTERED, Refusal, Request};
use super::super::state::State;
use super::config::POLICY;
use super::info::Info;
use super::table::Alias;
use super::{INET, RTA_OIF, RTA_TABLE};

const RTM_F_CLONED: u32 = 0x200;
const RTM_F_PREFIX: u32 = 0x800;

/// The limits of a dump (`struct fib_dump_filter`); 0 is any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Filter {
    /// `RTM_F_*`.
    flags: u32,
    pub(crate) protocol: u8,
    pub(crate) kind: u8,
    pub(crate) table: u32,
    pub(crate) device: u32,
}

impl Filter {
    /// `ip_valid_fib_dump_req`: also requests about IPv6 are held to the policy of IPv4.
    pub(crate) fn read(state: &State, request: &Request<'_>) -> Result<Self, Refusal> {
        let refuse = |words| Refusal::errno(EINVAL).because(words);
        let parts = request.parts::<12>();
        if !request.strict {
            let flags = parts.map_or(0, |(header, _)| u32_at(header, 8));
            return Ok(Self {
                flags: flags & (RTM_F_CLONED | RTM_F_PREFIX),
                ..Self::default()
            });
        }
        let (header, attrs) = parts.map_err(|_| refuse("Invalid header for FIB dump request"))?;
        let [_, dst, src, tos, table, protocol, scope, kind, ..] = *header;
        if [dst, src, tos, scope] != [0; 4] {
            return Err(refuse("Invalid values in header for FIB dump request"));
        }
        let flags = u32_at(header, 8);
        if flags & !(RTM_F_CLONED | RTM_F_PREFIX) != 0 {
            return Err(refuse("Invalid flags for FIB dump request"));
        }
        POLICY.check(attrs, true)?;
        let mut filter = Self {
            flags,
            protocol,
            kind,
            table: table.into(),
            device: 0,
        };
        let mut numbers: Vec<u16> = attrs.all().map(|(number, _)| number).collect();
        numbers.sort_unstable();
        for number in numbers {
            let value = attrs.u32(number).unwrap_or(0);
            match number {
                RTA_TABLE => filter.table = value,
                RTA_OIF => filter.device = state.links.get(value).ok_or(ENODEV)?.index,
                _ => return Err(refuse("Unsupported attribute in dump request")),
            }
        }
        Ok(filter)
    }

    /// Cloned routes are a cache's, and there is none.
    pub(crate) fn cache_alone(&self) -> bool {
        self.flags & RTM_F_CLONED != 0
    }

    /// Those of prefixes that were announced alone.
    pub(crate) fn prefixes(&self) -> bool {
        self.flags & RTM_F_PREFIX != 0
    }

    /// What a dump says of its rows: a strict one lacks the cache or the routes, whatever its limits. Of the end it says
    /// so with a limit alone.
    pub(crate) fn dump(&self, request: &Request<'_>) -> Dump {
        let flag = |set| if set { NLM_F_DUMP_FILTERED } else { 0 };
        Dump {
            flags: flag(request.strict),
            end_flags: flag(request.strict && *self != Self::default()),
            ..Dump::default()
        }
    }
}

impl State {
    /// `inet_dump_fib`.
    pub(crate) fn dump_routes4(&mut self, request: &Request<'_>) -> Result<Dump, Refusal> {
        let filter = Filter::read(self, request)?;
        let mut dump = filter.dump(request);
        if filter.prefixes() || filter.cache_alone() {
            return Ok(dump);
        }
        if filter.table != 0 && !self.rules.has_table(INET, filter.table) {
            if request.family() == INET {
                let words = "ipv4: FIB table does not exist";
                dump.refusal = Some(Refusal::errno(ENOENT).because(words));
            }
            return Ok(dump);
        }
        for (key, list) in &self.routes4.tables {
            if filter.table != 0 && key.table != filter.table {
                continue;
            }
            for alias in list {
                let info = self.routes4.infos.get(&alias.info);
                if info.is_some_and(|info| self.shown(&filter, alias, info)) {
                    dump.rows.extend(self.route4_row(*key, alias, Action::New));
                }
            }
        }
        Ok(dump)
    }

    fn shown(&self, filter: &Filter, alias: &Alias, info: &Info) -> bool {
        (filter.kind == 0 || filter.kind == alias.kind)
            && (filter.protocol == 0 || filter.protocol == info.protocol)
            && (filter.device == 0
                || self
                    .legs_of(info)
                    .iter()
                    .any(|leg| leg.device == Some(filter.device)))
    }
}

//! What a dump of routes is limited to (`ip_valid_fib_dump_req`, which both families share).

use super::super::dispatch::Answer;
use super::super::policy::{Policy, Shape};
use super::super::request::{EINVAL, ENODEV, NLM_F_DUMP_FILTERED, Refusal, Request};
use super::super::state::State;
use super::parse::{RTA_OIF, RTA_TABLE};
use crate::message::{RawMessage, u32_at};

/// `rtm_ipv4_policy`: also requests about IPv6 are held to it.
const POLICY: Policy = Policy {
    shapes: &[
        (1, Shape::U32), // RTA_DST
        (2, Shape::U32), // RTA_SRC
        (3, Shape::U32), // RTA_IIF
        (RTA_OIF, Shape::U32),
        (5, Shape::U32),        // RTA_GATEWAY
        (6, Shape::U32),        // RTA_PRIORITY
        (7, Shape::U32),        // RTA_PREFSRC
        (8, Shape::Nested),     // RTA_METRICS
        (9, Shape::AtLeast(8)), // RTA_MULTIPATH
        (11, Shape::U32),       // RTA_FLOW
        (RTA_TABLE, Shape::U32),
        (16, Shape::U32),    // RTA_MARK
        (21, Shape::U16),    // RTA_ENCAP_TYPE
        (22, Shape::Nested), // RTA_ENCAP
        (25, Shape::U32),    // RTA_UID
        (27, Shape::U8),     // RTA_IP_PROTO
        (28, Shape::U16),    // RTA_SPORT
        (29, Shape::U16),    // RTA_DPORT
        (30, Shape::U32),    // RTA_NH_ID
    ],
    max: 31,
    strict_from: 30,
};

/// The limits of a dump; 0 is any.
pub(super) struct Filter {
    pub(super) table: u32,
    pub(super) protocol: u8,
    pub(super) kind: u8,
    pub(super) device: u32,
    pub(super) prefixes: bool,
    /// Not the cache alone.
    pub(super) routes: bool,
    strict: bool,
}

impl Filter {
    pub(super) fn read(state: &State, request: &Request<'_>) -> Result<Self, Refusal> {
        const RTM_F_CLONED: u32 = 0x200;
        const RTM_F_PREFIX: u32 = 0x800;
        let mut filter = Self {
            table: 0,
            protocol: 0,
            kind: 0,
            device: 0,
            prefixes: false,
            routes: true,
            strict: request.strict,
        };
        let refuse = |words| Err(Refusal::errno(EINVAL).because(words));
        let Ok((header, attrs)) = request.parts::<12>() else {
            return if request.strict {
                refuse("Invalid header for FIB dump request")
            } else {
                Ok(filter)
            };
        };
        let flags = u32_at(header, 8);
        filter.prefixes = flags & RTM_F_PREFIX != 0;
        if !request.strict {
            return Ok(filter);
        }
        let [_, dst, src, tos, table, protocol, scope, kind, ..] = *header;
        if [dst, src, tos, scope] != [0; 4] {
            return refuse("Invalid values in header for FIB dump request");
        }
        if flags & !(RTM_F_CLONED | RTM_F_PREFIX) != 0 {
            return refuse("Invalid flags for FIB dump request");
        }
        filter.routes = flags & RTM_F_CLONED == 0;
        filter.protocol = protocol;
        filter.kind = kind;
        filter.table = table.into();
        POLICY.check(attrs, true)?;
        let mut numbers: Vec<_> = attrs.all().map(|(number, _)| number).collect();
        numbers.sort_unstable();
        for number in numbers {
            match number {
                RTA_TABLE => filter.table = attrs.u32(RTA_TABLE).unwrap_or(0),
                RTA_OIF => {
                    filter.device = attrs.u32(RTA_OIF).unwrap_or(0);
                    state.links.get(filter.device).ok_or(ENODEV)?;
                }
                _ => return refuse("Unsupported attribute in dump request"),
            }
        }
        Ok(filter)
    }

    /// A strict dump without a filter lacks the cache, and says so.
    pub(super) fn answer(&self, rows: Vec<RawMessage>) -> Answer {
        let flags = if self.strict { NLM_F_DUMP_FILTERED } else { 0 };
        Answer::Dump { rows, flags }
    }
}

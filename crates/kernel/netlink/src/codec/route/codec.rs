//! The [`KindCodec`] of routes.

use trueup_net::{Action, Family, NextHops, Route};

use super::{DELETE, NEW, Row, append, create, delete, dump_request, replace};
use crate::codec::change::{Change, Part, RefusalCause};
use crate::codec::dump_query::{Consistency, DumpQuery, RowPosition};
use crate::codec::kind_codec::KindCodec;
use crate::codec::read_scope::ReadScope;
use crate::codec::{EncodeError, Undecodable};
use crate::group::Group;
use crate::kernel_error::KernelError;

impl KindCodec for Route {
    const NEW: u16 = NEW;
    const DELETE: u16 = DELETE;
    const GROUPS: &'static [Group] = &[Group::IPV4_ROUTE, Group::IPV6_ROUTE];
    const ABSENT: i32 = libc::ESRCH;

    fn decode(body: &[u8]) -> Result<Option<Route>, Undecodable> {
        super::decode(body)
    }

    fn decode_row(
        body: &[u8],
        scope: &ReadScope,
        query: &DumpQuery,
    ) -> Result<(Option<Route>, Option<RowPosition>), Undecodable> {
        let row = Row::parse(body)?;
        let wanted = row.as_ref().filter(|row| row.is_within(scope, query));
        Ok((wanted.map(Row::to_route), row.as_ref().and_then(Row::position)))
    }

    fn dumps(scope: &ReadScope, is_strict: bool) -> Vec<DumpQuery> {
        let tables: Vec<Option<u32>> = match &scope.tables {
            Some(tables) => tables.iter().copied().map(Some).collect(),
            None => vec![None],
        };
        let dump = |family, table: Option<u32>| {
            let dumped = table.filter(|_| is_strict);
            let protocol = scope.protocol.filter(|_| is_strict);
            let consistency = Consistency::Routes { family, table: dumped };
            let query = DumpQuery::new(consistency, |buffer| {
                dump_request(buffer, family, dumped, protocol)
            });
            DumpQuery { table, ..query }
        };
        let of_family = |family| tables.iter().map(move |table| dump(family, *table));
        scope.families().flat_map(of_family).collect()
    }

    fn encode(
        buffer: &mut Vec<u8>,
        part: Part,
        change: &Change<'_, Route>,
    ) -> Result<(), EncodeError> {
        let (route, resolve) = (change.object, change.indexes.resolve);
        match (change.action, part) {
            (Action::Create, Part::Append) => append(buffer, route, resolve),
            (Action::Create, _) => create(buffer, route, resolve),
            (Action::Update, _) => replace(buffer, route, resolve),
            (Action::Delete, _) => delete(buffer, route, resolve),
        }
    }

    fn refusal_cause(&self, action: Action, error: &KernelError) -> Option<RefusalCause> {
        if action == Action::Delete || error.errno() != libc::EINVAL {
            return None;
        }
        // An IPv6 address is no source of routes before duplicate address detection ends.
        let has_ipv6_source = self.src.is_some() && self.family() == Family::Inet6;
        // Another writer deleted the nexthop object that the route uses.
        let has_object = matches!(self.nexthops, NextHops::Object(..));
        (has_ipv6_source || has_object).then_some(RefusalCause::Dependency)
    }
}

impl Row<'_> {
    /// Returns whether the route is in a scope and in the table of a query.
    #[must_use]
    #[inline]
    pub fn is_within(&self, scope: &ReadScope, query: &DumpQuery) -> bool {
        let row = self.common();
        query.table.is_none_or(|table| row.table == table)
            && scope.protocol.is_none_or(|protocol| row.protocol == protocol)
    }

    /// Returns the position of the row in its dump; `None` for IPv6, where the kernel counts.
    #[must_use]
    #[inline]
    pub fn position(&self) -> Option<RowPosition> {
        let row = self.common();
        (row.family == Family::Inet)
            .then_some(RowPosition { table: row.table, dst: row.dst as u32 })
    }
}

//! Routes are many: most are looked at where they arrived, and held nowhere.

use trueup_diff::{DumpMatcher, Family, Item as _, Kind, Mismatches, Route, RowMatch};
use trueup_netlink::codec::Undecodable;
use trueup_netlink::codec::route::{self, Row};
use trueup_netlink::{Error, ErrorKind};

use crate::completeness::{Incomplete, ReadResult};
use crate::dump::{DumpRequest, RowReader, read_dump};
use crate::dump_guard::{DumpKind, RowPosition};
use crate::observer::Observer;
use crate::scope::ReadScope;

/// What is dumped at once: a family, of one table or all.
#[derive(Clone, Copy)]
struct Range {
    family: Family,
    table: Option<u32>,
    protocol: Option<u8>,
}

impl Range {
    fn holds(&self, row: &Row<'_>) -> bool {
        self.table.is_none_or(|table| row.common().table == table)
            && self
                .protocol
                .is_none_or(|protocol| row.common().protocol == protocol)
    }
}

fn ranges(scope: &ReadScope) -> Vec<Range> {
    let tables: Vec<Option<u32>> = match &scope.tables {
        Some(tables) => tables.iter().copied().map(Some).collect(),
        None => vec![None],
    };
    let of = |family| {
        let range = move |table: &Option<u32>| Range {
            family,
            table: *table,
            protocol: scope.protocol,
        };
        tables.iter().map(range).collect::<Vec<_>>()
    };
    scope.families().flat_map(of).collect()
}

impl Observer {
    /// Reads the routes within a scope that `keep` wants. Holds none of the others, so that reading
    /// a few routes among many costs no memory.
    ///
    /// # Errors
    ///
    /// As [`snapshot`](Self::snapshot).
    pub fn routes_where(
        &mut self,
        scope: &ReadScope,
        keep: impl FnMut(&Route) -> bool,
    ) -> Result<(Vec<Route>, Option<Incomplete>), Error> {
        kept(self, scope, keep)
    }

    /// Reads the routes within a scope that do not fall through a matcher, and the mismatches in it.
    /// Holds none of those that do.
    ///
    /// # Errors
    ///
    /// As [`snapshot`](Self::snapshot).
    pub fn match_routes(
        &mut self,
        scope: &ReadScope,
        matcher: &mut DumpMatcher<'_>,
    ) -> Result<(Vec<Route>, Mismatches, Option<Incomplete>), Error> {
        matched(self, scope, matcher)
    }
}

/// The routes within a scope that `keep` wants.
pub(crate) fn kept(
    observer: &mut Observer,
    scope: &ReadScope,
    mut keep: impl FnMut(&Route) -> bool,
) -> ReadResult<Route> {
    let mut all = Collected::default();
    for range in ranges(scope) {
        let keep = &mut keep;
        let (rows, doubt) = read_range(observer, range, &mut Kept { range, keep })?;
        all.add(rows, doubt);
    }
    Ok(all.in_order())
}

/// What does not fall through a matcher of what there is in a scope, and the mismatches in it.
fn matched(
    observer: &mut Observer,
    scope: &ReadScope,
    matcher: &mut DumpMatcher<'_>,
) -> Result<(Vec<Route>, Mismatches, Option<Incomplete>), Error> {
    let mut all = Collected::default();
    let mut mismatches = Mismatches::default();
    for range in ranges(scope) {
        let mut dump = MatchedDump {
            range,
            matcher,
            begun: false,
            found: Vec::new(),
        };
        let (mut rows, mut doubt) = read_range(observer, range, &mut dump)?;
        dump.end();
        let mut attempts = dump.found;
        let last = attempts.pop().unwrap_or_default();
        // Where no attempt was whole, what any of them saw is there.
        let seen = match doubt {
            None => last,
            Some(_) => attempts.iter().fold(last, Mismatches::common),
        };
        if seen.in_order() {
            mismatches.add(seen);
        } else {
            let mut every = |_: &Route| true;
            let keep = &mut every;
            (rows, doubt) = read_range(observer, range, &mut Kept { range, keep })?;
            matcher.begin(range.family);
            mismatches.add(matcher.end(range.family, range.table));
        }
        all.add(rows, doubt);
    }
    let (rows, doubt) = all.in_order();
    Ok((rows, mismatches, doubt))
}

/// What came of several dumps.
#[derive(Default)]
struct Collected {
    rows: Vec<Route>,
    sorted: bool,
    doubt: Option<Incomplete>,
}

impl Collected {
    fn add(&mut self, rows: Vec<Route>, doubt: Option<Incomplete>) {
        self.doubt = doubt.or(self.doubt.take());
        if self.rows.is_empty() {
            self.rows = rows;
            self.sorted = true;
        } else if !rows.is_empty() {
            self.rows.extend(rows);
            self.sorted = false;
        }
    }

    fn in_order(mut self) -> (Vec<Route>, Option<Incomplete>) {
        if !self.sorted {
            self.rows.sort_by_key(|row| row.key());
        }
        (self.rows, self.doubt)
    }
}

fn read_range(
    observer: &mut Observer,
    range: Range,
    rows: &mut impl RowReader<Route>,
) -> ReadResult<Route> {
    let strict = observer.socket.strict();
    let filter = match strict {
        true => route::Filter {
            table: range.table,
            protocol: range.protocol,
            ..Default::default()
        },
        false => route::Filter::default(),
    };
    let family = range.family;
    observer.read_until_consistent(
        Kind::Route,
        DumpKind::Routes(family, filter.table),
        |rows: &mut Vec<Route>| {
            if !rows.is_sorted_by(|a, b| a.key() <= b.key()) {
                rows.sort_by_key(|row| row.key());
            }
        },
        |socket, guard, items| {
            let dump = DumpRequest {
                kind: Kind::Route,
                encode: |buffer: &mut Vec<u8>| route::dump_request(buffer, family, &filter),
                row_type: route::NEW,
                rows: &mut *rows,
            };
            match read_dump(socket, guard, dump, items) {
                // A table that does not exist is empty.
                Err(error) if filter.table.is_some() && is_absent(&error) => Ok((None, true)),
                answer => answer,
            }
        },
    )
}

/// What the kernel answers where the table that a dump is limited to does not exist.
fn is_absent(error: &Error) -> bool {
    error.kind() == ErrorKind::Kernel && error.errno() == Some(libc::ENOENT)
}

struct Kept<'a, K> {
    range: Range,
    keep: &'a mut K,
}

impl<K: FnMut(&Route) -> bool> RowReader<Route> for Kept<'_, K> {
    fn row(
        &mut self,
        body: &[u8],
        items: &mut Vec<Route>,
    ) -> Result<Option<RowPosition>, Undecodable> {
        let Some(row) = Row::parse(body)? else {
            return Ok(None);
        };
        if self.range.holds(&row) {
            let route = row.to_route();
            if (self.keep)(&route) {
                items.push(route);
            }
        }
        Ok(RowPosition::of(&row))
    }
}

struct MatchedDump<'a, 'r> {
    range: Range,
    matcher: &'a mut DumpMatcher<'r>,
    begun: bool,
    /// What each attempt has found.
    found: Vec<Mismatches>,
}

impl MatchedDump<'_, '_> {
    fn end(&mut self) {
        if !std::mem::take(&mut self.begun) {
            self.matcher.begin(self.range.family);
        }
        let Range { family, table, .. } = self.range;
        self.found.push(self.matcher.end(family, table));
    }
}

impl RowReader<Route> for MatchedDump<'_, '_> {
    fn begin(&mut self) {
        if self.begun {
            self.end();
        }
        self.matcher.begin(self.range.family);
        self.begun = true;
    }

    fn row(
        &mut self,
        body: &[u8],
        items: &mut Vec<Route>,
    ) -> Result<Option<RowPosition>, Undecodable> {
        let Some(row) = Row::parse(body)? else {
            return Ok(None);
        };
        if self.range.holds(&row) {
            let verdict = match row.plain() {
                Some(row) => self.matcher.match_plain(row),
                None => self.matcher.match_route(&row.to_route()),
            };
            match verdict {
                RowMatch::Matched => {}
                RowMatch::Kept => items.push(row.to_route()),
                RowMatch::KeptBoth(before) => items.extend([*before, row.to_route()]),
            }
        }
        Ok(RowPosition::of(&row))
    }
}

//! Reads routes without storing unwanted ones.

use std::ops::ControlFlow;

use trueup_net::internal::DumpMatcher;
use trueup_net::{Family, Route};
use trueup_netlink::codec::route::Row;
use trueup_netlink::codec::{
    Consistency, DumpQuery, KindCodec as _, ReadScope, RowPosition, Undecodable,
};
use trueup_netlink::{DumpStep, Error};

use crate::completeness::Incomplete;
use crate::kind_reader::RowReader;
use crate::kind_reader::{Rows, read_kind};
use crate::observer::Observer;

impl Observer {
    /// Reads the routes within a scope for which `keep` returns true. Stores no others, so that
    /// reading a few routes among many costs no memory.
    ///
    /// # Errors
    ///
    /// The same as [`snapshot`](Self::snapshot).
    pub fn routes_where(
        &mut self,
        scope: &ReadScope,
        keep: impl FnMut(&Route) -> bool,
    ) -> Result<(Vec<Route>, Option<Incomplete>), Error> {
        read_kind(self, scope, &[], keep)
    }

    /// Matches the routes within a scope with those that a matcher expects. Returns the routes that
    /// do not match, and stores no others.
    ///
    /// # Errors
    ///
    /// The same as [`snapshot`](Self::snapshot).
    #[doc(hidden)]
    pub fn match_routes(
        &mut self,
        scope: &ReadScope,
        matcher: &mut DumpMatcher<'_>,
    ) -> Result<(Vec<Route>, Option<Incomplete>), Error> {
        let mut all = Rows::default();
        for query in Route::dumps(scope, self.socket.strict()) {
            let Consistency::Routes { family, .. } = query.consistency else {
                continue;
            };
            let mut dump = MatchedDump { scope, query: &query, family, matcher, has_begun: false };
            let (mut rows, mut incomplete) = self.read_query(&query, &mut dump)?;
            dump.end();
            if !matcher.settle(incomplete.is_none()) {
                (rows, incomplete) = self.read_rows(scope, &query, |_| true)?;
                matcher.settle_unseen(family, query.table);
            }
            all.add(rows, incomplete);
        }
        Ok(all.into_sorted())
    }

    /// Matches the first routes within a scope, as many as the kernel sends at once. Returns the
    /// number of ours among them that [differ](DumpMatcher::differing). It takes two system calls
    /// and a socket, for any number of routes, and is a sample of the whole.
    ///
    /// # Errors
    ///
    /// The same as [`snapshot`](Self::snapshot).
    #[doc(hidden)]
    pub fn sample_routes(
        &mut self,
        scope: &ReadScope,
        matcher: &mut DumpMatcher<'_>,
    ) -> Result<usize, Error> {
        let (mut differing, mut kept) = (0, Vec::new());
        for query in Route::dumps(scope, self.socket.strict()) {
            let Consistency::Routes { family, .. } = query.consistency else {
                continue;
            };
            matcher.begin(family);
            // The kernel would continue a broken-off dump, so the socket is not kept.
            let mut socket = self.alternate_sockets.open_another(&self.socket)?;
            socket.dump_while(&query.request, |step| {
                match step {
                    DumpStep::Begin => {}
                    DumpStep::Message(message) => {
                        let row = Row::parse(message.body).ok().flatten();
                        if let Some(row) = row.filter(|row| row.is_within(scope, &query)) {
                            kept.clear();
                            matcher.match_row(row.plain(), || row.to_route(), &mut kept);
                        }
                    }
                    DumpStep::Part(_) => return ControlFlow::Break(()),
                }
                ControlFlow::Continue(())
            })?;
            differing += matcher.differing();
        }
        Ok(differing)
    }
}

/// Matches the rows of a dump as they arrive.
struct MatchedDump<'a, 'r> {
    scope: &'a ReadScope,
    query: &'a DumpQuery,
    family: Family,
    matcher: &'a mut DumpMatcher<'r>,
    has_begun: bool,
}

impl MatchedDump<'_, '_> {
    fn end(&mut self) {
        if !std::mem::take(&mut self.has_begun) {
            self.matcher.begin(self.family);
        }
        self.matcher.end(self.family, self.query.table);
    }
}

impl RowReader<Route> for MatchedDump<'_, '_> {
    fn begin(&mut self) {
        if self.has_begun {
            self.end();
        }
        self.matcher.begin(self.family);
        self.has_begun = true;
    }

    fn row(
        &mut self,
        body: &[u8],
        items: &mut Vec<Route>,
    ) -> Result<Option<RowPosition>, Undecodable> {
        let Some(row) = Row::parse(body)? else {
            return Ok(None);
        };
        if row.is_within(self.scope, self.query) {
            self.matcher.match_row(row.plain(), || row.to_route(), items);
        }
        Ok(row.position())
    }
}

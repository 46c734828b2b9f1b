//! The routes of each table in the kernel's order, and the lookup in it (`net/ipv4/fib_trie.c`).

use super::super::request::{
    Attributes, EAGAIN, EEXIST, EINVAL, ENETUNREACH, ENOENT, ESRCH, NLM_F_APPEND, NLM_F_CREATE,
    NLM_F_EXCL, NLM_F_REPLACE, Refusal, Request,
};
use super::super::rule::{self, Step};
use super::super::state::{Flaw, State, group};
use super::config::Config;
use super::info::{Info, Leg, RTNH_F_DEAD};
use super::{RTN_BLACKHOLE, SCOPE_NOWHERE, TABLE_DEFAULT, TABLE_LOCAL, TABLE_MAIN, errors};
use crate::message::Action;

/// A destination within a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) table: u32,
    /// In host order.
    pub(super) dst: u32,
    pub(super) length: u8,
}

/// One route to a destination, `struct fib_alias`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Alias {
    pub(super) tos: u8,
    pub(super) kind: u8,
    pub(super) info: u64,
}

/// What is looked up; the default asks for nothing in particular.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Flow {
    /// In host order.
    pub(crate) dst: u32,
    pub(crate) src: u32,
    /// Routes of a wider scope do not count.
    pub(crate) scope: u8,
    pub(crate) tos: u8,
    pub(crate) oif: u32,
    pub(crate) iif: u32,
    pub(crate) mark: u32,
    pub(crate) uid: u32,
    pub(crate) ip_protocol: u8,
    pub(crate) source_port: u16,
    pub(crate) port: u16,
}

/// The route found, `struct fib_result`.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(super) key: Key,
    pub(super) alias: Alias,
    /// The table that was looked up: `main` also for a route of `local`, as long as they share a tree.
    pub(super) table: u32,
    /// `RTN_*`.
    pub(crate) kind: u8,
    pub(crate) scope: u8,
    pub(crate) leg: Leg,
}

impl State {
    fn priority(&self, alias: &Alias) -> u32 {
        self.routes4
            .infos
            .get(&alias.info)
            .map_or(0, |i| i.priority)
    }

    /// `fib_find_alias`: the first with this TOS and at least this metric, or the first with a smaller TOS.
    fn find_alias(&self, list: &[Alias], tos: u8, priority: u32) -> Option<usize> {
        list.iter().position(|alias| {
            alias.tos < tos || (alias.tos == tos && self.priority(alias) >= priority)
        })
    }

    /// `fib_table_insert`.
    pub(super) fn insert_route4(
        &mut self,
        config: &Config<'_>,
        by: Option<&Request<'_>>,
    ) -> Result<(), Refusal> {
        let key = Key {
            table: config.table,
            dst: config.dst,
            length: config.length,
        };
        let info = self.create_info(config)?;
        let new = Alias {
            tos: config.tos,
            kind: config.kind,
            info,
        };
        let done = self.place(key, new, config.request);
        match done {
            Ok(Some((dropped, flags))) => {
                self.announce_route4(key, &new, Action::New, flags, by);
                if let Some(dropped) = dropped {
                    self.release_info(dropped);
                }
                Ok(())
            }
            Ok(None) => {
                self.release_info(info);
                Ok(())
            }
            Err(errno) => {
                self.release_info(info);
                Err(errno.into())
            }
        }
    }

    /// Puts a route in its place. `None` when it was there already, otherwise what the route had that it took the place
    /// of, and the flags of the announcement.
    fn place(
        &mut self,
        key: Key,
        new: Alias,
        request: u16,
    ) -> Result<Option<(Option<u64>, u16)>, i32> {
        let priority = self.priority(&new);
        let list = self.routes4.tables.get(&key).map_or(&[][..], Vec::as_slice);
        let first = self.find_alias(list, new.tos, priority);
        let mut at = first.unwrap_or(list.len());
        let mut flags = NLM_F_CREATE | NLM_F_EXCL;
        let equal = |alias: &Alias| alias.tos == new.tos && self.priority(alias) == priority;
        if list.get(at).is_some_and(equal) {
            if request & NLM_F_EXCL != 0 {
                return Err(EEXIST);
            }
            let behind = list[at..].iter().position(|alias| !equal(alias));
            let end = behind.map_or(list.len(), |behind| at + behind);
            let same = |alias: &Alias| alias.kind == new.kind && alias.info == new.info;
            let matching = list[at..end].iter().position(same);
            if request & NLM_F_REPLACE != 0 {
                return match matching {
                    Some(0) => Ok(None),
                    Some(_) => Err(EEXIST),
                    None => {
                        let list = self.routes4.tables.entry(key).or_default();
                        let old = std::mem::replace(&mut list[at], new);
                        Ok(Some((Some(old.info), NLM_F_REPLACE)))
                    }
                };
            }
            if matching.is_some() {
                return Err(EEXIST);
            }
            flags = NLM_F_CREATE | request & NLM_F_APPEND;
            if request & NLM_F_APPEND != 0 {
                at = end;
            }
        }
        if request & NLM_F_CREATE == 0 {
            return Err(ENOENT);
        }
        self.routes4.tables.entry(key).or_default().insert(at, new);
        Ok(Some((None, flags)))
    }

    /// `fib_table_delete`.
    pub(super) fn delete_route4(
        &mut self,
        config: &Config<'_>,
        by: Option<&Request<'_>>,
    ) -> Result<(), Refusal> {
        let key = Key {
            table: config.table,
            dst: config.dst,
            length: config.length,
        };
        let list = self.routes4.tables.get(&key).ok_or(ESRCH)?;
        let first = self.find_alias(list, config.tos, 0).ok_or(ESRCH)?;
        let any_protocol = config.protocol == 0 || self.is(Flaw::DeleteIgnoresProtocol);
        let means = |alias: &Alias, info: &Info| {
            (config.kind == 0 || alias.kind == config.kind)
                && (config.scope == SCOPE_NOWHERE || info.scope == config.scope)
                && (config.source == [0; 4] || info.source == config.source)
                && (any_protocol || info.protocol == config.protocol)
                && info.fits(config)
                && config
                    .metrics
                    .is_none_or(|nest| info.metrics.hold(Attributes::new(nest)))
        };
        let at = list[first..]
            .iter()
            .take_while(|alias| alias.tos == config.tos)
            .position(|alias| {
                let info = self.routes4.infos.get(&alias.info);
                info.is_some_and(|info| means(alias, info))
            });
        let at = first + at.ok_or(ESRCH)?;
        let gone = list[at];
        self.announce_route4(key, &gone, Action::Del, 0, by);
        if let Some(list) = self.routes4.tables.get_mut(&key) {
            list.remove(at);
            if list.is_empty() {
                self.routes4.tables.remove(&key);
            }
        }
        self.release_info(gone.info);
        Ok(())
    }

    /// `fib_flush`: takes the routes that are dead, without a word, except where their preferred source went.
    pub(super) fn flush_routes4(&mut self) {
        let dead = |alias: &Alias| {
            let info = self.routes4.infos.get(&alias.info);
            info.is_some_and(Info::is_dead)
        };
        let mut gone = Vec::new();
        for (key, list) in &self.routes4.tables {
            gone.extend(list.iter().filter(|a| dead(a)).map(|alias| (*key, *alias)));
        }
        for (key, alias) in &gone {
            let info = self.routes4.infos.get(&alias.info);
            if info.is_some_and(|info| info.source_removed) {
                self.announce_route4(*key, alias, Action::Del, 0, None);
            }
        }
        for (key, alias) in gone {
            if let Some(list) = self.routes4.tables.get_mut(&key) {
                list.retain(|other| other.info != alias.info);
                if list.is_empty() {
                    self.routes4.tables.remove(&key);
                }
            }
            self.release_info(alias.info);
        }
    }

    fn announce_route4(
        &mut self,
        key: Key,
        alias: &Alias,
        action: Action,
        flags: u16,
        by: Option<&Request<'_>>,
    ) {
        if let Some(row) = self.route4_row(key, alias, action) {
            self.announce_with(flags, group::IPV4_ROUTE, &row, by);
        }
    }

    /// The tables that share one tree: until the first rule is added or deleted, `local` is but a part of `main`, and a
    /// lookup in one finds the longest prefix of both.
    fn tree(&self, table: u32) -> Vec<u32> {
        if !self.routes4.split && (table == TABLE_LOCAL || table == TABLE_MAIN) {
            vec![TABLE_LOCAL, TABLE_MAIN]
        } else {
            vec![table]
        }
    }

    /// `fib_table_lookup`.
    ///
    /// # Errors
    ///
    /// `EAGAIN` when there is no route, otherwise what a route says that leads nowhere.
    pub(crate) fn lookup_table4(&self, table: u32, flow: &Flow) -> Result<Found, i32> {
        let tables = self.tree(table);
        let asked = table;
        // Where no leg of a nexthop object will do, the rest of the leaf is passed over, too.
        let mut passed = None;
        for length in (0..=32_u8).rev() {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            let dst = flow.dst & mask;
            for table in &tables {
                let key = Key {
                    table: *table,
                    dst,
                    length,
                };
                let list = self.routes4.tables.get(&key);
                for alias in list.map_or(&[][..], Vec::as_slice) {
                    let Some(info) = self.routes4.infos.get(&alias.info) else {
                        continue;
                    };
                    let tos = alias.tos == 0 || alias.tos == flow.tos;
                    if passed == Some(dst) || !tos || info.scope < flow.scope {
                        continue;
                    }
                    if let Some(errno) = errors(alias.kind) {
                        return Err(errno);
                    }
                    if info.is_dead() {
                        continue;
                    }
                    if info
                        .nexthop
                        .is_some_and(|id| self.nexthops.is_blackhole(id))
                    {
                        return Err(errors(RTN_BLACKHOLE).unwrap_or(EINVAL));
                    }
                    let leg = self.legs_of(info).into_iter().find(|leg| {
                        leg.flags & RTNH_F_DEAD == 0 && (flow.oif == 0 || flow.oif == leg.oif)
                    });
                    match leg {
                        Some(leg) => {
                            return Ok(Found {
                                key,
                                alias: *alias,
                                table: asked,
                                kind: alias.kind,
                                scope: info.scope,
                                leg,
                            });
                        }
                        None if info.nexthop.is_some() => passed = Some(dst),
                        None => {}
                    }
                }
            }
        }
        Err(EAGAIN)
    }

    /// `fib_lookup`: through the rules, or, as long as nobody changed them, in `main` with `local`, then, if there is no
    /// route (which one that leads nowhere is), in `default`.
    ///
    /// # Errors
    ///
    /// `ENETUNREACH` when there is no route, otherwise what a rule or route says that leads nowhere.
    pub(crate) fn lookup4(&self, flow: &Flow) -> Result<Found, i32> {
        let nowhere = |errno| if errno == EAGAIN { ENETUNREACH } else { errno };
        if !self.routes4.split {
            let mut found = self.lookup_table4(TABLE_MAIN, flow);
            if matches!(found, Err(EAGAIN)) && self.rules.has_table(2, TABLE_DEFAULT) {
                found = self.lookup_table4(TABLE_DEFAULT, flow);
            }
            return found.map_err(nowhere);
        }
        let dst = flow.dst.to_be_bytes();
        let src = flow.src.to_be_bytes();
        let asked = rule::Flow {
            dst: &dst,
            src: Some(&src),
            iif: flow.iif,
            oif: flow.oif,
            mark: flow.mark,
            tos: flow.tos,
            uid: flow.uid,
            ip_protocol: flow.ip_protocol,
            source_port: flow.source_port,
            port: flow.port,
        };
        for step in self.rules_lookup(2, &asked) {
            let (id, length, link_group) = match step {
                Step::Refuse(errno) => return Err(errno),
                Step::Table { id, length, group } => (id, length, group),
            };
            match self.lookup_table4(id, flow) {
                Ok(found) => {
                    let device = found.leg.device.and_then(|index| self.links.get(index));
                    let group = device.map(|link| link.group.cast_signed());
                    let suppressed = i32::from(found.key.length) <= length
                        || (link_group != -1 && group == Some(link_group));
                    if !suppressed {
                        return Ok(found);
                    }
                }
                Err(EAGAIN) => {}
                Err(errno) => return Err(errno),
            }
        }
        Err(ENETUNREACH)
    }
}

//! A routing daemon's day in one run, one part after the other: many routes of both families, a
//! tenth of them multipath. 1 % have an unreachable gateway, and 0.1 % are in conflict with another
//! writer, all the time. Some prefixes change ten times a second, a gateway fails, and there is a
//! feed.

use std::collections::HashMap;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use trueup_net::{Dev, Prefix, Route};
use trueup_rtnl::DEFAULT_PROTOCOL;
use trueup_works::clock::{processor_of, processor_of_thread};
use trueup_works::internet::Prefixes;

use super::feed::{self, Feed};
use super::table::{FORMS, HEAVY, Table, address, next};
use super::turns::{BOUND, FloorRoutes, Meter, Turns, led_on};
use super::{FLOOR, Rows, TRUEUP, enter_namespace};
use crate::floor::{self, Raw};
use crate::kept::{Kept, Update};
use crate::listener::{Heard, Listener};
use crate::row::Row;
use crate::writer::{Verb, write};

/// The title of the row for a failing gateway.
pub(super) const GATEWAY_FAILS: &str = "a gateway fails, and comes back: each of its prefixes";
/// The numbers of prefixes that change at once.
const CHANGED: [usize; 3] = [1, 10, 1_000];
/// The time between two changes.
const PERIOD: Duration = Duration::from_millis(100);
/// The number of turns of trueup, and of the floor.
const TURNS: u32 = 6;
/// The floor's turns are shorter than trueup's by this factor.
const FLOOR_SHARE: u32 = 4;

/// A day's loop, routes and listener.
struct Day<'a> {
    kept: &'a Kept,
    table: &'a mut Table,
    listener: &'a Listener,
    lasts: Duration,
}

/// Measures a day with these numbers of IPv4 and IPv6 routes; each kind of change lasts for
/// `lasts`.
pub(super) fn run((v4, v6): (usize, usize), lasts: Duration, rows: &mut Rows) -> Result<()> {
    enter_namespace(true)?;
    let mut table = Table::of_day(Prefixes::internet_of(v4, v6)?)?;
    let foreign = table.foreign();
    write(Verb::Create, &foreign)?;
    let desired = table.desired()?;
    let (start, used) = (Instant::now(), processor_of(process::id())?);
    let kept = Kept::start(desired)?;
    let (took, used) = (start.elapsed(), processor_of(process::id())? - used);
    let (exceptions, due) = (kept.exceptions(), table.exceptions());
    let mut first = Row::new(TRUEUP, "daemon-day-start", "the first pass: all routes")
        .with_times(vec![took], table.len())
        .with_processor(used, 1);
    first.objects = table.len() - due;
    rows.show([first])?;
    ensure!(exceptions == due, "{exceptions} routes are not in place, {due} are not to be");

    let mut floor = FloorRoutes::create(&FORMS[0], CHANGED[2])?;
    let listener = Listener::start()?;
    let mut day = Day { kept: &kept, table: &mut table, listener: &listener, lasts };
    rows.show([day.rest()?])?;
    for count in CHANGED {
        rows.show(day.changes(count, &mut floor)?)?;
    }
    rows.show(day.gateway_fails()?)?;
    rows.show([day.feed()?])?;
    let exceptions = kept.exceptions();
    if exceptions != due {
        eprintln!("{exceptions} routes are not in place at the end, {due} are not to be");
    }
    drop(listener);
    kept.end()?;
    floor.delete()?;
    write(Verb::Delete, &foreign)
}

impl Day<'_> {
    /// Measures a rest: nothing changes.
    fn rest(&mut self) -> Result<Row> {
        let lasts = self.lasts.min(Duration::from_secs(20));
        let meter = Meter::start(self.listener)?;
        thread::sleep(lasts);
        let row = Row::new(TRUEUP, "daemon-day-rest", "nothing changes: each second");
        Ok(row.at_rest(meter.read()?, lasts, self.table.len()))
    }

    /// Gives `count` prefixes another gateway, ten times a second.
    fn changes(&mut self, count: usize, floor: &mut FloorRoutes) -> Result<[Row; 2]> {
        let (mut ours, mut theirs) = (Turns::default(), Turns::default());
        for _ in 0..TURNS {
            let mut meter = Meter::start(self.listener)?;
            periodically(self.lasts / TURNS, || {
                ours.of_trueup(self.kept, self.table, &mut meter, count)
            })?;
            ours.processor += meter.read()?;
            periodically(self.lasts / TURNS / FLOOR_SHARE, || {
                theirs.of_floor(floor, self.listener, count)
            })?;
        }
        let prefixes =
            if count == 1 { "one prefix".to_owned() } else { format!("{count} prefixes at once") };
        let title = format!("{prefixes}, every {} ms: another gateway", PERIOD.as_millis());
        let (work, size) = (format!("daemon-day-{count}"), self.table.len());
        Ok([
            theirs.row(FLOOR, &work, &title, size, count),
            ours.row(TRUEUP, &work, &title, size, count),
        ])
    }

    /// Takes the gateway from three tenths of the IPv4 routes at once, and gives it back; one more
    /// prefix changes right behind them.
    fn gateway_fails(&mut self) -> Result<[Row; 3]> {
        let places: Vec<usize> = self.table.in_place(true).collect();
        let (mut ours, mut behind) = (Turns::default(), Turns::default());
        for is_back in [false, true] {
            let updates = places
                .iter()
                .enumerate()
                .map(|(number, at)| {
                    let gateway = gateway_after(number, is_back);
                    Ok(Update::Announce(self.table.lead(*at, gateway)?))
                })
                .collect::<Result<_>>()?;
            let (one, last) = led_on(self.table, 1)?;
            drop(self.listener.take());
            let mut meter = Meter::start(self.listener)?;
            let start = Instant::now();
            let revision = meter.call(|| self.kept.update(updates))?;
            let start_of_last = Instant::now();
            let last = meter.call(|| self.kept.update(last))?;
            meter.call(|| self.kept.wait_tried(revision))?;
            meter.call(|| self.kept.wait_tried(last))?;
            thread::sleep(BOUND);
            ours.processor += meter.read()?;
            let first = first_of_each(&self.listener.take());
            ours.count_each(start, places.len(), self.heard_of(&places, &first));
            behind.count_each(start_of_last, one.len(), self.heard_of(&one, &first));
        }
        behind.longest = Duration::ZERO;
        let theirs = self.gateway_fails_on_the_floor(&places)?;
        let (size, count) = (self.table.len(), places.len());
        let title = "one prefix, right behind a gateway that fails";
        Ok([
            theirs.row(FLOOR, "daemon-day-gateway", GATEWAY_FAILS, size, count),
            ours.row(TRUEUP, "daemon-day-gateway", GATEWAY_FAILS, size, count),
            behind.row(TRUEUP, "daemon-day-behind", title, size, 1),
        ])
    }

    /// Changes the same routes by raw requests, while the loop is paused; at the end all are as
    /// before.
    fn gateway_fails_on_the_floor(&self, places: &[usize]) -> Result<Turns> {
        let mut turns = Turns::default();
        let mut socket = Raw::open()?;
        self.kept.0.handle().pause(crate::kept::BOUND)?;
        for is_back in [false, true] {
            let routes = places.iter().enumerate().map(|(number, at)| -> Route<Dev> {
                let nexthops = self.table.form(*at).nexthops(gateway_after(number, is_back));
                let route = Route::new(self.table.prefix(*at), nexthops);
                route.with_protocol(DEFAULT_PROTOCOL).canonical()
            });
            let requests = floor::replacements(&routes.collect::<Vec<_>>())?;
            drop(self.listener.take());
            let (start, used) = (Instant::now(), processor_of_thread()?);
            socket.send(&requests)?;
            turns.processor += processor_of_thread()?.saturating_sub(used);
            thread::sleep(BOUND);
            let first = first_of_each(&self.listener.take());
            turns.count_each(start, places.len(), self.heard_of(places, &first));
        }
        self.kept.0.handle().resume()?;
        // The full pass that follows must not count in any measurement.
        self.kept.wait_tried(self.kept.update(Vec::new())?)?;
        Ok(turns)
    }

    fn heard_of(
        &self,
        places: &[usize],
        first: &HashMap<Prefix, Instant>,
    ) -> impl Iterator<Item = Instant> {
        places.iter().filter_map(|at| first.get(&self.table.prefix(*at)).copied())
    }

    /// Hands in announcements and withdrawals as they come.
    fn feed(&mut self) -> Result<Row> {
        let mut feed = Feed::new(self.table);
        let mut sent = Vec::new();
        let (mut messages, mut last) = (0, None);
        drop(self.listener.take());
        let mut meter = Meter::start(self.listener)?;
        let end = Instant::now() + self.lasts;
        while Instant::now() < end {
            let (burst, pause) = feed.burst(self.table);
            for message in burst {
                let mut updates = Vec::with_capacity(message.len());
                let mut about = Vec::with_capacity(message.len());
                for (at, gateway) in message {
                    updates.push(match gateway {
                        Some(gateway) => Update::Announce(self.table.lead(at, gateway)?),
                        None => Update::Withdraw(self.table.route(at)?.canonical_key()),
                    });
                    let prefix = self.table.prefix(at);
                    about.push((prefix, gateway.map(|it| address(prefix.family(), it))));
                }
                let now = Instant::now();
                sent.extend(about.into_iter().map(|(prefix, via)| (now, prefix, via)));
                last = Some(meter.call(|| self.kept.update(updates))?);
                messages += 1;
            }
            thread::sleep(pause);
        }
        if let Some(last) = last {
            meter.call(|| self.kept.wait_tried(last))?;
        }
        thread::sleep(BOUND);
        let used = meter.read()?;
        let (latencies, unheard) = feed::latencies(&sent, &self.listener.take());
        let title = "a feed like the internet's: each change";
        let mut row = Row::new(TRUEUP, "daemon-day-feed", title)
            .with_times(latencies, self.table.len())
            .with_processor(used, messages);
        (row.times, row.objects) = (messages, sent.len() / messages.max(1));
        row.unheard = unheard;
        Ok(row)
    }
}

/// Returns a route's gateway while its first gateway fails, and afterwards.
fn gateway_after(number: usize, is_back: bool) -> u8 {
    if is_back { HEAVY } else { next((number % 63) as u8) }
}

/// Returns the time of each prefix's first event.
fn first_of_each(heard: &[Heard]) -> HashMap<Prefix, Instant> {
    // In reverse: the last value of a key stays.
    heard.iter().rev().map(|event| (event.prefix, event.at)).collect()
}

/// Calls `act` once in each [`PERIOD`], for `lasts`, and at least once.
fn periodically(lasts: Duration, mut act: impl FnMut() -> Result<()>) -> Result<()> {
    let start = Instant::now();
    let mut due = Duration::ZERO;
    loop {
        act()?;
        due += PERIOD;
        if due >= lasts || start.elapsed() >= lasts {
            return Ok(());
        }
        thread::sleep(due.saturating_sub(start.elapsed()));
    }
}

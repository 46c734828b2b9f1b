//! A routing daemon's day, one thing after the other in one run: so many routes of both families, a
//! tenth of them multipath, 1 % with a gateway that cannot be reached and 0.1 % in conflict with
//! another writer all the time; changes of some prefixes ten times a second, a gateway that fails,
//! a feed.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use trueup_net::{Dev, Prefix, Route};
use trueup_rtnl::DEFAULT_PROTOCOL;

use super::agent::{Agent, Update};
use super::feed::{self, Change, Feed};
use super::floor_routes::FloorRoutes;
use super::meter::Meter;
use super::table::{Fate, Form, Table, address, next};
use super::{FLOOR, TRUEUP, enter_namespace};
use crate::floor::{self, Raw};
use crate::listener::{Heard, Listener};
use crate::prefixes::Prefixes;
use crate::processor;
use crate::row::Row;
use crate::writer::{self, Verb};

/// How many prefixes change at once.
const CHANGED: [usize; 3] = [1, 10, 1_000];
/// The time between two changes.
const PERIOD: Duration = Duration::from_millis(100);
/// trueup and the floor have so many turns each.
const TURNS: u32 = 6;
/// The floor's turns are shorter than trueup's.
const FLOOR_SHARE: u32 = 4;
/// The longest wait for an event, once the kernel has the change.
const BOUND: Duration = Duration::from_millis(500);

/// A day's beginning, and what it is measured by.
struct Day<'a> {
    agent: &'a Agent,
    table: &'a mut Table,
    listener: &'a Listener,
    lasts: Duration,
}

/// Measures a day of so many routes; of each kind of change for so long.
///
/// # Errors
///
/// When the namespace cannot be made, or trueup does something else than was asked.
pub fn run(
    (v4, v6): (usize, usize),
    lasts: Duration,
    show: &mut dyn FnMut(Row) -> Result<()>,
) -> Result<()> {
    enter_namespace()?;
    let mut table = Table::of_day(&Prefixes::internet_of(v4, v6)?);
    let foreign = table.foreign();
    writer::create(&foreign)?;
    let desired = table.desired()?;
    let (start, used) = (Instant::now(), processor::of_this_process()?);
    let agent = Agent::start(desired)?;
    let (took, used) = (start.elapsed(), processor::of_this_process()? - used);
    let mut first = Row::new(TRUEUP, "daemon-day-start", "the first pass: all routes")
        .with_times(vec![took], table.len())
        .with_processor(used, 1);
    first.objects = table.len() - table.exceptions();
    show(first)?;
    let (exceptions, due) = (agent.exceptions(), table.exceptions());
    ensure!(exceptions == due, "{exceptions} routes are not in place, {due} are not to be");

    let largest = CHANGED.into_iter().max().unwrap_or(1);
    let mut floor = FloorRoutes::create(Form::Ipv4, largest)?;
    let listener = Listener::start()?;
    let mut day = Day { agent: &agent, table: &mut table, listener: &listener, lasts };
    show(day.rest()?)?;
    for count in CHANGED {
        for row in day.changes(count, &mut floor)? {
            show(row)?;
        }
    }
    for row in day.gateway_fails()? {
        show(row)?;
    }
    show(day.feed()?)?;
    let exceptions = agent.exceptions();
    if exceptions != due {
        eprintln!("{exceptions} routes are not in place at the end, {due} are not to be");
    }
    drop(listener);
    agent.end()?;
    floor.delete()?;
    writer::write(Verb::Delete, &foreign)
}

impl Day<'_> {
    /// Nothing changes.
    fn rest(&mut self) -> Result<Row> {
        let lasts = self.lasts.min(Duration::from_secs(20));
        let meter = Meter::start(self.listener)?;
        thread::sleep(lasts);
        let seconds = usize::try_from(lasts.as_secs())?.max(1);
        let mut row = Row::new(TRUEUP, "daemon-day-rest", "nothing changes: each second")
            .with_processor(meter.read()?, seconds);
        (row.size, row.times) = (self.table.len(), seconds);
        Ok(row)
    }

    /// So many prefixes get another gateway, ten times a second.
    fn changes(&mut self, count: usize, floor: &mut FloorRoutes) -> Result<[Row; 2]> {
        let mut ours = Turns::default();
        let mut theirs = Turns::default();
        for _ in 0..TURNS {
            let meter = Meter::start(self.listener)?;
            let mut calls = Duration::ZERO;
            periodically(self.lasts / TURNS, || {
                let (latency, unheard, call) = self.change(count)?;
                ours.count(latency, unheard);
                calls += call;
                Ok(())
            })?;
            ours.processor += meter.read()? + calls;
            periodically(self.lasts / TURNS / FLOOR_SHARE, || {
                let change = floor.change(count, self.listener)?;
                theirs.count(change.latency, change.unheard);
                theirs.processor += change.processor;
                Ok(())
            })?;
        }
        let (work, title) = match count {
            1 => ("daemon-day-1".to_owned(), "one prefix".to_owned()),
            count => (format!("daemon-day-{count}"), format!("{count} prefixes at once")),
        };
        let title = format!("{title}, every {} ms: another gateway", PERIOD.as_millis());
        let size = self.table.len();
        let row =
            |program, turns: Turns| turns.row(Row::new(program, &*work, &*title), size, count);
        Ok([row(FLOOR, theirs), row(TRUEUP, ours)])
    }

    /// Returns how long it was to the last event, how many were not heard, and the processor time
    /// of the calls.
    fn change(&mut self, count: usize) -> Result<(Option<Duration>, usize, Duration)> {
        let places = self.table.pick(count);
        let mut updates = Vec::with_capacity(places.len());
        for at in &places {
            let gateway = next(self.table.gateway(*at));
            updates.push(Update::Announce(self.table.lead(*at, gateway)?));
        }
        let prefixes = places.iter().map(|at| self.table.prefix(*at)).collect();
        drop(self.listener.take());
        let (start, used) = (Instant::now(), processor::of_this_thread()?);
        let revision = self.agent.change(updates)?;
        self.agent.wait_tried(revision)?;
        let used = processor::of_this_thread()?.saturating_sub(used);
        let heard = self.listener.wait_all(prefixes, BOUND)?;
        let last = heard.iter().max().filter(|_| heard.len() == places.len());
        let latency = last.map(|last| last.saturating_duration_since(start));
        Ok((latency, places.len() - heard.len(), used))
    }

    /// Three tenths of the IPv4 routes lose their gateway at once, and get it back; one more prefix
    /// changes right behind them.
    fn gateway_fails(&mut self) -> Result<Vec<Row>> {
        let led = |at: &usize| self.table.is_heavy(*at) && self.table.fate(*at) == Fate::InPlace;
        let places: Vec<usize> = (0..self.table.len()).filter(led).collect();
        let heavy = places.first().map_or(0, |at| self.table.gateway(*at));
        let size = self.table.len();
        let mut ours = Turns::default();
        let mut behind = Turns::default();
        for is_back in [false, true] {
            let mut updates = Vec::with_capacity(places.len());
            for (number, at) in places.iter().enumerate() {
                let gateway = gateway_after(number, is_back, heavy);
                updates.push(Update::Announce(self.table.lead(*at, gateway)?));
            }
            let one = self.table.pick(1);
            let mut last = Vec::with_capacity(one.len());
            for at in &one {
                let gateway = next(self.table.gateway(*at));
                last.push(Update::Announce(self.table.lead(*at, gateway)?));
            }
            drop(self.listener.take());
            let mut meter = Meter::start(self.listener)?;
            let start = Instant::now();
            let revision = meter.call(|| self.agent.change(updates))?;
            let start_of_last = Instant::now();
            let last = meter.call(|| self.agent.change(last))?;
            meter.call(|| self.agent.wait_tried(revision))?;
            meter.call(|| self.agent.wait_tried(last))?;
            thread::sleep(BOUND);
            ours.processor += meter.read()?;
            let first = first_of_each(&self.listener.take());
            ours.count_each(self.table, &places, &first, start);
            behind.count_each(self.table, &one, &first, start_of_last);
        }
        let theirs = self.gateway_fails_on_the_floor(&places, heavy)?;
        let title = "a gateway fails, and comes back: each of its prefixes";
        let row = |program, turns: Turns| {
            let changes = places.len();
            let (total, unheard) = (turns.longest, turns.unheard);
            let mut row = Row::new(program, "daemon-day-gateway", title)
                .with_times(turns.latencies, size)
                .with_processor(turns.processor, 2);
            (row.times, row.objects, row.unheard) = (2, changes, unheard);
            row.total_ns = u64::try_from(total.as_nanos()).unwrap_or(u64::MAX);
            row
        };
        let mut rows = vec![row(FLOOR, theirs), row(TRUEUP, ours)];
        let title = "one prefix, right behind a gateway that fails";
        rows.push(behind.row(Row::new(TRUEUP, "daemon-day-behind", title), size, 1));
        Ok(rows)
    }

    /// The same routes by raw requests, while the loop is paused: in the end all are as before.
    fn gateway_fails_on_the_floor(&self, places: &[usize], heavy: u8) -> Result<Turns> {
        let mut turns = Turns::default();
        let mut socket = Raw::open()?;
        self.agent.pause()?;
        for is_back in [false, true] {
            let route = |(number, at): (usize, &usize)| -> Route<Dev> {
                let gateway = gateway_after(number, is_back, heavy);
                let nexthops = self.table.form(*at).nexthops(gateway);
                let route = Route::new(self.table.prefix(*at), nexthops);
                route.with_protocol(DEFAULT_PROTOCOL).canonical()
            };
            let routes: Vec<_> = places.iter().enumerate().map(route).collect();
            let requests = floor::replacements(&routes)?;
            drop(self.listener.take());
            let (start, used) = (Instant::now(), processor::of_this_thread()?);
            socket.send(&requests)?;
            turns.processor += processor::of_this_thread()?.saturating_sub(used);
            thread::sleep(BOUND);
            let first = first_of_each(&self.listener.take());
            turns.count_each(self.table, places, &first, start);
        }
        self.agent.resume()?;
        // The full pass that follows is no part of anything that is measured.
        let nothing = self.agent.change(Vec::new())?;
        self.agent.wait_tried(nothing)?;
        Ok(turns)
    }

    /// Announcements and withdrawals, handed in as they come.
    fn feed(&mut self) -> Result<Row> {
        let mut feed = Feed::new(self.table);
        let mut sent = Vec::new();
        let mut messages = 0;
        let mut last = None;
        drop(self.listener.take());
        let mut meter = Meter::start(self.listener)?;
        let end = Instant::now() + self.lasts;
        while Instant::now() < end {
            let (burst, pause) = feed.burst(self.table);
            for message in burst {
                let mut updates = Vec::with_capacity(message.len());
                let mut about = Vec::with_capacity(message.len());
                for change in message {
                    updates.push(self.update(change)?);
                    let (at, gateway) = change;
                    let prefix = self.table.prefix(at);
                    about.push((prefix, gateway.map(|it| address(prefix.family(), it))));
                }
                let now = Instant::now();
                sent.extend(about.into_iter().map(|(prefix, via)| (now, prefix, via)));
                last = Some(meter.call(|| self.agent.change(updates))?);
                messages += 1;
            }
            thread::sleep(pause);
        }
        if let Some(last) = last {
            meter.call(|| self.agent.wait_tried(last))?;
        }
        thread::sleep(BOUND);
        let used = meter.read()?;
        let (latencies, unheard) = feed::latencies(&sent, &self.listener.take());
        let title = "a feed like the internet's: each change";
        let mut row = Row::new(TRUEUP, "daemon-day-feed", title)
            .with_times(latencies, self.table.len())
            .with_processor(used, messages);
        row.times = messages;
        row.objects = sent.len() / messages.max(1);
        row.unheard = unheard;
        Ok(row)
    }

    fn update(&mut self, (at, gateway): Change) -> Result<Update> {
        Ok(match gateway {
            Some(gateway) => Update::Announce(self.table.lead(at, gateway)?),
            None => Update::Withdraw(self.table.route(at)?.canonical_key()),
        })
    }
}

/// Where a route leads while its first gateway fails, and afterwards.
fn gateway_after(number: usize, is_back: bool, heavy: u8) -> u8 {
    match is_back {
        true => heavy,
        false => next((number % 63) as u8),
    }
}

/// When each prefix was first heard of.
fn first_of_each(heard: &[Heard]) -> HashMap<Prefix, Instant> {
    let mut first = HashMap::with_capacity(heard.len());
    for event in heard {
        first.entry(event.prefix).or_insert(event.at);
    }
    first
}

/// Calls something each [`PERIOD`], for so long, and once at least.
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

/// What the turns of a program took.
#[derive(Default)]
struct Turns {
    latencies: Vec<Duration>,
    longest: Duration,
    processor: Duration,
    changes: usize,
    unheard: usize,
}

impl Turns {
    fn count(&mut self, latency: Option<Duration>, unheard: usize) {
        self.latencies.extend(latency);
        self.changes += 1;
        self.unheard += unheard;
    }

    /// Counts one change of these places, and the time of each of them.
    fn count_each(
        &mut self,
        table: &Table,
        places: &[usize],
        first: &HashMap<Prefix, Instant>,
        start: Instant,
    ) {
        let times = places.iter().filter_map(|at| first.get(&table.prefix(*at)));
        let before = self.latencies.len();
        self.latencies.extend(times.map(|at| at.saturating_duration_since(start)));
        let new = &self.latencies[before..];
        self.longest = new.iter().copied().max().unwrap_or_default().max(self.longest);
        self.unheard += places.len() - new.len();
        self.changes += 1;
    }

    fn row(self, row: Row, size: usize, objects: usize) -> Row {
        let mut row =
            row.with_times(self.latencies, size).with_processor(self.processor, self.changes);
        (row.times, row.objects, row.unheard) = (self.changes, objects, self.unheard);
        row
    }
}

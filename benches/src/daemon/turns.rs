//! Changes by trueup and by the floor in turn: the times from the call to the kernel's event, and
//! the processor time; and single changes of each form of route, among many.

use std::collections::HashSet;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::process;
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use trueup_net::{Dev, Family, NextHop, NextHops, Nexthop, NexthopTarget, Object, Prefix, Route};
use trueup_testkit::index_of;
use trueup_works::FOREIGN;
use trueup_works::clock::{nanos, processor_of, processor_of_thread};

use super::table::{Exceptions, Form, GATEWAYS, Table, address, next};
use super::{FLOOR, TRUEUP, enter_namespace};
use crate::floor::{self, Raw};
use crate::kept::{Kept, Update};
use crate::listener::Listener;
use crate::pass::prefix;
use crate::row::Row;
use crate::writer::{Verb, write};

/// The time limit for an event, once the kernel has the change.
pub(super) const BOUND: Duration = Duration::from_millis(500);

/// The costs of a program's turns.
#[derive(Default)]
pub(super) struct Turns {
    pub(super) latencies: Vec<Duration>,
    pub(super) longest: Duration,
    pub(super) processor: Duration,
    pub(super) changes: usize,
    pub(super) unheard: usize,
}

impl Turns {
    /// Counts one change of `due` prefixes with the events heard. Its time is the last event's, if
    /// all were heard.
    fn count(&mut self, start: Instant, due: usize, heard: &[Instant]) {
        let last = heard.iter().max().filter(|_| heard.len() == due);
        self.latencies.extend(last.map(|last| last.saturating_duration_since(start)));
        self.changes += 1;
        self.unheard += due - heard.len();
    }

    /// Counts one change of several prefixes, and the time of each event heard.
    pub(super) fn count_each(
        &mut self,
        start: Instant,
        due: usize,
        heard: impl IntoIterator<Item = Instant>,
    ) {
        let before = self.latencies.len();
        let times = heard.into_iter().map(|at| at.saturating_duration_since(start));
        self.latencies.extend(times);
        let new = &self.latencies[before..];
        self.longest = new.iter().copied().max().unwrap_or_default().max(self.longest);
        self.unheard += due - new.len();
        self.changes += 1;
    }

    pub(super) fn row(
        self,
        program: &str,
        work: &str,
        title: &str,
        size: usize,
        objects: usize,
    ) -> Row {
        let mut row = Row::new(program, work, title)
            .with_times(self.latencies, size)
            .with_processor(self.processor, self.changes);
        (row.times, row.objects, row.unheard) = (self.changes, objects, self.unheard);
        row.total_ns = nanos(self.longest);
        row
    }

    /// Makes trueup change the gateways of `count` routes at once, and waits for their events.
    pub(super) fn of_trueup(
        &mut self,
        kept: &Kept,
        table: &mut Table,
        meter: &mut Meter<'_>,
        count: usize,
    ) -> Result<()> {
        let (places, updates) = led_on(table, count)?;
        let prefixes: HashSet<_> = places.iter().map(|at| table.prefix(*at)).collect();
        let due = prefixes.len();
        drop(meter.listener.take());
        let start = Instant::now();
        meter.call(|| kept.wait_tried(kept.update(updates)?))?;
        self.count(start, due, &meter.listener.wait_all(prefixes, BOUND)?);
        Ok(())
    }

    /// Does the same with the floor.
    pub(super) fn of_floor(
        &mut self,
        floor: &mut FloorRoutes,
        listener: &Listener,
        count: usize,
    ) -> Result<()> {
        let (prefixes, requests) = floor.led_on(count)?;
        let due = prefixes.len();
        drop(listener.take());
        let (start, used) = (Instant::now(), processor_of_thread()?);
        floor.socket.send(&requests)?;
        self.processor += processor_of_thread()?.saturating_sub(used);
        self.count(start, due, &listener.wait_all(prefixes, BOUND)?);
        Ok(())
    }
}

/// Changes the gateways of the next `count` routes in the table.
pub(super) fn led_on(table: &mut Table, count: usize) -> Result<(Vec<usize>, Vec<Update>)> {
    let places = table.pick(count);
    let updates = places
        .iter()
        .map(|at| {
            let gateway = next(table.gateway(*at));
            Ok(Update::Announce(table.lead(*at, gateway)?))
        })
        .collect::<Result<_>>()?;
    Ok((places, updates))
}

/// Measures the process's processor time from now on. It leaves out the listener, and the calling
/// thread outside its calls of the library.
pub(super) struct Meter<'a> {
    listener: &'a Listener,
    others: Duration,
    calls: Duration,
}

impl Meter<'_> {
    pub(super) fn start(listener: &Listener) -> Result<Meter<'_>> {
        Ok(Meter { listener, others: others(listener)?, calls: Duration::ZERO })
    }

    /// Makes a call that counts.
    pub(super) fn call<T>(&mut self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let before = processor_of_thread()?;
        let result = call();
        self.calls += processor_of_thread()?.saturating_sub(before);
        result
    }

    /// Returns the processor time so far.
    pub(super) fn read(&self) -> Result<Duration> {
        Ok(others(self.listener)?.saturating_sub(self.others) + self.calls)
    }
}

/// Returns the processor time of all threads except the listener and the calling one.
fn others(listener: &Listener) -> Result<Duration> {
    let ours = listener.processor()? + processor_of_thread()?;
    Ok(processor_of(process::id())?.saturating_sub(ours))
}

/// The floor of single changes: another writer's routes, unknown to the agent, each replaced by one
/// raw request.
pub(super) struct FloorRoutes {
    form: &'static Form,
    prefixes: Vec<Prefix>,
    gateways: Vec<u8>,
    at: usize,
    socket: Raw,
}

/// The first number of its nexthop objects, far from trueup's.
const FIRST_OBJECT: u32 = 4_000_000_000;

impl FloorRoutes {
    /// Creates `count` routes of a form.
    pub(super) fn create(form: &'static Form, count: usize) -> Result<FloorRoutes> {
        let prefixes = (0..count as u16)
            .map(|at| {
                let [high, low] = at.to_be_bytes();
                prefix(match form.family {
                    Family::Inet => (Ipv4Addr::new(10, high, low, 0).into(), 24),
                    Family::Inet6 => (Ipv6Addr::new(0xfd01, at, 0, 0, 0, 0, 0, 0).into(), 32),
                })
            })
            .collect::<Result<_>>()?;
        let (gateways, socket) = (vec![1; count], Raw::open()?);
        let floor = FloorRoutes { form, prefixes, gateways, at: 0, socket };
        write(Verb::Create, &floor.objects())?;
        write(Verb::Create, &floor.routes())?;
        Ok(floor)
    }

    /// Deletes the routes, and their objects.
    pub(super) fn delete(self) -> Result<()> {
        write(Verb::Delete, &self.routes())?;
        write(Verb::Delete, &self.objects())
    }

    /// Changes the gateways of the next `count` routes; returns their prefixes and the requests.
    fn led_on(&mut self, count: usize) -> Result<(HashSet<Prefix>, floor::Requests)> {
        let all = (self.at..self.at + count).map(|at| at % self.prefixes.len());
        let places: Vec<usize> = all.collect();
        self.at += count;
        places.iter().for_each(|at| self.gateways[*at] = next(self.gateways[*at]));
        let routes: Vec<Route> = places.iter().map(|at| self.route(*at)).collect();
        let prefixes = places.iter().map(|at| self.prefixes[*at]).collect();
        Ok((prefixes, floor::replacements(&routes)?))
    }

    fn route(&self, at: usize) -> Route {
        let gateway = self.gateways[at];
        let nexthops = if self.form.by_objects {
            NextHops::Object(FIRST_OBJECT + u32::from(gateway), Vec::new())
        } else {
            self.form.nexthops(gateway)
        };
        Route::new(self.prefixes[at], nexthops).with_protocol(FOREIGN).canonical()
    }

    fn routes(&self) -> Vec<Object> {
        (0..self.prefixes.len()).map(|at| Object::Route(self.route(at))).collect()
    }

    /// Returns the nexthop objects that routes of this form use.
    fn objects(&self) -> Vec<Object> {
        let (family, dev) = (self.form.family, Dev::index(index_of("up0")));
        (0..if self.form.by_objects { GATEWAYS } else { 0 })
            .map(|gateway| {
                let hop = NextHop::via(address(family, gateway)).with_dev(dev);
                let target = NexthopTarget::One(family, hop);
                let object = Nexthop::new(FIRST_OBJECT + u32::from(gateway), target);
                Object::Nexthop(object.with_protocol(FOREIGN).canonical())
            })
            .collect()
    }
}

/// The number of changes in one turn, and in the first turn, which does not count.
const TURN: usize = 10;
/// The number of routes that the floor changes, one after the other.
const FLOOR_ROUTES: usize = 64;
/// No turn begins after this time: a row has the actual number of changes.
const LONGEST: Duration = Duration::from_secs(20);
/// The pause between two turns.
const REST: Duration = Duration::from_millis(20);

/// Measures single changes of a form among many routes, of which some may not be in place. Returns
/// the floor's row, and trueup's.
pub(super) fn forms(
    form: &'static Form,
    size: usize,
    exceptions: &'static Exceptions,
    changes: usize,
) -> Result<[Row; 2]> {
    enter_namespace(true)?;
    let mut table = Table::of_form(form, size, exceptions)?;
    write(Verb::Create, &table.foreign())?;
    let kept = Kept::start(table.desired()?)?;
    let (count, due) = (kept.exceptions(), table.exceptions());
    ensure!(count == due, "{count} of {size} routes are not in place, {due} are not to be");
    let mut floor = FloorRoutes::create(form, FLOOR_ROUTES)?;
    let listener = Listener::start()?;
    let (mut ours, mut theirs) = (Turns::default(), Turns::default());
    let begun = Instant::now();
    // The first turns do not count.
    for turn in 0..=changes.div_ceil(TURN) {
        if turn == 1 {
            (ours, theirs) = Default::default();
        }
        if begun.elapsed() > LONGEST {
            break;
        }
        let mut meter = Meter::start(&listener)?;
        (0..TURN).try_for_each(|_| ours.of_trueup(&kept, &mut table, &mut meter, 1))?;
        // The work of the loop's thread after the last change counts as well.
        thread::sleep(Duration::from_millis(1));
        ours.processor += meter.read()?;
        thread::sleep(REST);
        (0..TURN).try_for_each(|_| theirs.of_floor(&mut floor, &listener, 1))?;
        thread::sleep(REST);
    }
    drop(listener);
    kept.end()?;
    floor.delete()?;
    write(Verb::Delete, &table.foreign())?;

    let work = format!("daemon-form-{}-{}", form.name, exceptions.name);
    let title = format!("{}{}: one route, another gateway", form.title, exceptions.title);
    Ok([theirs.row(FLOOR, &work, &title, size, 1), ours.row(TRUEUP, &work, &title, size, 1)])
}

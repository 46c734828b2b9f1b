//! One change at a time, of each form of route, among many: from the call to the kernel's event.
//! trueup and the floor take turns.

use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::agent::{Agent, Update};
use super::floor_routes::FloorRoutes;
use super::meter::Meter;
use super::table::{Exceptions, Form, Table, next};
use super::{FLOOR, TRUEUP, enter_namespace};
use crate::listener::Listener;
use crate::row::Row;
use crate::writer::{self, Verb};

/// How many changes come in one turn.
const TURN: usize = 10;
/// How many come before those that count.
const BEFORE: usize = 10;
/// How many routes the floor changes, one after the other.
const FLOOR_ROUTES: usize = 64;
/// No further turn begins after so long: a row says how many changes there were.
const LONGEST: Duration = Duration::from_secs(20);
/// Nothing happens for so long between two turns.
const REST: Duration = Duration::from_millis(20);
/// The longest wait for an event, once the kernel has the change.
const BOUND: Duration = Duration::from_millis(500);

/// Measures a form among so many routes, of which some may not be in place: the floor's row, and
/// trueup's.
///
/// # Errors
///
/// When the namespace cannot be made, or trueup does something else than was asked.
pub fn run(form: Form, size: usize, exceptions: Exceptions, changes: usize) -> Result<[Row; 2]> {
    enter_namespace()?;
    let mut table = Table::of_form(form, size, exceptions)?;
    writer::create(&table.foreign())?;
    let agent = Agent::start(table.desired()?)?;
    let (count, due) = (agent.exceptions(), table.exceptions());
    ensure!(count == due, "{count} of {size} routes are not in place, {due} are not to be");
    let mut floor = FloorRoutes::create(form, FLOOR_ROUTES)?;
    let listener = Listener::start()?;
    let mut ours = Turns::default();
    let mut theirs = Turns::default();
    ours.of_trueup(&agent, &mut table, &listener, BEFORE)?;
    theirs.of_floor(&mut floor, &listener, BEFORE)?;
    (ours, theirs) = Default::default();
    let begun = Instant::now();
    for _ in 0..changes.div_ceil(TURN) {
        if begun.elapsed() > LONGEST {
            break;
        }
        ours.of_trueup(&agent, &mut table, &listener, TURN)?;
        thread::sleep(REST);
        theirs.of_floor(&mut floor, &listener, TURN)?;
        thread::sleep(REST);
    }
    drop(listener);
    agent.end()?;
    floor.delete()?;
    writer::write(Verb::Delete, &table.foreign())?;

    let work = format!("daemon-form-{}-{}", form.name(), exceptions.name());
    let with = match exceptions {
        Exceptions::None => "",
        Exceptions::Unreachable => ", 1 % unreachable",
        Exceptions::Conflict => ", 0.1 % in conflict",
        Exceptions::Both => ", 1 % unreachable, 0.1 % in conflict",
    };
    let title = format!("{}{with}: one route, another gateway", form.title());
    let row = |program, turns: Turns| turns.row(Row::new(program, &*work, &*title), size);
    Ok([row(FLOOR, theirs), row(TRUEUP, ours)])
}

/// What the turns of a program took.
#[derive(Default)]
struct Turns {
    latencies: Vec<Duration>,
    processor: Duration,
    changes: usize,
}

impl Turns {
    fn of_trueup(
        &mut self,
        agent: &Agent,
        table: &mut Table,
        listener: &Listener,
        changes: usize,
    ) -> Result<()> {
        let mut meter = Meter::start(listener)?;
        for _ in 0..changes {
            for at in table.pick(1) {
                let route = table.lead(at, next(table.gateway(at)))?;
                drop(listener.take());
                let start = Instant::now();
                meter.call(|| {
                    let revision = agent.change(vec![Update::Announce(route)])?;
                    agent.wait_tried(revision)
                })?;
                let heard = listener.wait(table.prefix(at), BOUND)?;
                self.latencies.extend(heard.map(|heard| heard.saturating_duration_since(start)));
                self.changes += 1;
            }
        }
        // What the loop's thread does after the last of them is its own as well.
        thread::sleep(Duration::from_millis(1));
        self.processor += meter.read()?;
        Ok(())
    }

    fn of_floor(
        &mut self,
        floor: &mut FloorRoutes,
        listener: &Listener,
        changes: usize,
    ) -> Result<()> {
        for _ in 0..changes {
            let change = floor.change(1, listener)?;
            self.latencies.extend(change.latency);
            self.processor += change.processor;
            self.changes += 1;
        }
        Ok(())
    }

    fn row(self, row: Row, size: usize) -> Row {
        let heard = self.latencies.len();
        let mut row =
            row.with_times(self.latencies, size).with_processor(self.processor, self.changes);
        (row.times, row.objects) = (self.changes, 1);
        row.unheard = self.changes - heard;
        row
    }
}

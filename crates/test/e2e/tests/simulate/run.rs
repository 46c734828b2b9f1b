//! Runs a script: its turns, then a quiet time. In it the agent must come to rest, converge once
//! the other writers' objects are gone, and leave nothing if nothing is desired.

use std::any::Any;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use trueup_e2e::desired::nothing;
use trueup_net::{Desired, NexthopMode};
use trueup_testkit::faults::{Fault, Faults, died};
use trueup_testkit::{Kind, RawMessage};

use crate::agent::{Agent, Stepped};
use crate::judge::Violation;
use crate::script::{Act, Event, Injection, Script, Turn};
use crate::wire::Request;
use crate::world::{Counts, World};
use crate::writers;
use trueup_e2e::world::derived;

/// The result of a run.
pub(crate) struct Done {
    pub(crate) violation: Option<Violation>,
    pub(crate) counts: Counts,
    pub(crate) trace: u64,
    pub(crate) log: Vec<String>,
    /// The results of the drawn acts, by turn and slot.
    pub(crate) drawn: BTreeMap<(usize, usize), Act>,
}

/// The time that suffices once faults have ended: the longest backoff twice, and some passes.
const PATIENCE: Duration = Duration::from_secs(240);
/// The limit of the loop's steps in a turn.
const MOST_STEPS: usize = 200;

struct Run<'a> {
    script: &'a Script,
    world: World,
    faults: Faults,
    desired: Desired,
    agent: Option<Agent>,
    rng: Rng,
}

pub(crate) fn run(script: &Script) -> Done {
    trueup_apply::seed_random(script.seed);
    let world = World::new(&script.setup);
    let faults = Faults::over(world.namespace());
    {
        let world = world.clone();
        faults.watch(move |fault, request| note(&world, fault, request));
    }
    let mut run = Run {
        script,
        world: world.clone(),
        faults,
        desired: Desired::default(),
        agent: None,
        rng: Rng::with_seed(script.seed ^ 1),
    };
    if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run.whole())) {
        let what = panic_text(&*panic);
        world.lock().judge.fail(9, what);
    }
    run.agent = None;
    let mut inner = world.lock();
    inner.counts.runs = 1;
    Done {
        violation: inner.judge.violation.clone(),
        counts: std::mem::take(&mut inner.counts),
        trace: inner.trace(),
        log: std::mem::take(&mut inner.log),
        drawn: std::mem::take(&mut inner.drawn),
    }
}

thread_local! {
    /// The place of the last panic.
    pub(crate) static PANICKED_AT: RefCell<String> = const { RefCell::new(String::new()) };
}

fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let at = PANICKED_AT.with_borrow(String::clone);
    format!("{} at {at}", text.unwrap_or("a panic"))
}

/// Records a fault; returns false for one that no kernel makes.
fn note(world: &World, fault: &Fault, request: &[u8]) -> bool {
    let mut world = world.lock();
    let word = match fault {
        Fault::Writer(_) => return true,
        Fault::Refuse(_) => "refused request",
        Fault::LoseAnswer => "lost answer",
        Fault::DieBefore | Fault::DieAfter => "kill at a message",
        Fault::Interrupt => "interrupted dump",
        Fault::LoseRow(_) => "lossy dump",
        Fault::RepeatRow(_) => "repeated row",
        Fault::SpoilRow(_) => "unreadable row",
        Fault::UnknownAttribute => "unknown attribute",
        Fault::Overrun if request.is_empty() => "overrun of the monitor",
        Fault::Overrun => "overrun of a dump",
        Fault::BreakOff(_) => "dump broken off",
        _ => "other",
    };
    if request.is_empty() {
        world.note_fault(word);
        return true;
    }
    let request = Request::of(request);
    if !request.is_dump {
        world.note_fault(word);
        return true;
    }
    // The kernel refuses this dump anyway: the agent asks for features in this way.
    let Some(rows) = world.wire.rows(request.bytes) else {
        return false;
    };
    let row = |n: usize| rows.get(n - 1);
    let has_key = |row: &&RawMessage| {
        let is_first = row.attrs.keys().next() == Some(&1);
        is_first
            && matches!(row.kind, Kind::Address | Kind::Neighbour | Kind::Nexthop | Kind::Route)
    };
    let step = world.counts.steps;
    let is_lossy = match fault {
        Fault::Interrupt | Fault::Overrun | Fault::BreakOff(_) | Fault::Refuse(_) => true,
        // The agent ignores the kernel's own rows.
        Fault::SpoilRow(n) => row(*n).filter(has_key).is_some_and(|row| !derived(row)),
        // The agent keeps no routes of other writers, so it cannot notice.
        Fault::RepeatRow(n) => match row(*n) {
            Some(row) => row.kind != Kind::Route || world.judge.has_moved(row, step),
            None => return false,
        },
        Fault::LoseRow(n) => {
            // The position moves between two parts of a dump; here each row is a part.
            let is_between = *n > 1 && rows.len() > 2;
            let is_moved = |row: &RawMessage| world.judge.has_moved(row, step);
            // A write moves the position by one row.
            let is_first = !world.judge.is_next_dump_incomplete();
            if !is_first || !is_between || !row(*n).is_some_and(is_moved) {
                return false;
            }
            true
        }
        _ => false,
    };
    world.note_fault(word);
    if is_lossy {
        let is_sent = !matches!(fault, Fault::Refuse(_));
        world.judge.dump_fails(&request, is_sent);
    }
    true
}

impl Run<'_> {
    fn whole(&mut self) {
        writers::make_base(&self.world);
        for (at, turn) in self.script.turns.iter().enumerate() {
            self.world.lock().turn = at;
            self.turn(at, turn);
            if self.is_over() {
                return;
            }
        }
        self.end();
    }

    fn is_over(&self) -> bool {
        self.world.violation().is_some()
    }

    /// Makes the events before a pass, and the pass.
    fn turn(&mut self, at: usize, turn: &Turn) {
        self.world.lock().say(|| format!("turn {at}"));
        self.faults.clear();
        {
            let mut world = self.world.lock();
            world.disk.ops = 0;
            world.disk.mend();
            world.disk.faults.extend(turn.disk.iter().copied());
            world.clock_stands = turn.event == Some(Event::ClockStands);
        }
        match turn.event {
            Some(Event::Restart) => self.agent = None,
            Some(Event::Recreate { is_noticed }) => {
                self.world.lock().recreate();
                self.note("the namespace is recreated");
                writers::make_base(&self.world);
                if is_noticed {
                    self.agent = None;
                }
            }
            Some(Event::Later(time)) => self.world.lock().pass_time(time),
            Some(Event::ClockStands) => self.world.lock().note_fault("clock stands"),
            None => {}
        }
        if let Some(desired) = &turn.desired {
            self.set_desired(desired, turn.is_change);
        }
        for (slot, act) in turn.acts.iter().enumerate() {
            writers::act(&self.world, &self.script.setup, act, (at, slot));
        }
        for (slot, (when, injection)) in turn.faults.iter().enumerate() {
            let fault = match injection {
                Injection::Fault(fault) => fault.clone(),
                Injection::Act(act) => {
                    let (world, setup, act) = (self.world.clone(), self.script.setup, act.clone());
                    let slot = (at, turn.acts.len() + slot);
                    Fault::Writer(Arc::new(move || writers::act(&world, &setup, &act, slot)))
                }
            };
            self.faults.add(*when, fault);
        }
        for _ in 0..MOST_STEPS {
            let stepped = self.step();
            // If the clock stands still, no pass becomes due.
            let is_stuck = self.world.lock().clock_stands && stepped == Some(Stepped::On);
            if self.is_over() || matches!(stepped, None | Some(Stepped::Pass { .. })) || is_stuck {
                break;
            }
        }
        self.faults.clear();
        self.world.lock().clock_stands = false;
    }

    fn note(&mut self, what: &'static str) {
        self.world.lock().note_fault(what);
    }

    fn set_desired(&mut self, desired: &Desired, is_change: bool) {
        self.desired = desired.clone();
        if let Some(agent) = &mut self.agent {
            agent.set_desired(desired, is_change);
        }
    }

    /// Makes one step of the agent, and starts it if it does not run; `None` if it was killed.
    fn step(&mut self) -> Option<Stepped> {
        let (world, script, faults) = (&self.world, self.script, &self.faults);
        let (agent, desired) = (&mut self.agent, &self.desired);
        let stepped = died(|| {
            let agent = agent.get_or_insert_with(|| {
                Agent::start(world, &script.setup, faults, desired, script.seed)
            });
            agent.step()
        });
        let is_killed = self.world.lock().disk.is_killed;
        match stepped {
            Some(stepped) if !is_killed => {
                if stepped == Stepped::Ended {
                    self.agent = None;
                }
                Some(stepped)
            }
            _ => {
                let mut world = self.world.lock();
                world.disk.is_killed = true;
                world.judge.pass_ended();
                world.say(|| "  killed".to_owned());
                drop(world);
                self.agent = None;
                self.world.lock().disk.crash(&mut self.rng);
                self.faults.clear();
                None
            }
        }
    }

    fn end(&mut self) {
        let mut world = self.world.lock();
        world.disk.mend();
        world.say(|| "the faults have ended".to_owned());
        drop(world);
        if self.agent.as_ref().is_some_and(Agent::journal_failed) {
            self.agent = None;
        }
        self.comes_to_rest(false, "the other writers are quiet");
        self.withdraw();
        // In an unmanaged section, our objects may block others; and no nexthop object is made on a
        // link without a carrier.
        let is_whole = self.desired.managed() == nothing().managed()
            && self.desired.nexthops == NexthopMode::Inline;
        self.comes_to_rest(is_whole, "the other writers' objects are gone");
        self.set_desired(&nothing(), false);
        self.comes_to_rest(true, "nothing is desired");
        let mut world = self.world.lock();
        let inner = &mut *world;
        if inner.judge.violation.is_none() {
            inner.judge.all_is_gone(&inner.rows);
        }
    }

    /// Checks that in limited time a pass over everything does nothing and, if it must, converges.
    fn comes_to_rest(&mut self, must_converge: bool, when: &str) {
        let end = self.world.lock().time + PATIENCE;
        while !self.is_over() {
            match self.step() {
                Some(Stepped::Pass {
                    converged,
                    applied: 0,
                    is_full: true,
                    is_error: false,
                    ..
                }) if converged || !must_converge => return,
                Some(Stepped::Pass { is_refused: true, .. }) => return,
                _ => {}
            }
            if self.world.lock().time > end {
                let ours = {
                    let world = self.world.lock();
                    world.judge.ours(&world.rows)
                };
                let invariant = if must_converge && self.desired == nothing() { 5 } else { 8 };
                let wrong = format!("{when}, and the agent does not come to rest; ours is\n{ours}");
                self.world.lock().judge.fail(invariant, wrong);
            }
        }
    }

    /// Deletes the other writers' objects.
    fn withdraw(&mut self) {
        let mut world = self.world.lock();
        let inner = &mut *world;
        for _ in 0..2 {
            for kind in Kind::ALL.into_iter().rev() {
                let rows = inner.rows.clone();
                for (id, row) in rows.of(kind) {
                    let is_kept = derived(row) || inner.judge.is_base(id);
                    if !is_kept && inner.judge.is_foreign(id) {
                        inner.wire.delete(row);
                        inner.writer_acted();
                    }
                }
            }
        }
        inner.say(|| "the other writers' objects are gone".to_owned());
    }
}

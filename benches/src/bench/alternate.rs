//! Has programs do the works in turn: floor, trueup and the others, again and again, so that
//! whatever else the machine does meets all alike. A namespace is shared by the turns of a size,
//! and each turn leaves it as it found it.

use std::fs;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::profile::Profile;
use super::program::Program;
use super::record::{Entry, Record};
use super::series::{Held, Series, Step};
use crate::floor::{self, Asking};
use crate::state;
use crate::works::{FEW, Work};

/// How often those beside floor and trueup take part, at most, up to 100,000 objects and above.
const TURNS_OF_OTHERS: (usize, usize) = (3, 1);

/// What is run.
#[derive(Clone, Debug)]
pub struct Choice {
    /// These works alone, or all.
    pub works: Vec<Work>,
    /// These sizes alone, or those of each series.
    pub sizes: Vec<usize>,
    /// No sizes above, of routes: of heavier objects fewer.
    pub largest: usize,
    /// So many turns, or as many as the size allows.
    pub runs: Option<usize>,
    /// From then on there is but one turn more of each size.
    pub until: Instant,
}

impl Choice {
    fn sizes(&self, series: &Series) -> Vec<usize> {
        let largest = series.sizes.iter().copied().max().unwrap_or(0);
        let sizes = match &self.sizes[..] {
            [] => series.sizes,
            sizes => sizes,
        };
        let bound = largest.min(self.largest / series.weight);
        sizes.iter().copied().filter(|size| *size <= bound).collect()
    }

    fn runs(&self, series: &Series, size: usize) -> usize {
        self.runs.unwrap_or(match size * series.weight {
            0..=1_000 => 11,
            1_001..=10_000 => 7,
            10_001..=100_000 => 5,
            _ => 3,
        })
    }

    fn measures(&self, step: &Step) -> bool {
        self.works.is_empty() || self.works.contains(&step.work)
    }
}

/// Runs a series, and puts what it took into the record: what an earlier run left there of the same
/// works is replaced.
///
/// # Errors
///
/// When the namespace cannot be made as a work needs it. A program that fails is reported and left
/// out.
pub fn series(
    series: &Series,
    programs: &[Program],
    choice: &Choice,
    record: &mut Record,
) -> Result<()> {
    if !series.steps.iter().any(|step| choice.measures(step)) {
        return Ok(());
    }
    for size in choice.sizes(series) {
        let mut turns = Turns::new(series, choice, size);
        turns.begin()?;
        let runs = choice.runs(series, size);
        for run in 0..runs {
            if run > 0 && Instant::now() > choice.until {
                eprintln!("time is up: {run} of {runs} turns");
                break;
            }
            for at in 0..programs.len() {
                // No program is always the first.
                turns.turn(&programs[(run + at) % programs.len()], run)?;
            }
        }
        turns.end()?;
        for entry in turns.entries {
            entry.tell();
            record.put(entry);
        }
    }
    Ok(())
}

/// Has a program do each work of a series once, at the largest size, and notes where its time went.
///
/// # Errors
///
/// As [`series`]. A work that cannot be looked into is reported, and with it the rest of the series
/// left out.
pub fn profiled(
    series: &Series,
    program: &Program,
    choice: &Choice,
    record: &mut Record,
) -> Result<()> {
    let size = choice.sizes(series).into_iter().max();
    let Some(size) = size.filter(|_| series.steps.iter().any(|step| choice.measures(step))) else {
        return Ok(());
    };
    let mut turns = Turns::new(series, choice, size);
    turns.begin()?;
    for step in series.steps {
        if choice.measures(step) {
            match Profile::take(program, step.work, size) {
                Ok(profile) => record.put_profile(profile),
                Err(error) => {
                    eprintln!("{} {} {size}: {error:#}", program.name, step.work);
                    return Ok(());
                }
            }
        } else {
            turns.stand_in(step.work)?;
        }
        settle(size);
    }
    turns.end()
}

/// The turns of a series at a size.
struct Turns<'a> {
    series: &'a Series,
    choice: &'a Choice,
    size: usize,
    entries: Vec<Entry>,
    /// The kernel's own.
    rules: usize,
    /// What bears the marker, and all rules, between turns.
    marked: usize,
}

impl<'a> Turns<'a> {
    fn new(series: &'a Series, choice: &'a Choice, size: usize) -> Turns<'a> {
        Turns { series, choice, size, entries: Vec::new(), rules: 0, marked: 0 }
    }

    /// Makes the namespace.
    fn begin(&mut self) -> Result<()> {
        trueup_testkit::quiet_netns();
        state::make_uplink();
        floor::wait_until_up("up0");
        let of = |work| self.series.steps.iter().any(|step| step.work == work);
        if of(Work::GatewayObject) {
            // While it is 1, as by default, the kernel walks all routes for an object that changes,
            // to tell of each.
            fs::write("/proc/sys/net/ipv4/nexthop_compat_mode", "0")?;
        }
        self.rules = floor::count()?.1;
        match self.series.held {
            Held::Nothing => {}
            Held::Made(create, _) => self.stand_in(create)?,
            Held::Crowd => floor::crowd(self.size, true)?,
        }
        self.marked = floor::read()?;
        settle(self.size);
        Ok(())
    }

    /// Empties it: a namespace that is dropped with all that is in it takes its time beside what
    /// comes next.
    fn end(&self) -> Result<()> {
        match self.series.held {
            Held::Nothing => Ok(()),
            Held::Made(_, delete) => self.stand_in(delete),
            Held::Crowd => floor::crowd(self.size, false),
        }
    }

    /// One program does all works of the series that it can.
    fn turn(&mut self, program: &Program, run: usize) -> Result<()> {
        let (small, large) = TURNS_OF_OTHERS;
        let most = if self.size > 100_000 { large } else { small };
        if !program.is_of_ours() && run >= most {
            return Ok(());
        }
        let steps = self.series.steps.iter();
        let can: Vec<&Step> = steps
            .filter(|step| self.choice.measures(step) && program.can(step.work, self.size))
            .filter(|step| !self.has_failed(program, step.work))
            .collect();
        if can.is_empty() {
            return Ok(());
        }
        for step in self.series.steps {
            let measured = can.iter().any(|able| able.work == step.work);
            let done = if measured {
                self.measure(program, step.work, run)
            } else {
                self.stand_in(step.work)
            };
            if let Err(error) = done {
                eprintln!("{} {} {}: {error:#}", program.name, step.work, self.size);
                // Where what stands in fails, anything that the program did before may be why.
                let failed = if measured { vec![step] } else { can };
                for step in failed {
                    let entry = self.entry(step.work);
                    entry.fail(&program.name, &format!("{error:#}"));
                }
                self.begin()?;
                // The namespace that was left is emptied meanwhile.
                settle(self.size.saturating_mul(10));
                return Ok(());
            }
            settle(self.size);
        }
        if !program.is_of_ours() && floor::read()? != self.marked {
            // There is as much as before, but it has become the program's own.
            self.end()?;
            self.begin()?;
        }
        Ok(())
    }

    fn measure(&mut self, program: &Program, work: Work, run: usize) -> Result<()> {
        let took = program.perform(work, self.size)?;
        let (routes, all_rules) = floor::count()?;
        let rules = all_rules.saturating_sub(self.rules);
        ensure!(
            (routes, rules) == leaves(work, self.size),
            "it left {routes} routes and {rules} rules"
        );
        self.entry(work).add(&program.name, run, took);
        Ok(())
    }

    fn entry(&mut self, work: Work) -> &mut Entry {
        let name = work.to_string();
        let found = self.entries.iter().position(|entry| entry.work == name);
        let at = found.unwrap_or_else(|| {
            self.entries.push(Entry::new(name, self.size));
            self.entries.len() - 1
        });
        &mut self.entries[at]
    }

    fn has_failed(&self, program: &Program, work: Work) -> bool {
        let name = work.to_string();
        let entry = self.entries.iter().find(|entry| entry.work == name);
        entry.is_some_and(|entry| entry.has_failed(&program.name))
    }

    /// Does a work that is not measured.
    fn stand_in(&self, work: Work) -> Result<()> {
        floor::perform(work, self.size, Asking::Narrowly)?;
        Ok(())
    }
}

/// How many routes and rules there are afterwards, beside the kernel's own.
fn leaves(work: Work, size: usize) -> (usize, usize) {
    match work {
        Work::RouteCreate(_)
        | Work::RouteNoop(_)
        | Work::RouteGateway
        | Work::RouteChange
        | Work::RouteTurn
        | Work::InternetCreate
        | Work::InternetNoop => (size, 0),
        Work::FewNoop => (size + FEW, 0),
        Work::RuleCreate(_) => (0, size),
        Work::RouteDelete(_)
        | Work::RuleDelete(_)
        | Work::InternetDelete
        | Work::GatewayObject
        | Work::AddressCreate
        | Work::LinkDelete => (0, 0),
    }
}

/// Lets the kernel free what was deleted: it puts that off.
fn settle(size: usize) {
    sleep(Duration::from_micros(size as u64));
}

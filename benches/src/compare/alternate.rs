//! Makes programs do the works in turn, floor, trueup and the others, again and again: any other
//! load of the machine affects all alike. The turns of a size share a namespace, and each turn
//! leaves it as it was.

use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

use super::Options;
use super::profile::Profile;
use super::program::Program;
use super::record::{Entry, Record, rank};
use super::series::{Held, Series, Step};
use crate::floor;
use trueup_works::Work;

/// The maximum number of turns of the other programs, up to 100,000 objects and above.
const TURNS_OF_OTHERS: (usize, usize) = (3, 1);

impl Options {
    /// Returns the sizes to measure; none if no work of the series is selected.
    fn sizes(&self, series: &Series) -> Vec<usize> {
        if !series.steps.iter().any(|step| self.measures(series, step)) {
            return Vec::new();
        }
        let largest = series.sizes.iter().copied().max().unwrap_or(0);
        let sizes = if self.sizes.is_empty() { series.sizes } else { &self.sizes };
        let most = self.largest.unwrap_or(if self.quick { 20_000 } else { usize::MAX });
        let bound = largest.min(most / series.weight);
        sizes.iter().copied().filter(|size| *size <= bound).collect()
    }

    fn runs(&self, series: &Series, size: usize) -> usize {
        self.runs.unwrap_or(match size * series.weight {
            _ if self.quick => 3,
            0..=1_000 => 11,
            1_001..=10_000 => 7,
            10_001..=100_000 => 5,
            _ => 3,
        })
    }

    fn measures(&self, series: &Series, step: &Step) -> bool {
        self.work.is_empty() && !series.if_named || self.work.contains(&step.work)
    }
}

/// Runs a series, and puts its figures into the record, where they replace an earlier run's of the
/// same works. After `until` each size gets only one turn.
pub(super) fn series(
    series: &Series,
    programs: &[Program],
    options: &Options,
    until: Instant,
    record: &mut Record,
) -> Result<()> {
    for size in options.sizes(series) {
        let mut turns = Turns::new(series, options, size);
        turns.begin()?;
        let runs = options.runs(series, size);
        for run in 0..runs {
            if run > 0 && Instant::now() > until {
                eprintln!("time is up: {run} of {runs} turns");
                break;
            }
            for at in 0..programs.len() {
                // Rotate, so that no program is always the first.
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

/// Makes a program do each work of a series once, at the largest size, and records where its time
/// went.
pub(super) fn profiled(
    series: &Series,
    program: &Program,
    options: &Options,
    record: &mut Record,
) -> Result<()> {
    let Some(size) = options.sizes(series).into_iter().max() else {
        return Ok(());
    };
    let mut turns = Turns::new(series, options, size);
    turns.begin()?;
    for step in series.steps {
        if options.measures(series, step) {
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

/// The turns of a series at one size.
struct Turns<'a> {
    series: &'a Series,
    options: &'a Options,
    size: usize,
    entries: Vec<Entry>,
    /// The number of the kernel's own rules.
    rules: usize,
    /// The number of routes with the marker and of all rules, between turns.
    marked: usize,
}

impl<'a> Turns<'a> {
    fn new(series: &'a Series, options: &'a Options, size: usize) -> Turns<'a> {
        Turns { series, options, size, entries: Vec::new(), rules: 0, marked: 0 }
    }

    /// Makes the namespace with everything held during the series.
    fn begin(&mut self) -> Result<()> {
        crate::daemon::enter_namespace(
            self.series.steps.iter().any(|step| step.work == Work::GatewayObject),
        )?;
        self.rules = floor::count()?.1;
        match self.series.held {
            Held::Nothing => {}
            Held::Made(create, _) => self.stand_in(create)?,
            Held::Crowd => floor::crowd(self.size, true)?,
        }
        self.marked = floor::marked()?;
        settle(self.size);
        Ok(())
    }

    /// Empties the namespace: if dropped with its objects, its deletion would run beside the next
    /// measurement.
    fn end(&self) -> Result<()> {
        match self.series.held {
            Held::Nothing => Ok(()),
            Held::Made(_, delete) => self.stand_in(delete),
            Held::Crowd => floor::crowd(self.size, false),
        }
    }

    /// Makes one program do all works of the series that it can.
    fn turn(&mut self, program: &Program, run: usize) -> Result<()> {
        let (small, large) = TURNS_OF_OTHERS;
        let most = if self.size > 100_000 { large } else { small };
        if rank(&program.name) == 2 && run >= most {
            return Ok(());
        }
        let steps = self.series.steps.iter();
        let can: Vec<&Step> = steps
            .filter(|step| {
                self.options.measures(self.series, step) && program.can(step.work, self.size)
            })
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
                // If a substitute fails, any earlier work of the program may be the cause.
                let failed = if measured { vec![step] } else { can };
                for step in failed {
                    let failed = &mut self.entry(step.work).failed;
                    failed.insert(program.name.clone(), format!("{error:#}"));
                }
                self.begin()?;
                // The previous namespace is being emptied meanwhile.
                settle(self.size.saturating_mul(10));
                return Ok(());
            }
            settle(self.size);
        }
        if rank(&program.name) == 2 && floor::marked()? != self.marked {
            // The number of objects is the same, but they are now the program's own.
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
            (routes, rules) == work.leaves(self.size),
            "it left {routes} routes and {rules} rules"
        );
        self.entry(work).add(&program.name, run, took);
        Ok(())
    }

    fn entry(&mut self, work: Work) -> &mut Entry {
        let name = work.to_string();
        let found = self.entries.iter().position(|entry| entry.work == name);
        let at = found.unwrap_or_else(|| {
            self.entries.push(Entry { work: name, size: self.size, ..Entry::default() });
            self.entries.len() - 1
        });
        &mut self.entries[at]
    }

    fn has_failed(&self, program: &Program, work: Work) -> bool {
        let name = work.to_string();
        let entry = self.entries.iter().find(|entry| entry.work == name);
        entry.is_some_and(|entry| entry.failed.contains_key(&program.name))
    }

    /// Does a work without measuring it, for a program that cannot.
    fn stand_in(&self, work: Work) -> Result<()> {
        floor::perform(work, self.size)?;
        Ok(())
    }
}

/// Waits while the kernel frees deleted objects, which it defers.
fn settle(size: usize) {
    sleep(Duration::from_micros(size as u64));
}

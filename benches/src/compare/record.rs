//! The measured costs, kept from one run of the benchmark to the next, so that one row can be
//! measured again alone; and the figures derived from them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Context as _, Result};
use serde::{Deserialize, Serialize};

use super::profile::Profile;
use crate::text::seconds;
use trueup_works::Work;
use trueup_works::clock::Took;

/// All works and sizes measured so far, on one machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The machine and its kernel, in words.
    pub(super) machine: String,
    /// The measurements, one for each work and size.
    pub(super) entries: Vec<Entry>,
    /// Where trueup's time went, one profile for each work.
    #[serde(default)]
    pub(super) profiles: Vec<Profile>,
}

/// One work at one size: the turns of one alternating run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The work's name.
    pub(super) work: String,
    /// The number of objects.
    pub(super) size: usize,
    /// The costs by program and number of the turn.
    pub(super) took: BTreeMap<String, BTreeMap<usize, Took>>,
    /// The reasons why programs are left out, by program.
    pub(super) failed: BTreeMap<String, String>,
}

/// A program's cost of a work, compared with another program that took turns with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Figures {
    /// The median turn; each field has its own median.
    pub(super) median: Took,
    /// The number of turns.
    pub(super) turns: usize,
    /// The median wall time, divided by the other program's.
    pub(super) ratio: f64,
    /// The least and the greatest ratio of single turns.
    pub(super) spread: (f64, f64),
}

impl Record {
    /// Reads the record in a file; empty if there is no file, or it is from another machine.
    pub(super) fn read(path: &Path, machine: &str) -> Result<Record> {
        let text = fs::read_to_string(path).unwrap_or_default();
        let record: Record = match &*text {
            "" => Record::default(),
            text => serde_json::from_str(text).with_context(|| path.display().to_string())?,
        };
        if record.machine == machine {
            return Ok(record);
        }
        Ok(Record { machine: machine.to_owned(), ..Record::default() })
    }

    /// Writes the record to a file.
    pub(super) fn write(&self, path: &Path) -> Result<()> {
        fs::write(path, serde_json::to_string(self)?).with_context(|| path.display().to_string())
    }

    /// Adds an entry, which replaces one with the same work and size.
    pub(super) fn put(&mut self, entry: Entry) {
        self.entries.retain(|old| (&old.work, old.size) != (&entry.work, entry.size));
        self.entries.push(entry);
    }

    /// Adds a profile, which replaces one with the same work.
    pub(super) fn put_profile(&mut self, profile: Profile) {
        self.profiles.retain(|old| old.work != profile.work);
        self.profiles.push(profile);
    }

    /// Returns a work's entries by ascending size.
    pub(super) fn of(&self, work: Work) -> impl DoubleEndedIterator<Item = &Entry> {
        let name = work.to_string();
        let mut entries: Vec<_> = self.entries.iter().filter(|it| it.work == name).collect();
        entries.sort_unstable_by_key(|entry| entry.size);
        entries.into_iter()
    }
}

impl Entry {
    /// Adds the cost of a turn.
    pub(super) fn add(&mut self, program: &str, turn: usize, took: Took) {
        self.took.entry(program.to_owned()).or_default().insert(turn, took);
    }

    /// Returns a program's figures compared with another's; `None` unless they have a turn in
    /// common.
    pub(super) fn figures(&self, program: &str, beside: &str) -> Option<Figures> {
        let (turns, others) = (self.took.get(program)?, self.took.get(beside)?);
        let mut ratios: Vec<f64> = turns
            .iter()
            .filter_map(|(turn, took)| Some(times(took.wall_ns, others.get(turn)?.wall_ns)))
            .collect();
        ratios.sort_by(f64::total_cmp);
        let (own, other) = (median_of_both(turns, others), median_of_both(others, turns));
        Some(Figures {
            median: own,
            turns: ratios.len(),
            ratio: times(own.wall_ns, other.wall_ns),
            spread: (*ratios.first()?, *ratios.last()?),
        })
    }

    /// Prints a line for each program.
    pub(super) fn tell(&self) {
        for program in self.programs() {
            let Some(figures) = self.figures(program, "floor") else {
                continue;
            };
            let Took { wall_ns, cpu_ns, peak_rss_kb } = figures.median;
            let (least, most) = figures.spread;
            println!(
                "{:16} {:9} {program:20} {:>9} wall {:>9} processor {:>7.1} MB; x{:.2} ({least:.2} to {most:.2}) of {}",
                self.work,
                self.size,
                seconds(wall_ns),
                seconds(cpu_ns),
                megabytes(peak_rss_kb),
                figures.ratio,
                figures.turns,
            );
        }
        for (program, why) in &self.failed {
            println!("{:16} {:9} {program:20} failed: {why}", self.work, self.size);
        }
    }

    /// Returns the programs with figures: floor, trueup, and the others by name.
    pub(super) fn programs(&self) -> Vec<&str> {
        let mut programs: Vec<&str> = self.took.keys().map(String::as_str).collect();
        programs.sort_by_key(|name| (rank(name), *name));
        programs
    }
}

/// Returns the rank by which programs are sorted: floor, trueup, the others.
pub(super) fn rank(program: &str) -> u8 {
    match program {
        "floor" => 0,
        "trueup" => 1,
        _ => 2,
    }
}

/// Converts kibibytes to MB (10^6 bytes).
pub(super) fn megabytes(kibibytes: u64) -> f64 {
    kibibytes as f64 * 1.024e-3
}

fn times(a: u64, b: u64) -> f64 {
    a as f64 / b.max(1) as f64
}

/// Returns the median of the turns that both took: a program with fewer turns met only the
/// conditions of its own turns.
fn median_of_both(own: &BTreeMap<usize, Took>, other: &BTreeMap<usize, Took>) -> Took {
    let in_both: Vec<Took> =
        own.iter().filter(|(turn, _)| other.contains_key(turn)).map(|(_, took)| *took).collect();
    Took {
        wall_ns: median(in_both.iter().map(|took| took.wall_ns).collect()),
        cpu_ns: median(in_both.iter().map(|took| took.cpu_ns).collect()),
        peak_rss_kb: median(in_both.iter().map(|took| took.peak_rss_kb).collect()),
    }
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    let half = values.len() / 2;
    match values.len() {
        0 => 0,
        odd if !odd.is_multiple_of(2) => values[half],
        _ => values[half - 1].midpoint(values[half]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn took(wall_ns: u64) -> Took {
        Took { wall_ns, cpu_ns: 1, peak_rss_kb: 1 }
    }

    #[test]
    fn a_program_is_compared_over_the_turns_that_it_took() {
        let mut entry = Entry::default();
        // From the second turn on, the machine is twice as slow.
        for (turn, wall) in [100, 200, 200].into_iter().enumerate() {
            entry.add("floor", turn, took(wall));
            entry.add("trueup", turn, took(wall + wall / 10));
        }
        entry.add("peer", 0, took(150));
        let figures = entry.figures("trueup", "floor").unwrap();
        assert_eq!((figures.ratio, figures.turns), (1.1, 3));
        assert_eq!(figures.spread, (1.1, 1.1));
        let figures = entry.figures("peer", "floor").unwrap();
        assert_eq!((figures.ratio, figures.turns), (1.5, 1));
        assert_eq!(entry.figures("nobody", "floor"), None);
        assert_eq!(entry.programs(), ["floor", "trueup", "peer"]);
    }

    #[test]
    fn a_median_of_two_lies_between_them() {
        assert_eq!(median(vec![3, 1]), 2);
        assert_eq!(median(vec![9, 1, 4]), 4);
    }
}

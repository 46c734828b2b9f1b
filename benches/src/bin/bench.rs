//! `cargo xtask bench`, once everything is built: has programs do works in turn, in namespaces of
//! its own, and shows what that took. Needs no root.

use std::fs;
use std::path::Path;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use trueup_benches::bench::alternate::{self, Choice};
use trueup_benches::bench::program::Program;
use trueup_benches::bench::record::{Record, rank};
use trueup_benches::bench::series::SERIES;
use trueup_benches::bench::{page, picture};

use flags::Bench;

#[allow(missing_docs, reason = "the macro documents the flags, not the struct that it makes")]
mod flags {
    use std::path::PathBuf;

    xflags::xflags! {
        /// Measures works of trueup against the floor and against other programs, alternately. The
        /// internet's table is read from the folder that $TRUEUP_DATA names, from
        /// internet-v4.txt.gz and internet-v6.txt.gz with a prefix at the start of each line; else
        /// one of its size and shape is made up.
        cmd bench {
            /// Measure this work alone, such as route-create; may be repeated.
            repeated --work name: String
            /// Sizes, with commas between them; by default those of each work, from 1 to 1,000,000.
            optional --sizes list: String
            /// How many turns each program has; by default 11 at small sizes to 3 at large ones.
            optional --runs turns: usize
            /// No more than so many routes, and fewer of what costs the kernel more.
            optional --largest size: usize
            /// `--largest 20000 --runs 3`, unless either is given.
            optional --quick
            /// Leave out the others: the floor and trueup alone.
            optional --alone
            /// After so many minutes no work is repeated any more, but each is still done once; 15
            /// by default.
            optional --minutes minutes: u64
            /// Look where trueup's time goes instead, each work once at its largest size, by `perf`
            /// (Debian's linux-perf), which has to see the kernel (sysctl
            /// kernel.perf_event_paranoid, 1 at most).
            optional --profile
            /// Write the tables to docs/performance.md, and the picture beside it.
            optional --write
            /// A command that does works: set by xtask.
            repeated --command path: PathBuf
            /// Where figures are kept from run to run: set by xtask.
            optional --record file: PathBuf
            /// The folder of performance.md: set by xtask.
            optional --docs directory: PathBuf
        }
    }
}

/// What a quick run is.
const QUICK_LARGEST: usize = 20_000;
const QUICK_RUNS: usize = 3;

fn main() -> Result<()> {
    let flags = Bench::from_env_or_exit();
    let programs = programs(&flags)?;
    let choice = choice(&flags)?;
    let mut record = match &flags.record {
        Some(path) => Record::read(path, &machine()?)?,
        None => Record::default(),
    };
    record.machine = machine()?;
    let names: Vec<&str> = programs.iter().map(|program| &*program.name).collect();
    println!("{}: {}", record.machine, names.join(", "));
    // Before there is a second thread.
    trueup_testkit::enter()?;
    let trueup = programs.iter().find(|program| program.name == "trueup");
    let trueup = trueup.context("trueup was not built")?;
    for series in &SERIES {
        match flags.profile {
            true => alternate::profiled(series, trueup, &choice, &mut record)?,
            false => alternate::series(series, &programs, &choice, &mut record)?,
        }
        if let Some(path) = &flags.record {
            record.write(path)?;
        }
    }
    if flags.write {
        let docs = flags.docs.as_deref().context("--write needs --docs")?;
        write(docs, &record)?;
    }
    Ok(())
}

/// Floor first: of those that take equally long to say so, it is the one that does.
fn programs(flags: &Bench) -> Result<Vec<Program>> {
    let mut programs = Vec::new();
    for command in &flags.command {
        programs.extend(Program::of_command(command)?);
    }
    if flags.alone {
        programs.retain(|program| rank(&program.name) < 2);
    }
    programs.sort_by_key(|program| rank(&program.name));
    for name in ["floor", "trueup"] {
        let there = programs.iter().any(|program| program.name == name);
        ensure!(there, "no command does the works of {name}");
    }
    Ok(programs)
}

fn choice(flags: &Bench) -> Result<Choice> {
    let works = flags.work.iter().map(|name| name.parse());
    let sizes = flags.sizes.as_deref().unwrap_or_default().split(',');
    let sizes = sizes.filter(|size| !size.is_empty());
    let (largest, runs) =
        if flags.quick { (QUICK_LARGEST, Some(QUICK_RUNS)) } else { (usize::MAX, None) };
    Ok(Choice {
        works: works.collect::<Result<_>>()?,
        sizes: sizes
            .map(|size| size.parse().with_context(|| format!("--sizes: {size}")))
            .collect::<Result<_>>()?,
        largest: flags.largest.unwrap_or(largest),
        runs: flags.runs.or(runs),
        until: Instant::now() + Duration::from_secs(60 * flags.minutes.unwrap_or(15)),
    })
}

/// The machine and its kernel.
fn machine() -> Result<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    // The series: others have it with another patch level.
    let series: Vec<&str> = release.trim().splitn(3, '.').take(2).collect();
    let cpu = fs::read_to_string("/proc/cpuinfo")?;
    let model = cpu.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("", |text| text.trim_start_matches([' ', '\t', ':']));
    let memory = fs::read_to_string("/proc/meminfo")?;
    let kib = memory.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: u64 = kib
        .and_then(|text| text.trim().strip_suffix(" kB"))
        .context("no MemTotal in /proc/meminfo")?
        .parse()?;
    Ok(format!(
        "Linux {}, {} processors ({model}), {} GiB of memory",
        series.join("."),
        available_parallelism()?,
        (kib + (1 << 19)) >> 20
    ))
}

/// The tables go to their page, the picture beside it.
fn write(docs: &Path, record: &Record) -> Result<()> {
    const PICTURE: &str = "performance.svg";
    let page = docs.join("performance.md");
    let describe = |path: &Path| path.display().to_string();
    let text = fs::read_to_string(&page).with_context(|| describe(&page))?;
    let text = page::with_tables(&text, record, PICTURE).with_context(|| describe(&page))?;
    fs::write(&page, text).with_context(|| describe(&page))?;
    let picture = docs.join(PICTURE);
    fs::write(&picture, picture::svg(record)).with_context(|| describe(&picture))
}

//! `cargo xtask bench`, once everything is built: programs do the same works in turn, in fresh
//! namespaces, and their figures are shown.
//!
//! [`series`] lists the works, [`program`] runs one, [`alternate`] makes programs take turns,
//! [`profile`] samples where the time goes, [`record`] keeps the figures, [`page`] and [`picture`]
//! show them. A missed limit is shown, and is no failure.

mod alternate;
mod page;
mod picture;
mod profile;
mod program;
mod record;
mod series;

use std::fs;
use std::path::PathBuf;
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use trueup_works::Work;

use program::Program;
use record::{Record, rank};
use series::SERIES;

/// Measures works of trueup against the floor and against other programs, alternately. The
/// internet's table is read from the folder that $TRUEUP_DATA names, from internet-v4.txt.gz and
/// internet-v6.txt.gz with a prefix at the start of each line; else one of its size and shape is
/// made up.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// Measure this work alone, such as route-create; may be repeated.
    #[arg(long)]
    work: Vec<Work>,
    /// Sizes, with commas between them; by default those of each work, from 1 to 1,000,000.
    #[arg(long, value_delimiter = ',')]
    sizes: Vec<usize>,
    /// How many turns each program has; by default 11 at small sizes to 3 at large ones.
    #[arg(long)]
    runs: Option<usize>,
    /// No more than so many routes, and fewer of what costs the kernel more.
    #[arg(long)]
    largest: Option<usize>,
    /// `--largest 20000 --runs 3`, unless either is given.
    #[arg(long)]
    quick: bool,
    /// Leave out the others: the floor and trueup alone.
    #[arg(long)]
    alone: bool,
    /// After so many minutes no work is repeated any more, but each is still done once.
    #[arg(long, default_value_t = 15)]
    minutes: u64,
    /// Look where trueup's time goes instead, each work once at its largest size, by `perf`
    /// (Debian's linux-perf), which has to see the kernel (sysctl kernel.perf_event_paranoid, 1 at
    /// most).
    #[arg(long)]
    profile: bool,
    /// Write the tables to docs/performance.md, and the picture beside it.
    #[arg(long)]
    write: bool,
    /// One more command that does works: set by xtask.
    #[arg(long)]
    command: Vec<PathBuf>,
    /// Where figures are kept from run to run: set by xtask.
    #[arg(long)]
    record: Option<PathBuf>,
    /// The folder of performance.md: set by xtask.
    #[arg(long)]
    docs: Option<PathBuf>,
}

pub(crate) fn main(options: &Options) -> Result<()> {
    let programs = programs(options)?;
    let until = Instant::now() + Duration::from_secs(60 * options.minutes);
    let mut record = match &options.record {
        Some(path) => Record::read(path, &machine()?)?,
        None => Record::default(),
    };
    record.machine = machine()?;
    let names: Vec<&str> = programs.iter().map(|program| &*program.name).collect();
    println!("{}: {}", record.machine, names.join(", "));
    // The process must still have one thread.
    trueup_testkit::enter()?;
    for series in &SERIES {
        if options.profile {
            alternate::profiled(series, &programs[1], options, &mut record)?;
        } else {
            alternate::series(series, &programs, options, until, &mut record)?;
        }
        if let Some(path) = &options.record {
            record.write(path)?;
        }
    }
    if options.write {
        let docs = options.docs.as_deref().context("--write needs --docs")?;
        let (page, picture) = (docs.join("performance.md"), docs.join("performance.svg"));
        let text = fs::read_to_string(&page).with_context(|| page.display().to_string())?;
        fs::write(&page, page::with_tables(&text, &record, "performance.svg")?)?;
        fs::write(&picture, picture::svg(&record)?)?;
    }
    Ok(())
}

/// Returns the programs: floor first, then trueup.
fn programs(options: &Options) -> Result<Vec<Program>> {
    let mut programs = Program::of_command(&std::env::current_exe()?.with_file_name("works"))?;
    for command in &options.command {
        programs.extend(Program::of_command(command)?);
    }
    if options.alone {
        programs.retain(|program| rank(&program.name) < 2);
    }
    programs.sort_by_key(|program| rank(&program.name));
    ensure!(programs[..2].iter().map(|it| &*it.name).eq(["floor", "trueup"]), "both are built in");
    Ok(programs)
}

/// Returns a value from a file in `/proc`, by the name at the beginning of its line.
fn value_of(path: &str, name: &str) -> Result<String> {
    let text = fs::read_to_string(path)?;
    let value = text.lines().find_map(|line| line.strip_prefix(name)).unwrap_or_default();
    Ok(value.trim_matches([' ', '\t', ':']).to_owned())
}

/// Describes the machine and its kernel.
fn machine() -> Result<String> {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease")?;
    // Only the series: other machines have it with another patch level.
    let series: Vec<&str> = release.trim().splitn(3, '.').take(2).collect();
    let kib: u64 = value_of("/proc/meminfo", "MemTotal")?.trim_end_matches(" kB").parse()?;
    Ok(format!(
        "Linux {}, {} processors ({}), {} GiB of memory",
        series.join("."),
        available_parallelism()?,
        value_of("/proc/cpuinfo", "model name")?,
        (kib + (1 << 19)) >> 20
    ))
}

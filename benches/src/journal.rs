//! The cost of durable records: the journal's operations with an idempotency key, beside a loop
//! that writes a record and syncs it, in turn, in the same directory.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Result, anyhow, bail};
use trueup::journal::{Journal, Keep, Start};

use crate::text::Table;
use crate::usage::{Usage, measure, median};

/// Measures durable records a second, of the journal and of a bare sync.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// In which directory; `target` of the workspace by default. Memory is no disk: not `/tmp`
    /// where that is a tmpfs.
    #[arg(long)]
    directory: Option<PathBuf>,
    /// How often each is measured.
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// For how many milliseconds each time.
    #[arg(long, default_value_t = 1_000)]
    milliseconds: u64,
}

/// The numbers of threads that hand in records at once.
const THREADS: [usize; 3] = [1, 8, 64];

/// The length in bytes of an operation's description, and of a record in the bare loop.
const RECORD: usize = 128;

/// The number of durable records, the number of syncs, and the time.
struct Rate {
    records: u64,
    syncs: u64,
    usage: Usage,
}

impl Rate {
    fn a_second(&self) -> f64 {
        self.records as f64 / self.usage.wall
    }
}

pub(crate) fn main(options: &Options) -> Result<()> {
    let directory = options
        .directory
        .clone()
        .unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../target"))
        .join(format!("journal-bench-{}", std::process::id()));
    fs::create_dir_all(&directory)?;
    let lasts = Duration::from_millis(options.milliseconds);
    let measured = compared(&directory, options.rounds.max(1), lasts);
    fs::remove_dir_all(&directory)?;
    measured
}

/// Makes the bare loop and the journal take turns, and prints the medians.
fn compared(directory: &Path, rounds: usize, lasts: Duration) -> Result<()> {
    let mut rates: [[Vec<Rate>; 2]; THREADS.len()] = Default::default();
    for round in 0..rounds {
        for (threads, [bare, journal]) in THREADS.into_iter().zip(&mut rates) {
            bare.push(bare_syncs(directory, threads, lasts)?);
            let path = directory.join(format!("journal-{threads}"));
            journal.push(operations(&path, threads, round, lasts)?);
        }
    }
    let head = [
        "",
        "records a second: median, least, most",
        "a bare sync by one thread = 1",
        "records a sync",
        "processor, a record",
    ];
    let mut table = Table::new(&head, "---");
    let one = median(rates[0][0].iter().map(Rate::a_second).collect());
    for (threads, both) in THREADS.into_iter().zip(rates) {
        for (name, rates) in ["bare", "journal"].into_iter().zip(both) {
            let each: Vec<f64> = rates.iter().map(Rate::a_second).collect();
            let least = each.iter().copied().fold(f64::MAX, f64::min);
            let most = each.iter().copied().fold(0.0, f64::max);
            let median = median(each);
            let records: f64 = rates.iter().map(|rate| rate.records as f64).sum();
            let syncs: f64 = rates.iter().map(|rate| rate.syncs as f64).sum();
            let processor: f64 = rates.iter().map(|rate| rate.usage.processor).sum();
            table.row([
                format!("{name}, {threads} threads"),
                format!("{median:.0}, {least:.0}, {most:.0}"),
                format!("{:.2}", median / one),
                format!("{:.1}", records / syncs),
                format!("{:.0} µs", processor * 1e6 / records),
            ]);
        }
    }
    print!("{}", table.0);
    Ok(())
}

/// Makes each thread write one record after the other to its own file, with a sync for each. The
/// file has its final length already.
fn bare_syncs(directory: &Path, threads: usize, lasts: Duration) -> Result<Rate> {
    const LEN: usize = 1 << 16;
    let files = (0..threads)
        .map(|thread| -> Result<File> {
            let file = File::create(directory.join(format!("bare-{thread}")))?;
            file.write_all_at(&[0; LEN], 0)?;
            file.sync_all()?;
            Ok(file)
        })
        .collect::<Result<Vec<_>>>()?;
    let start = Instant::now();
    let (records, usage) = in_threads(files, |file| {
        let mut records = 0;
        while start.elapsed() < lasts {
            let at = records as usize * RECORD % LEN;
            file.write_all_at(&[records as u8; RECORD], at as u64)?;
            file.sync_data()?;
            records += 1;
        }
        Ok(records)
    })?;
    Ok(Rate { records, syncs: records, usage })
}

/// Does the work with each input in its own thread, and returns the sum.
fn in_threads<T: Send>(
    inputs: Vec<T>,
    work: impl Fn(T) -> Result<u64> + Sync,
) -> Result<(u64, Usage)> {
    let work = &work;
    let (sum, usage) = measure(|| {
        thread::scope(|scope| {
            let threads = inputs.into_iter().map(|input| scope.spawn(move || work(input)));
            let threads: Vec<_> = threads.collect();
            threads
                .into_iter()
                .map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
                .sum::<Result<u64>>()
        })
    })?;
    Ok((sum?, usage))
}

/// Makes each thread take operations from their start through a task to their success: three
/// records each.
fn operations(path: &Path, threads: usize, round: usize, lasts: Duration) -> Result<Rate> {
    let journal = Journal::open(path)?;
    // The first change opens the journal for writing.
    journal.forget_operations(Keep::Latest(1000))?;
    journal.forget_keys(Keep::Latest(1000))?;
    lane(&journal, &format!("warm {round}"), Duration::ZERO)?;
    let before = journal.stats().syncs;
    let names = (0..threads).map(|thread| format!("lane {thread} round {round}"));
    let (records, usage) = in_threads(names.collect(), |name| lane(&journal, &name, lasts))?;
    Ok(Rate { records, syncs: journal.stats().syncs - before, usage })
}

/// Executes one operation after the other, and returns the number of durable records.
fn lane(journal: &Journal, name: &str, lasts: Duration) -> Result<u64> {
    let start = Instant::now();
    let mut records = 0;
    loop {
        let (name, key) = (format!("{name}, {records}"), format!("key of {name}, {records}"));
        let begin = Start::new(&name, &[7; RECORD]).object(b"vm").key(key.as_bytes());
        let Ok(mut execution) = journal.begin(begin)? else {
            bail!("{name} began before");
        };
        execution.running("task 1")?;
        execution.succeeded(b"done", SystemTime::now())?;
        records += 3;
        if start.elapsed() >= lasts {
            return Ok(records);
        }
    }
}

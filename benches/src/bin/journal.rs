//! What durable records cost: operations with an idempotency key by the journal, beside a loop that
//! writes a record and syncs it, in turn, in the same directory.

use std::fs::{self, File};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use anyhow::{Context as _, Result, bail};
use trueup::journal::{Begun, Journal, Keep, Start};
use trueup_benches::usage;

#[allow(missing_docs, reason = "the macro documents the flags, not the struct that it makes")]
mod flags {
    use std::path::PathBuf;

    xflags::xflags! {
        /// Measures durable records a second, of the journal and of a bare sync.
        cmd journal {
            /// In which directory; `target` of the workspace by default. Memory is no disk: not
            /// `/tmp` where that is a tmpfs.
            optional --directory directory: PathBuf
            /// How often each is measured; 5 by default.
            optional --rounds rounds: usize
            /// For how many milliseconds each time; 1,000 by default.
            optional --milliseconds milliseconds: u64
        }
    }
}

/// How many threads hand in records at once.
const THREADS: [usize; 3] = [1, 8, 64];

/// The length of the description of an operation, and of a record of the bare loop.
const RECORD: usize = 128;

/// How many records were durable in which time, and with how many syncs.
struct Rate {
    records: u64,
    syncs: u64,
    took: Duration,
    /// Processor time of all threads, in seconds.
    processor: f64,
}

impl Rate {
    fn a_second(&self) -> f64 {
        self.records as f64 / self.took.as_secs_f64()
    }
}

fn main() -> Result<()> {
    let flags = flags::Journal::from_env_or_exit();
    let target = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../target");
    let directory = flags.directory.unwrap_or_else(target);
    let directory = directory.join(format!("journal-bench-{}", std::process::id()));
    let rounds = flags.rounds.unwrap_or(5).max(1);
    let lasts = Duration::from_millis(flags.milliseconds.unwrap_or(1_000));
    fs::create_dir_all(&directory)
        .with_context(|| format!("cannot make {}", directory.display()))?;
    let measured = measure(&directory, rounds, lasts);
    fs::remove_dir_all(&directory)?;
    measured
}

/// Has the bare loop and the journal take turns, and prints the medians.
fn measure(directory: &Path, rounds: usize, lasts: Duration) -> Result<()> {
    let mut rates: [[Vec<Rate>; 2]; THREADS.len()] = Default::default();
    for round in 0..rounds {
        for (threads, [bare, journal]) in THREADS.into_iter().zip(&mut rates) {
            bare.push(bare_syncs(directory, threads, lasts)?);
            let path = directory.join(format!("journal-{threads}"));
            journal.push(operations(&path, threads, round, lasts)?);
        }
    }
    println!(
        "| | records a second: median, least, most | a bare sync by one thread = 1 | records a sync | \
         processor, a record |"
    );
    println!("|---|---|---|---|---|");
    let mut one = None;
    for (threads, [mut bare, mut journal]) in THREADS.into_iter().zip(rates) {
        let of_bare = print(&format!("bare, {threads} threads"), &mut bare, one);
        print(&format!("journal, {threads} threads"), &mut journal, one.or(Some(of_bare)));
        one.get_or_insert(of_bare);
    }
    Ok(())
}

/// Prints a row of the table, and returns the median of the records a second.
fn print(what: &str, rates: &mut [Rate], one: Option<f64>) -> f64 {
    rates.sort_by(|a, b| a.a_second().total_cmp(&b.a_second()));
    let a_second = |index: usize| rates[index].a_second();
    let median = a_second(rates.len() / 2);
    let records: u64 = rates.iter().map(|rate| rate.records).sum();
    let syncs: u64 = rates.iter().map(|rate| rate.syncs).sum();
    let processor: f64 = rates.iter().map(|rate| rate.processor).sum();
    println!(
        "| {what} | {median:.0}, {:.0}, {:.0} | {:.2} | {:.1} | {:.0} µs |",
        a_second(0),
        a_second(rates.len() - 1),
        median / one.unwrap_or(median),
        records as f64 / syncs as f64,
        processor * 1e6 / records as f64,
    );
    median
}

/// Has each thread write one record after the other, each with its sync, to a file of its own that
/// has its length already.
fn bare_syncs(directory: &Path, threads: usize, lasts: Duration) -> Result<Rate> {
    const LEN: usize = 1 << 16;
    let files = (0..threads).map(|thread| -> Result<File> {
        let file = File::create(directory.join(format!("bare-{thread}")))?;
        file.write_all_at(&[0; LEN], 0)?;
        file.sync_all()?;
        Ok(file)
    });
    let files = files.collect::<Result<Vec<_>>>()?;
    let start = Instant::now();
    let (records, usage) = usage::measure(|| {
        in_threads(files, |file| {
            let mut records = 0;
            while start.elapsed() < lasts {
                let at = records as usize * RECORD % LEN;
                file.write_all_at(&[records as u8; RECORD], at as u64)?;
                file.sync_data()?;
                records += 1;
            }
            Ok(records)
        })
    })?;
    let records = records?;
    Ok(Rate {
        records,
        syncs: records,
        took: start.elapsed(),
        processor: usage.user + usage.system,
    })
}

/// Does the work with each of the inputs in a thread of its own, and returns the sum.
fn in_threads<T: Send>(inputs: Vec<T>, work: impl Fn(T) -> Result<u64> + Sync) -> Result<u64> {
    let work = &work;
    thread::scope(|scope| {
        let threads = inputs.into_iter().map(|input| scope.spawn(move || work(input)));
        let threads: Vec<_> = threads.collect();
        let ended = threads.into_iter().map(|thread| match thread.join() {
            Ok(records) => records,
            Err(_) => bail!("a thread panicked"),
        });
        ended.sum()
    })
}

/// Has each thread take operations from their start by way of a task to their success: three
/// records each.
fn operations(path: &PathBuf, threads: usize, round: usize, lasts: Duration) -> Result<Rate> {
    let journal = Journal::open(path)?;
    // The first change opens the journal for writing.
    journal.operations().forget(Keep::Latest(1000))?;
    journal.operations().forget_keys(Keep::Latest(1000))?;
    lane(&journal, &format!("warm {round}"), Duration::ZERO)?;
    let before = journal.stats().syncs;
    let start = Instant::now();
    let names = (0..threads).map(|thread| format!("lane {thread} round {round}"));
    let (records, usage) =
        usage::measure(|| in_threads(names.collect(), |name| lane(&journal, &name, lasts)))?;
    Ok(Rate {
        records: records?,
        syncs: journal.stats().syncs - before,
        took: start.elapsed(),
        processor: usage.user + usage.system,
    })
}

/// Executes one operation after the other, and returns the number of durable records.
fn lane(journal: &Journal, name: &str, lasts: Duration) -> Result<u64> {
    let start = Instant::now();
    let what = [7; RECORD];
    let mut records = 0;
    loop {
        let (name, key) = (format!("{name}, {records}"), format!("key of {name}, {records}"));
        let begin = Start::new(&name, &what).object(b"vm").key(key.as_bytes());
        let Begun::Execute(mut execution) = journal.operations().begin(begin)? else {
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

//! The cost of a job in a keyed serial queue, beside other ways: a thread for each key, a mutex for
//! each key and a pool, and rayon's pool with a lane for each key. The programs take turns. A job
//! adds one to its key's number.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use trueup_queue::{Config, Queue};

use crate::text::Table;
use crate::usage::{Times, measure, median};

/// Measures the keyed serial queue beside others.
#[derive(clap::Args)]
pub(crate) struct Options {
    /// How many jobs.
    #[arg(long, default_value_t = 1_000_000)]
    jobs: usize,
    /// How many keys.
    #[arg(long, default_value = "10000")]
    keys: NonZeroUsize,
    /// How many threads of a pool.
    #[arg(long, default_value = "2")]
    workers: NonZeroUsize,
    /// How many turns.
    #[arg(long, default_value_t = 5)]
    turns: usize,
    /// How many samples of the latency in each turn.
    #[arg(long, default_value_t = 5_000)]
    samples: usize,
}

/// The time limit of every wait.
const BOUND: Duration = Duration::from_secs(120);
/// The stack of a thread that serves a key, in bytes.
const STACK: usize = 64 << 10;

type Job = Box<dyn FnOnce() + Send>;

/// Runs jobs, those with the same key one at a time.
trait Runner {
    fn submit(&self, key: usize, job: Job) -> Result<()>;
    /// Runs all submitted jobs, and ends.
    fn end(self: Box<Self>) -> Result<()>;
}

/// Makes a runner for a number of keys, with a number of threads.
type Make = fn(usize, NonZeroUsize) -> Result<Box<dyn Runner>>;

const RUNNERS: [(&str, Make); 4] = [
    ("`trueup-queue`", in_queue),
    ("a thread a key, with a channel each", thread_each),
    ("a mutex a key, over a pool with a channel (no order)", mutex_each),
    ("rayon's pool, with a locked lane a key", on_rayon),
];

pub(crate) fn main(options: &Options) -> Result<()> {
    let Options { jobs, keys, workers, .. } = *options;
    println!("{jobs} jobs over {keys} keys, {workers} threads\n");
    let mut taken = RUNNERS.map(|_| [const { Vec::new() }; 4]);
    for _ in 0..options.turns.max(1) {
        for ((_, make), taken) in RUNNERS.iter().zip(&mut taken) {
            let turn = turn(*make, options)?;
            taken.iter_mut().zip(turn).for_each(|(all, figure)| all.push(figure));
        }
    }
    let medians = taken.map(|figures| figures.map(median));
    let [of_wall, of_processor, ..] = medians[0];
    let head = [
        "",
        "wall, a job",
        "processor, a job",
        "ratio",
        "one job at rest: median, 99th percentile",
    ];
    let mut table = Table::new(&head, "---");
    for ((name, _), [wall, processor, median, slow]) in RUNNERS.iter().zip(medians) {
        table.row([
            (*name).to_owned(),
            format!("{wall:.2} µs"),
            format!("{processor:.2} µs"),
            format!("{:.1} and {:.1}", wall / of_wall, processor / of_processor),
            format!("{median:.0} µs, {slow:.0} µs"),
        ]);
    }
    print!("{}", table.0);
    Ok(())
}

/// Returns the costs of a turn in µs: wall and processor time of a job, median and 99th percentile
/// of a single job at rest.
fn turn(make: Make, options: &Options) -> Result<[f64; 4]> {
    let (jobs, keys) = (options.jobs, options.keys.get());
    let counts: Arc<[AtomicU64]> = (0..keys).map(|_| AtomicU64::new(0)).collect();
    let runner = make(keys, options.workers)?;
    let (ran, usage) = measure(|| {
        for job in 0..jobs {
            let (key, counts) = (job % keys, Arc::clone(&counts));
            runner.submit(
                key,
                Box::new(move || {
                    // No other job with the key runs, so it need not be atomic.
                    let count = counts[key].load(Ordering::Relaxed);
                    counts[key].store(count + 1, Ordering::Relaxed);
                }),
            )?;
        }
        runner.end()
    })?;
    ran?;
    let sum: u64 = counts.iter().map(|count| count.load(Ordering::Relaxed)).sum();
    ensure!(sum == jobs as u64, "{sum} of {jobs} jobs ran, or two of a key at once");

    let few = keys.min(100);
    let runner = make(few, options.workers)?;
    let mut times = Vec::with_capacity(options.samples);
    let (send, receive) = channel();
    for sample in 0..options.samples {
        let (sender, begin) = (send.clone(), Instant::now());
        runner.submit(
            sample % few,
            Box::new(move || {
                // An error means that no thread waits any longer.
                let _ = sender.send(());
            }),
        )?;
        receive.recv_timeout(BOUND)?;
        times.push(begin.elapsed());
    }
    runner.end()?;
    let [median, slow] = Times::of(times).parts(1e-6);
    let [wall, processor] =
        [usage.wall, usage.processor].map(|seconds| seconds * 1e6 / jobs as f64);
    Ok([wall, processor, median, slow])
}

/// Makes the queue; each job's ticket is dropped.
fn in_queue(_: usize, workers: NonZeroUsize) -> Result<Box<dyn Runner>> {
    Ok(Box::new(Queue::new(Config::new(workers))?))
}

impl Runner for Queue<usize> {
    fn submit(&self, key: usize, job: Job) -> Result<()> {
        let submitted = Queue::submit(self, key, job);
        submitted.map(drop).map_err(|rejected| anyhow!("{rejected}"))
    }

    fn end(self: Box<Self>) -> Result<()> {
        ensure!(self.close_within(BOUND)?.is_empty(), "it did not end");
        Ok(())
    }
}

struct ThreadEach(Vec<(Sender<Job>, JoinHandle<()>)>);

fn thread_each(keys: usize, _: NonZeroUsize) -> Result<Box<dyn Runner>> {
    let threads = (0..keys).map(|_| {
        let (send, receive) = channel::<Job>();
        let thread = thread::Builder::new().stack_size(STACK);
        Ok((send, thread.spawn(move || receive.iter().for_each(|job| job()))?))
    });
    Ok(Box::new(ThreadEach(threads.collect::<Result<_>>()?)))
}

impl Runner for ThreadEach {
    fn submit(&self, key: usize, job: Job) -> Result<()> {
        self.0[key].0.send(job).map_err(|_| anyhow!("the thread has ended"))
    }

    fn end(self: Box<Self>) -> Result<()> {
        join(self.0.into_iter().map(|(_, thread)| thread).collect())
    }
}

fn join(threads: Vec<JoinHandle<()>>) -> Result<()> {
    let mut joined = threads.into_iter().map(JoinHandle::join);
    joined.try_for_each(|it| it.map_err(|_| anyhow!("a thread panicked")))
}

struct MutexEach {
    send: Sender<(usize, Job)>,
    threads: Vec<JoinHandle<()>>,
}

fn mutex_each(keys: usize, workers: NonZeroUsize) -> Result<Box<dyn Runner>> {
    let lanes: Arc<[Mutex<()>]> = (0..keys).map(|_| Mutex::new(())).collect();
    let (send, receive) = channel::<(usize, Job)>();
    let receive = Arc::new(Mutex::new(receive));
    let threads = (0..workers.get()).map(|_| {
        let (lanes, receive) = (Arc::clone(&lanes), Arc::clone(&receive));
        thread::spawn(move || {
            while let Some((key, job)) = next(&receive) {
                let _turn = lock(&lanes[key]);
                job();
            }
        })
    });
    Ok(Box::new(MutexEach { send, threads: threads.collect() }))
}

fn next<T>(receive: &Mutex<Receiver<T>>) -> Option<T> {
    lock(receive).recv().ok()
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runner for MutexEach {
    fn submit(&self, key: usize, job: Job) -> Result<()> {
        self.send.send((key, job)).map_err(|_| anyhow!("the pool has ended"))
    }

    fn end(self: Box<Self>) -> Result<()> {
        drop(self.send);
        join(self.threads)
    }
}

struct OnRayon {
    pool: rayon::ThreadPool,
    lanes: Arc<[Mutex<Lane>]>,
    /// Each job has a sender; the receiver ends when the last has run.
    open: (Sender<()>, Receiver<()>),
}

#[derive(Default)]
struct Lane {
    jobs: VecDeque<Job>,
    runs: bool,
}

fn on_rayon(keys: usize, workers: NonZeroUsize) -> Result<Box<dyn Runner>> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(workers.get()).build()?;
    let lanes = (0..keys).map(|_| Mutex::default()).collect();
    Ok(Box::new(OnRayon { pool, lanes, open: channel() }))
}

/// Runs one job of a lane, and makes the pool continue with it. The last one closes the channel.
#[expect(clippy::only_used_in_recursion, reason = "it is dropped at the end")]
fn run_one(lanes: Arc<[Mutex<Lane>]>, key: usize, open: Sender<()>) {
    let job = lock(&lanes[key]).jobs.pop_front();
    if let Some(job) = job {
        job();
    }
    let mut lane = lock(&lanes[key]);
    lane.runs = !lane.jobs.is_empty();
    if lane.runs {
        drop(lane);
        rayon::spawn_fifo(move || run_one(lanes, key, open));
    }
}

impl Runner for OnRayon {
    fn submit(&self, key: usize, job: Job) -> Result<()> {
        let mut lane = lock(&self.lanes[key]);
        lane.jobs.push_back(job);
        if !lane.runs {
            lane.runs = true;
            drop(lane);
            let (lanes, open) = (Arc::clone(&self.lanes), self.open.0.clone());
            self.pool.spawn_fifo(move || run_one(lanes, key, open));
        }
        Ok(())
    }

    fn end(self: Box<Self>) -> Result<()> {
        let (send, receive) = self.open;
        drop(send);
        // An error means that all senders are dropped, including the lanes'.
        let ended = receive.recv_timeout(BOUND);
        ensure!(ended.is_err(), "something was sent");
        Ok(())
    }
}

//! What a job costs in a keyed serial queue, beside what others do for the same: a thread for each
//! key, a mutex for each key and a pool, and rayon's pool with a lane for each key. The programs
//! take turns. A job adds one to a number of its key.

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use trueup_benches::usage::measure;
use trueup_queue::{Config, Queue};

#[allow(missing_docs, reason = "the macro documents the flags, not the struct that it makes")]
mod flags {
    xflags::xflags! {
        /// Measures the keyed serial queue beside others.
        cmd queue {
            /// How many jobs; 1,000,000 by default.
            optional --jobs count: usize
            /// How many keys; 10,000 by default.
            optional --keys count: usize
            /// How many threads of a pool; 2 by default.
            optional --workers count: usize
            /// How many turns; 5 by default.
            optional --turns count: usize
            /// How many samples of the latency in each turn; 5,000 by default.
            optional --samples count: usize
        }
    }
}

/// No wait is longer.
const BOUND: Duration = Duration::from_secs(120);
/// The stack of a thread that serves a key.
const STACK: usize = 64 << 10;

type Job = Box<dyn FnOnce() + Send>;

/// What runs jobs, those of a key one at a time.
trait Runner {
    fn submit(&self, key: usize, job: Job) -> Result<()>;
    /// Runs all that was submitted, and ends.
    fn end(self: Box<Self>) -> Result<()>;
}

/// Makes a runner for so many keys, with so many threads.
type Make = fn(usize, usize) -> Result<Box<dyn Runner>>;

const RUNNERS: [(&str, Make); 4] = [
    ("`trueup-queue`", InQueue::make),
    ("a thread a key, with a channel each", ThreadEach::make),
    ("a mutex a key, over a pool with a channel (no order)", MutexEach::make),
    ("rayon's pool, with a locked lane a key", OnRayon::make),
];

fn main() -> Result<()> {
    let flags = flags::Queue::from_env_or_exit();
    let jobs = flags.jobs.unwrap_or(1_000_000);
    let keys = flags.keys.unwrap_or(10_000).max(1);
    let workers = flags.workers.unwrap_or(2).max(1);
    let samples = flags.samples.unwrap_or(5_000);
    println!("{jobs} jobs over {keys} keys, {workers} threads\n");
    let mut taken = RUNNERS.map(|_| Vec::new());
    for _ in 0..flags.turns.unwrap_or(5).max(1) {
        for ((_, make), taken) in RUNNERS.iter().zip(&mut taken) {
            taken.push(Taken::of(*make, jobs, keys, workers, samples)?);
        }
    }
    let medians = taken.map(|turns| Taken::median(&turns));
    let [first, ..] = medians;
    println!(
        "| | wall, a job | processor, a job | ratio | one job at rest: median, 99th percentile |"
    );
    println!("|---|---|---|---|---|");
    for ((name, _), it) in RUNNERS.iter().zip(medians) {
        println!(
            "| {name} | {:.2} µs | {:.2} µs | {:.1} and {:.1} | {:.0} µs, {:.0} µs |",
            it.wall,
            it.processor,
            it.wall / first.wall,
            it.processor / first.processor,
            it.median,
            it.slow,
        );
    }
    Ok(())
}

/// What a turn took, in µs.
#[derive(Clone, Copy, Default)]
struct Taken {
    wall: f64,
    processor: f64,
    median: f64,
    slow: f64,
}

impl Taken {
    fn of(make: Make, jobs: usize, keys: usize, workers: usize, samples: usize) -> Result<Taken> {
        let counts: Arc<[AtomicU64]> = (0..keys).map(|_| AtomicU64::new(0)).collect();
        let runner = make(keys, workers)?;
        let (ran, usage) = measure(|| {
            for job in 0..jobs {
                let (key, counts) = (job % keys, Arc::clone(&counts));
                let count = move || {
                    // No other job of the key runs: it need not be one step.
                    let count = counts[key].load(Ordering::Relaxed);
                    counts[key].store(count + 1, Ordering::Relaxed);
                };
                runner.submit(key, Box::new(count))?;
            }
            runner.end()
        })?;
        ran?;
        let sum: u64 = counts.iter().map(|count| count.load(Ordering::Relaxed)).sum();
        ensure!(sum == jobs as u64, "{sum} of {jobs} jobs ran, or two of a key at once");

        let runner = make(keys.min(100), workers)?;
        let mut times = Vec::with_capacity(samples);
        let (send, receive) = channel();
        for sample in 0..samples {
            let send = send.clone();
            let begin = Instant::now();
            let job = move || {
                // An error: nothing waits any more.
                let _ = send.send(());
            };
            runner.submit(sample % keys.min(100), Box::new(job))?;
            receive.recv_timeout(BOUND)?;
            times.push(begin.elapsed().as_secs_f64() * 1e6);
        }
        runner.end()?;
        times.sort_unstable_by(f64::total_cmp);
        let at = |part: f64| {
            let at = (times.len() as f64 * part) as usize;
            times.get(at).copied().unwrap_or_default()
        };
        Ok(Taken {
            wall: usage.wall * 1e6 / jobs as f64,
            processor: (usage.user + usage.system) * 1e6 / jobs as f64,
            median: at(0.5),
            slow: at(0.99),
        })
    }

    fn median(turns: &[Taken]) -> Taken {
        let of = |value: fn(&Taken) -> f64| {
            let mut values: Vec<f64> = turns.iter().map(value).collect();
            values.sort_unstable_by(f64::total_cmp);
            values.get(values.len() / 2).copied().unwrap_or_default()
        };
        Taken {
            wall: of(|it| it.wall),
            processor: of(|it| it.processor),
            median: of(|it| it.median),
            slow: of(|it| it.slow),
        }
    }
}

/// The queue, where each job has a ticket, which is dropped.
struct InQueue(Queue<usize>);

impl InQueue {
    fn make(_: usize, workers: usize) -> Result<Box<dyn Runner>> {
        let workers = NonZeroUsize::new(workers).context("one thread at least")?;
        Ok(Box::new(InQueue(Queue::new(Config::new(workers))?)))
    }
}

impl Runner for InQueue {
    fn submit(&self, key: usize, job: Job) -> Result<()> {
        let submitted = self.0.submit(key, job);
        submitted.map(drop).map_err(|rejected| anyhow!("{rejected}"))
    }

    fn end(self: Box<Self>) -> Result<()> {
        ensure!(self.0.close_within(BOUND)?.is_empty(), "it did not end");
        Ok(())
    }
}

struct ThreadEach(Vec<(Sender<Job>, JoinHandle<()>)>);

impl ThreadEach {
    fn make(keys: usize, _: usize) -> Result<Box<dyn Runner>> {
        let start = |_| {
            let (send, receive) = channel::<Job>();
            let run = move || receive.iter().for_each(|job| job());
            let thread = thread::Builder::new().stack_size(STACK).spawn(run)?;
            Ok((send, thread))
        };
        Ok(Box::new(ThreadEach((0..keys).map(start).collect::<Result<_>>()?)))
    }
}

impl Runner for ThreadEach {
    fn submit(&self, key: usize, job: Job) -> Result<()> {
        let sent = self.0[key].0.send(job);
        sent.map_err(|_| anyhow!("the thread has ended"))
    }

    fn end(self: Box<Self>) -> Result<()> {
        let threads: Vec<_> = self.0.into_iter().map(|(_, thread)| thread).collect();
        join(threads)
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

impl MutexEach {
    fn make(keys: usize, workers: usize) -> Result<Box<dyn Runner>> {
        let lanes: Arc<[Mutex<()>]> = (0..keys).map(|_| Mutex::new(())).collect();
        let (send, receive) = channel::<(usize, Job)>();
        let receive = Arc::new(Mutex::new(receive));
        let start = |_| {
            let (lanes, receive) = (Arc::clone(&lanes), Arc::clone(&receive));
            thread::spawn(move || {
                while let Ok((key, job)) = next(&receive) {
                    let _turn = lock(&lanes[key]);
                    job();
                }
            })
        };
        let threads = (0..workers).map(start).collect();
        Ok(Box::new(MutexEach { send, threads }))
    }
}

fn next<T>(receive: &Mutex<Receiver<T>>) -> Result<T> {
    Ok(lock(receive).recv()?)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Runner for MutexEach {
    fn submit(&self, key: usize, job: Job) -> Result<()> {
        let sent = self.send.send((key, job));
        sent.map_err(|_| anyhow!("the pool has ended"))
    }

    fn end(self: Box<Self>) -> Result<()> {
        drop(self.send);
        join(self.threads)
    }
}

struct OnRayon {
    pool: rayon::ThreadPool,
    lanes: Arc<[Mutex<Lane>]>,
    /// Each job has one: it is received from when the last has run.
    open: (Sender<()>, Receiver<()>),
}

#[derive(Default)]
struct Lane {
    jobs: VecDeque<Job>,
    runs: bool,
}

impl OnRayon {
    fn make(keys: usize, workers: usize) -> Result<Box<dyn Runner>> {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(workers).build()?;
        let lanes = (0..keys).map(|_| Mutex::default()).collect();
        let open = channel();
        Ok(Box::new(OnRayon { pool, lanes, open }))
    }
}

/// Runs one job of a lane, and has the pool go on with it. The last one closes the channel.
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
        // An error: all senders are gone, those of the lanes with them.
        let ended = receive.recv_timeout(BOUND);
        ensure!(ended.is_err(), "something was sent");
        Ok(())
    }
}

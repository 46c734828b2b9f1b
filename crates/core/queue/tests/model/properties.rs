//! Properties that hold in every interleaving of the threads.

use std::num::NonZeroUsize;
use std::panic::resume_unwind;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use shuttle::scheduler::{PctScheduler, RandomScheduler, Scheduler};
use shuttle::thread;

use crate::{Config, Error, Outcome, Queue, Rejected, Ticket, sync};

/// The number of interleavings tried for each model.
const ORDERS: usize = 1_000;
/// A time limit that no wait of the model reaches.
const LONG: Duration = Duration::from_secs(36_000);

fn check(model: fn()) {
    run(RandomScheduler::new_from_seed(1, ORDERS / 2), model);
    run(PctScheduler::new_from_seed(1, 3, ORDERS / 2), model);
}

fn run(scheduler: impl Scheduler + 'static, model: fn()) {
    shuttle::Runner::new(scheduler, shuttle::Config::new()).run(move || {
        sync::reset();
        model();
    });
}

fn queue(workers: usize) -> Queue<u8> {
    Queue::new(Config::new(NonZeroUsize::new(workers).unwrap())).unwrap()
}

/// A log of the jobs, which checks that two of a key never overlap. Its locks come from the
/// standard library, so the checker does not switch threads at them.
#[derive(Clone, Default)]
struct Log {
    done: Arc<Mutex<Vec<(u8, u32)>>>,
    within: Arc<[AtomicBool; 4]>,
    overlaps: Arc<AtomicBool>,
}

impl Log {
    /// Returns a job of a key that any other thread can interrupt.
    fn job(&self, key: u8, number: u32) -> impl FnOnce() + Send + use<> {
        let log = self.clone();
        move || {
            let within = &log.within[usize::from(key)];
            let overlaps = within.swap(true, Ordering::Relaxed);
            log.overlaps.fetch_or(overlaps, Ordering::Relaxed);
            log.done.lock().unwrap().push((key, number));
            thread::yield_now();
            within.store(false, Ordering::Relaxed);
        }
    }

    fn of(&self, key: u8) -> Vec<u32> {
        assert!(!self.overlaps.load(Ordering::Relaxed), "two jobs of a key at once");
        let done = self.done.lock().unwrap();
        let of = done.iter().filter(|(of, _)| *of == key);
        of.map(|(_, number)| *number).collect()
    }
}

fn end(queue: &Queue<u8>) {
    assert!(queue.close_within(LONG).unwrap().is_empty());
}

fn done<T>(ticket: &Ticket<T>) -> T {
    ticket.wait(LONG).unwrap().done().unwrap()
}

#[test]
fn jobs_of_a_key_run_in_order_and_never_at_once() {
    check(|| {
        let (queue, log) = (queue(2), Log::default());
        let submitting: Vec<_> = [10, 20]
            .map(|from| {
                let (queue, log) = (queue.clone(), log.clone());
                thread::spawn(move || {
                    for number in from..from + 3 {
                        queue.submit(1, log.job(1, number)).unwrap();
                    }
                    queue.submit(2, log.job(2, from)).unwrap();
                })
            })
            .into();
        for submitting in submitting {
            submitting.join().unwrap();
        }
        end(&queue);
        let all = log.of(1);
        for from in [10, 20] {
            let of: Vec<_> = all.iter().copied().filter(|it| it / 10 == from / 10).collect();
            assert_eq!(of, [from, from + 1, from + 2]);
        }
        assert_eq!(log.of(2).len(), 2);
        assert_eq!(queue.stats().lanes, 0);
    });
}

#[test]
fn a_key_with_many_jobs_delays_another_by_one() {
    check(|| {
        let (queue, log) = (queue(1), Log::default());
        for number in 0..5 {
            queue.submit(1, log.job(1, number)).unwrap();
        }
        let seen = log.clone();
        let of_others = queue.submit(2, move || seen.of(1).len()).unwrap();
        // Only one of the jobs that had not begun may come before: its turn was there, or a worker
        // had taken it.
        let begun = log.of(1).len();
        let before = done(&of_others);
        assert!(before <= begun + 1, "{before} after {begun}");
        end(&queue);
    });
}

#[test]
fn a_panic_ends_its_ticket_and_neither_its_lane_nor_its_worker() {
    check(|| {
        let (queue, log) = (queue(1), Log::default());
        let first = queue.submit(1, || resume_unwind(Box::new("no"))).unwrap();
        let first: Ticket<()> = first;
        let second = queue.submit(1, log.job(1, 1)).unwrap();
        let other = queue.submit(2, log.job(2, 1)).unwrap();
        assert_eq!(first.wait(LONG).unwrap(), Outcome::Panicked("no".into()));
        done(&second);
        done(&other);
        // The lane was idle meanwhile.
        done(&queue.submit(1, log.job(1, 2)).unwrap());
        assert_eq!((log.of(1), log.of(2)), (vec![1, 2], vec![1]));
        end(&queue);
    });
}

#[test]
fn a_cancel_that_meets_the_start_is_true_or_the_job_runs() {
    check(|| {
        let (queue, log) = (queue(1), Log::default());
        let tickets = [1, 2, 3].map(|number| queue.submit(1, log.job(1, number)).unwrap());
        let cancelled = [0, 1, 2].map(|at| tickets[2 - at].cancel());
        let mut ran = Vec::new();
        for (number, ticket) in (1..).zip(&tickets) {
            match ticket.wait(LONG).unwrap() {
                Outcome::Done(()) => ran.push(number),
                outcome => assert_eq!(outcome, Outcome::Cancelled),
            }
        }
        assert_eq!(cancelled.iter().filter(|it| !**it).count(), ran.len());
        done(&queue.submit(1, log.job(1, 4)).unwrap());
        ran.push(4);
        assert_eq!(log.of(1), ran);
        end(&queue);
        let stats = queue.stats();
        assert_eq!((stats.executed + stats.removed, stats.lanes), (4, 0));
    });
}

#[test]
fn what_a_closing_queue_accepts_runs_once_and_what_it_refuses_is_returned() {
    check(|| {
        let (queue, log) = (queue(2), Log::default());
        let submitting: Vec<_> = [1, 2]
            .map(|key| {
                let (queue, log) = (queue.clone(), log.clone());
                thread::spawn(move || {
                    let mut accepted = Vec::new();
                    for number in 0..3 {
                        match queue.submit(key, log.job(key, number)) {
                            Ok(ticket) => accepted.push((number, ticket)),
                            Err(refused) => assert!(refused.is_closed()),
                        }
                    }
                    for (_, ticket) in &accepted {
                        done(ticket);
                    }
                    accepted.into_iter().map(|(number, _)| number).collect::<Vec<u32>>()
                })
            })
            .into();
        end(&queue);
        for (key, submitting) in (1..).zip(submitting) {
            assert_eq!(submitting.join().unwrap(), log.of(key));
        }
        assert!(matches!(queue.submit(1, || ()), Err(Rejected::Closed(_))));
    });
}

#[test]
fn a_delayed_job_and_the_end_of_a_queue_leave_no_ticket_open() {
    check(|| {
        let (queue, log) = (queue(1), Log::default());
        let submitting = {
            let (queue, log) = (queue.clone(), log.clone());
            thread::spawn(move || {
                let later = queue.submit_after(1, Duration::from_millis(4), log.job(1, 1));
                let never = queue.submit_after(1, LONG, log.job(1, 2));
                [later, never].map(|it| it.ok().map(|ticket| ticket.wait(LONG).unwrap()))
            })
        };
        queue.close();
        let [later, never] = submitting.join().unwrap();
        let ran = later == Some(Outcome::Done(()));
        assert_ne!(never, Some(Outcome::Done(())));
        end(&queue);
        assert_eq!(log.of(1).len(), usize::from(ran));
        assert_eq!(queue.stats().lanes, 0);
    });
}

#[test]
fn an_abort_leaves_no_ticket_open_and_no_job_begins_after_it_ended() {
    check(|| {
        let (queue, log) = (queue(2), Log::default());
        let submitting = {
            let (queue, log) = (queue.clone(), log.clone());
            thread::spawn(move || {
                let all = [1, 1, 2].map(|key| queue.submit(key, log.job(key, 0)).ok());
                all.map(|ticket| ticket.map(|it| it.wait(LONG).unwrap()))
            })
        };
        queue.submit_after(3, LONG, log.job(3, 0)).unwrap();
        queue.abort();
        let running = queue.stats().running;
        let begun = log.done.lock().unwrap().len();
        let outcomes = submitting.join().unwrap();
        let done = outcomes.iter().flatten().filter(|it| **it == Outcome::Done(()));
        let done = done.count();
        assert_eq!(done, log.done.lock().unwrap().len());
        // The jobs that a worker had taken by then.
        assert!(done <= begun + running, "{done} {begun} {running}");
        end(&queue);
        assert_eq!(queue.stats().lanes, 0);
    });
}

#[test]
fn a_queue_without_handles_runs_what_is_due_and_ends() {
    check(|| {
        let (queue, log) = (queue(2), Log::default());
        let tickets = [1, 1, 2].map(|key| queue.submit(key, log.job(key, 0)).unwrap());
        let delayed = queue.submit_after(1, LONG, log.job(3, 0)).unwrap();
        drop(queue);
        for ticket in &tickets {
            done(ticket);
        }
        assert_eq!(delayed.wait(LONG).unwrap(), Outcome::Cancelled);
    });
}

#[test]
fn each_event_is_followed_by_a_run_and_events_share_runs() {
    check(|| {
        let queue = queue(2);
        let (state, runs) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let seen = Arc::new(AtomicUsize::new(0));
        let reporting: Vec<_> = (0..2)
            .map(|_| {
                let queue = queue.clone();
                let (state, runs, seen) = (state.clone(), runs.clone(), seen.clone());
                thread::spawn(move || {
                    for _ in 0..3 {
                        state.fetch_add(1, Ordering::SeqCst);
                        let (state, runs, seen) = (state.clone(), runs.clone(), seen.clone());
                        let reconcile = move || {
                            runs.fetch_add(1, Ordering::SeqCst);
                            let now = state.load(Ordering::SeqCst);
                            thread::yield_now();
                            seen.store(now, Ordering::SeqCst);
                        };
                        queue.submit_once(1, "reconcile", reconcile).unwrap();
                        // One job runs, one waits.
                        let stats = queue.stats();
                        assert!(stats.longest_lane <= 2, "{stats:?}");
                    }
                })
            })
            .collect();
        for reporting in reporting {
            reporting.join().unwrap();
        }
        end(&queue);
        assert_eq!(seen.load(Ordering::SeqCst), 6);
        assert!((1..=6).contains(&runs.load(Ordering::SeqCst)));
    });
}

#[test]
fn delayed_jobs_run_at_their_time_while_workers_sleep_or_come_and_go() {
    check(|| {
        let (queue, log) = (queue(2), Log::default());
        let later = queue.submit_after(1, Duration::from_millis(60), log.job(1, 3)).unwrap();
        let sooner = queue.submit_after(1, Duration::from_millis(30), log.job(1, 2)).unwrap();
        let now = queue.submit(1, log.job(1, 1)).unwrap();
        let others = queue.submit(2, log.job(2, 1)).unwrap();
        for ticket in [&others, &now, &sooner, &later] {
            done(ticket);
        }
        let order = log.of(1);
        assert!(order.windows(2).all(|two| two[0] < two[1]) || order[0] != 1, "{order:?}");
        end(&queue);
    });
}

#[test]
fn of_lanes_that_wait_for_each_other_one_gets_an_error() {
    check(|| {
        let queue = queue(3);
        let (mut send, receive) = (Vec::new(), Arc::new(Mutex::new(Vec::new())));
        let mut first = Vec::new();
        for key in [1, 2] {
            let begin = Arc::new((sync::Mutex::new(None), sync::Condvar::new()));
            send.push(begin.clone());
            let received = receive.clone();
            let job = move || {
                let mut ticket = sync::lock(&begin.0);
                while ticket.is_none() {
                    ticket = sync::wait(&begin.1, ticket);
                }
                let ticket: Ticket<()> = ticket.take().unwrap();
                let waited = ticket.wait(LONG);
                received.lock().unwrap().push(waited);
            };
            first.push(queue.submit(key, job).unwrap());
        }
        // Each job waits for the second job of the other key.
        for (begin, key) in send.iter().zip([2, 1]) {
            *sync::lock(&begin.0) = Some(queue.submit(key, || ()).unwrap());
            begin.1.notify_all();
        }
        for ticket in &first {
            done(ticket);
        }
        let results = receive.lock().unwrap();
        let errors: Vec<_> = results.iter().filter_map(|it| it.as_ref().err()).collect();
        assert!(errors.len() <= 1, "{results:?}");
        assert!(errors.iter().all(|it| matches!(it, Error::Deadlock)));
        drop(results);
        end(&queue);
    });
}

#[test]
fn a_task_that_waits_for_a_ticket_is_woken() {
    check(|| {
        let (queue, log) = (queue(1), Log::default());
        let first = queue.submit(1, log.job(1, 1)).unwrap();
        let second = queue.submit(1, log.job(1, 2)).unwrap();
        let cancelling = {
            let third = queue.submit(1, log.job(1, 3)).unwrap();
            thread::spawn(move || third.cancel())
        };
        shuttle::future::block_on(async {
            assert_eq!(first.await.unwrap(), Outcome::Done(()));
            assert_eq!(second.await.unwrap(), Outcome::Done(()));
        });
        cancelling.join().unwrap();
        end(&queue);
    });
}

#[test]
fn a_limit_holds_and_gives_way() {
    check(|| {
        let config = Config::new(NonZeroUsize::new(1).unwrap()).with_limit(2);
        let queue = Queue::<u8>::new(config).unwrap();
        let log = Log::default();
        let submitting: Vec<_> = [1, 2]
            .map(|key| {
                let (queue, log) = (queue.clone(), log.clone());
                thread::spawn(move || {
                    for number in 0..3 {
                        let mut job = log.job(key, number);
                        while let Err(rejected) = queue.submit(key, job) {
                            assert!(rejected.is_full());
                            job = rejected.into_job();
                            thread::yield_now();
                        }
                    }
                })
            })
            .into();
        for submitting in submitting {
            submitting.join().unwrap();
        }
        end(&queue);
        assert_eq!((log.of(1), log.of(2)), (vec![0, 1, 2], vec![0, 1, 2]));
    });
}

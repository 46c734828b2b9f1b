//! The queue and a simple model of it get the same calls, and must do the same.

use std::collections::BTreeMap;

use proptest::prelude::*;
use trueup_queue::{Queue, Ticket};

use crate::support::*;

const TAGS: [&str; 2] = ["one", "two"];

#[derive(Clone, Debug)]
enum Call {
    Submit(u8),
    SubmitAfter(u8),
    SubmitOnce(u8, usize),
    SubmitOnceAfter(u8, usize),
    Cancel(usize),
}

fn call() -> impl Strategy<Value = Call> {
    let key = 0..3u8;
    prop_oneof![
        4 => key.clone().prop_map(Call::Submit),
        1 => key.clone().prop_map(Call::SubmitAfter),
        2 => (key.clone(), 0..2usize).prop_map(|(key, tag)| Call::SubmitOnce(key, tag)),
        1 => (key, 0..2usize).prop_map(|(key, tag)| Call::SubmitOnceAfter(key, tag)),
        2 => (0..40usize).prop_map(Call::Cancel),
    ]
}

/// A job of the model.
#[derive(Clone, Debug)]
struct Job {
    number: u32,
    tag: Option<usize>,
    delayed: bool,
    cancelled: bool,
}

#[derive(Default)]
struct Model {
    /// Each key's jobs in the order in which they are due. The first due one has the turn.
    lanes: BTreeMap<u8, Vec<Job>>,
}

const LANE_LIMIT: usize = 5;
const LIMIT: usize = 9;

impl Model {
    fn waiting(&self) -> usize {
        self.lanes.values().flatten().filter(|job| !job.cancelled).count()
    }

    /// Returns true if the job is queued, false if it is coalesced; `None` if it is refused.
    fn submit(&mut self, key: u8, number: u32, tag: Option<usize>, delayed: bool) -> Option<bool> {
        let all = self.waiting();
        let lane = self.lanes.entry(key).or_default();
        let found = lane.iter().position(|it| tag.is_some() && it.tag == tag && !it.cancelled);
        if let Some(at) = found {
            if lane[at].delayed && !delayed {
                let mut job = lane.remove(at);
                job.delayed = false;
                lane.push(job);
            }
            return Some(false);
        }
        // A cancel does not lose the lane's turn.
        let turn = lane.iter().position(|it| !it.delayed);
        let behind = lane.iter().enumerate().filter(|(at, it)| Some(*at) != turn && !it.cancelled);
        let waits = turn.is_some() || delayed;
        if waits && behind.count() >= LANE_LIMIT || all >= LIMIT {
            return None;
        }
        let cancelled = false;
        lane.push(Job { number, tag, delayed, cancelled });
        Some(true)
    }

    fn cancel(&mut self, number: u32) -> bool {
        let mut jobs = self.lanes.values_mut().flatten();
        let found = jobs.find(|job| job.number == number && !job.cancelled);
        found.is_some_and(|job| {
            job.cancelled = true;
            true
        })
    }

    fn runs(&self, key: u8) -> Vec<u32> {
        let lane = self.lanes.get(&key).into_iter().flatten();
        lane.filter(|job| !job.delayed && !job.cancelled).map(|job| job.number).collect()
    }
}

proptest! {
    #[test]
    fn calls_do_what_the_model_says(
        calls in proptest::collection::vec(call(), 0..40),
        workers in 1..3usize,
    ) {
        let config = config(workers).with_limit(LIMIT).with_lane_limit(LANE_LIMIT);
        let queue = Queue::<u8>::new(config).unwrap();
        let held: Vec<_> = (0..workers).map(|at| hold(&queue, 100 + at as u8)).collect();
        let mut model = Model::default();
        let logs = [(); 3].map(|()| Log::default());
        let mut tickets: BTreeMap<u32, Ticket<()>> = BTreeMap::new();
        for (number, call) in (0..).zip(calls) {
            let job = |key: u8| logs[usize::from(key)].job(number);
            let once = |tag: usize| (Some(tag), TAGS[tag]);
            let (expected, submitted) = match call {
                Call::Cancel(which) => {
                    let which = which as u32;
                    let cancelled = tickets.get(&which).is_some_and(Ticket::cancel);
                    prop_assert_eq!(cancelled, model.cancel(which));
                    continue;
                }
                Call::Submit(key) => {
                    (model.submit(key, number, None, false), queue.submit(key, job(key)).map(Some))
                }
                Call::SubmitAfter(key) => {
                    let submitted = queue.submit_after(key, NEVER, job(key)).map(Some);
                    (model.submit(key, number, None, true), submitted)
                }
                Call::SubmitOnce(key, tag) => {
                    let (model_tag, tag) = once(tag);
                    let expected = model.submit(key, number, model_tag, false);
                    (expected, queue.submit_once(key, tag, job(key)))
                }
                Call::SubmitOnceAfter(key, tag) => {
                    let (model_tag, tag) = once(tag);
                    let expected = model.submit(key, number, model_tag, true);
                    (expected, queue.submit_once_after(key, tag, NEVER, job(key)))
                }
            };
            let is_queued = submitted.as_ref().ok().map(Option::is_some);
            prop_assert_eq!(is_queued, expected);
            if let Ok(Some(ticket)) = submitted {
                tickets.insert(number, ticket);
            }
            let stats = queue.stats();
            prop_assert_eq!(stats.depth + stats.delayed, model.waiting());
        }
        drop(held);
        let unfinished = queue.close_within(LONG).unwrap();
        prop_assert_eq!(unfinished.running, 0);
        let mut given_back = 0;
        for (key, jobs) in unfinished.unrun {
            let delayed = model.lanes[&key].iter().filter(|job| job.delayed && !job.cancelled);
            prop_assert_eq!(jobs.len(), delayed.count());
            given_back += jobs.len();
        }
        for (key, log) in (0..).zip(&logs) {
            prop_assert_eq!(log.all(), model.runs(key));
        }
        let ran: usize = logs.iter().map(|log| log.all().len()).sum();
        prop_assert_eq!(ran + given_back, model.waiting());
    }
}

//! Objects that another writer removes or rewrites repeatedly. They are restored with growing
//! delays.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use trueup_net::{Hold, Object};

use crate::Options;
use crate::key::{ObjectId, digest};

/// The first and the longest delay before restoring a contended object. It doubles each time.
const FIRST_DELAY: Duration = Duration::from_secs(1);
const LAST_DELAY: Duration = Duration::from_secs(60);
/// The number of objects tracked at a time. Others are restored without a count.
const MAX_OBJECTS: usize = 1 << 16;

/// Losses, by object.
#[derive(Clone, Debug, Default)]
pub(super) struct Contention {
    objects: HashMap<ObjectId, Losses>,
}

#[derive(Clone, Debug)]
struct Losses {
    /// A digest of the desired object. A new digest starts a new count, since a changed object is
    /// not lost.
    desired: u64,
    /// The times of the losses within the window.
    times: VecDeque<Instant>,
    last: Instant,
    /// The number of delays so far.
    delays: u32,
    until: Instant,
    /// The protocol that the other writer gave the object, if observed.
    by: Option<u8>,
}

impl Losses {
    fn none(desired: &Object, now: Instant) -> Losses {
        Losses {
            desired: digest(desired),
            times: VecDeque::new(),
            last: now,
            delays: 0,
            until: now,
            by: None,
        }
    }
}

impl Contention {
    pub(super) fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Counts the loss of an object.
    pub(super) fn add_loss(
        &mut self,
        id: ObjectId,
        desired: &Object,
        by: Option<u8>,
        options: &Options,
        now: Instant,
    ) {
        if self.objects.len() >= MAX_OBJECTS && !self.objects.contains_key(&id) {
            return;
        }
        let (times, window) = options.contention();
        let none = Losses::none(desired, now);
        let losses = self.objects.entry(id).or_insert_with(|| none.clone());
        if losses.desired != none.desired {
            *losses = none;
            return;
        }
        losses.last = now;
        losses.by = by.or(losses.by);
        losses.times.push_back(now);
        while let Some(first) = losses.times.front()
            && now.duration_since(*first) > window
        {
            losses.times.pop_front();
        }
        if losses.delays > 0 || losses.times.len() >= times as usize {
            let delay = FIRST_DELAY.saturating_mul(1 << losses.delays.min(16));
            losses.delays += 1;
            losses.until = now + delay.min(LAST_DELAY);
        }
    }

    /// Cancels the loss, counted at `now`, of an object that existed all the time.
    pub(super) fn cancel_loss(&mut self, id: ObjectId, now: Instant) {
        if let Some(losses) = self.objects.get_mut(&id)
            && losses.times.back() == Some(&now)
        {
            losses.times.pop_back();
        }
    }

    /// Returns the hold of an object that may not be restored yet.
    pub(super) fn hold(&self, id: ObjectId, now: Instant) -> Option<Hold> {
        let losses = self.objects.get(&id)?;
        let left = losses.until.saturating_duration_since(now);
        (!left.is_zero()).then_some(Hold::Contention {
            times: losses.times.len() as u32,
            by: losses.by,
            left,
        })
    }

    /// Removes the objects without a loss for a while.
    pub(super) fn expire(&mut self, options: &Options, now: Instant) {
        let (_, window) = options.contention();
        self.objects.retain(|_, losses| {
            now.saturating_duration_since(losses.until.max(losses.last)) <= window
        });
    }
}

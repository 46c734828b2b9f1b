//! The lanes of a part of the keys.

use std::collections::HashMap;
use std::collections::hash_map::Entry as Place;
use std::hash::{BuildHasherDefault, Hasher};
use std::mem;

use crate::capacity::{Capacity, is_too_large};
use crate::lane::{Lane, LaneId};

/// A part of the keys' lanes.
pub(crate) struct Shard<K> {
    /// By the key's hash. A key's `Eq` is called when a job is submitted, never by a worker.
    lanes: HashMap<u64, Lane<K>, BuildHasherDefault<Identity>>,
    /// Lanes of keys whose hash another key had first.
    collided: Vec<Lane<K>>,
    capacity: Capacity,
    lane_numbers: u64,
    job_numbers: u64,
}

/// A hasher that returns the hash unchanged.
#[derive(Default)]
struct Identity(u64);

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

impl<K> Shard<K> {
    pub(crate) fn new() -> Self {
        Shard {
            lanes: HashMap::default(),
            collided: Vec::new(),
            capacity: Capacity::default(),
            lane_numbers: 0,
            job_numbers: 0,
        }
    }

    /// Returns the next job's number.
    pub(crate) fn next_number(&mut self) -> u64 {
        self.job_numbers += 1;
        self.job_numbers
    }

    /// Returns a key's lane, and creates it if there is none.
    pub(crate) fn lane(&mut self, hash: u64, key: K) -> (&mut Lane<K>, Option<K>)
    where
        K: Eq,
    {
        if let Some(at) = self.collided.iter().position(|it| it.is_of(hash, &key)) {
            return (&mut self.collided[at], Some(key));
        }
        let number = self.lane_numbers + 1;
        let id = LaneId { hash, number };
        match self.lanes.entry(hash) {
            Place::Occupied(place) if place.get().is_of(hash, &key) => {
                (place.into_mut(), Some(key))
            }
            Place::Vacant(place) => {
                self.lane_numbers = number;
                (place.insert(Lane::new(key, id)), None)
            }
            Place::Occupied(_) => {
                self.lane_numbers = number;
                let at = self.collided.len();
                self.collided.push(Lane::new(key, id));
                (&mut self.collided[at], None)
            }
        }
    }

    pub(crate) fn get(&mut self, id: LaneId) -> Option<&mut Lane<K>> {
        match self.lanes.get_mut(&id.hash) {
            Some(lane) if lane.id == id => Some(lane),
            _ => self.collided.iter_mut().find(|lane| lane.id == id),
        }
    }

    /// Removes a lane, and frees its memory.
    pub(crate) fn remove(&mut self, id: LaneId) -> Option<Lane<K>> {
        if let Some(at) = self.collided.iter().position(|lane| lane.id == id) {
            return Some(self.collided.swap_remove(at));
        }
        self.lanes.get(&id.hash).filter(|lane| lane.id == id)?;
        let removed = self.lanes.remove(&id.hash);
        let (len, capacity) = (self.lanes.len(), self.lanes.capacity());
        if self.capacity.is_unused(len, capacity) {
            self.lanes.shrink_to(len * 2);
        }
        removed
    }

    /// True if the memory of removed lanes is kept.
    pub(crate) fn has_unused(&self) -> bool {
        is_too_large(self.lanes.len(), self.lanes.capacity())
    }

    /// Frees the memory of removed lanes.
    pub(crate) fn free_unused(&mut self) {
        if self.has_unused() {
            self.lanes.shrink_to(self.lanes.len() * 2);
        }
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Lane<K>> {
        self.lanes.values().chain(&self.collided)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = &mut Lane<K>> {
        self.lanes.values_mut().chain(&mut self.collided)
    }

    /// Takes all lanes.
    pub(crate) fn drain(&mut self) -> Vec<Lane<K>> {
        let lanes = mem::take(&mut self.lanes).into_values();
        lanes.chain(mem::take(&mut self.collided)).collect()
    }
}

//! Vertices that run together.
//!
//! A group gathers its vertices that wait only for a worker, and one of them stands in the queue of
//! workers for all. When its turn comes, all of them begin on one worker, which is free again when
//! the last one has ended. Vertices that become ready meanwhile wait for this, and then begin
//! together. Apart from this, each is an ordinary vertex with its own run.

use std::collections::BTreeMap;
use std::time::Instant;

use super::runs::Call;
use super::{Action, RunId, State};

#[derive(Clone, Debug, Default)]
pub(crate) struct Group {
    /// Vertices that wait only for a worker, by ticket.
    pub(crate) waiting: BTreeMap<u64, u32>,
    /// The ticket of the vertex that stands in the queue of workers.
    offered: Option<u64>,
    pub(crate) running: usize,
}

impl State {
    /// Makes a vertex that holds its semaphores wait for a worker.
    pub(super) fn wait_for_worker(&mut self, ticket: u64, vertex: u32) {
        match self.graph.groups.of(vertex) {
            None => {
                self.ready.insert(ticket, vertex);
            }
            Some(group) => {
                self.groups[group].waiting.insert(ticket, vertex);
                self.offer(group);
            }
        }
    }

    /// Takes a vertex out of the queue of workers.
    pub(super) fn leave_workers(&mut self, ticket: u64, vertex: u32) {
        self.ready.remove(&ticket);
        if let Some(at) = self.graph.groups.of(vertex) {
            let group = &mut self.groups[at];
            group.waiting.remove(&ticket);
            group.offered = group.offered.filter(|it| *it != ticket);
            self.offer(at);
        }
    }

    fn offer(&mut self, group: usize) {
        let group = &mut self.groups[group];
        if group.running == 0
            && group.offered.is_none()
            && let Some((&ticket, &vertex)) = group.waiting.first_key_value()
        {
            group.offered = Some(ticket);
            self.ready.insert(ticket, vertex);
        }
    }

    /// Begins the run of a vertex that was taken out of the queue, and the runs of its group.
    pub(super) fn start_together(&mut self, now: Instant, vertex: u32) -> Option<Action> {
        let mut calls = Vec::new();
        match self.graph.groups.of(vertex) {
            None => calls.extend(self.start(now, vertex)),
            Some(group) => {
                self.groups[group].offered = None;
                let members = std::mem::take(&mut self.groups[group].waiting);
                calls.extend(members.into_values().filter_map(|it| self.start(now, it)));
            }
        }
        Action::of_runs(calls)
    }

    /// Begins to apply, together with the group's other runs that may apply.
    pub(super) fn apply_together(&mut self, now: Instant, id: RunId) -> Option<Action> {
        let mut ids = vec![id];
        if let Some(own) = self.group_of(id) {
            let all = std::mem::take(&mut self.to_apply).into_iter();
            let (with, others): (Vec<_>, Vec<_>) =
                all.partition(|&it| self.group_of(it) == Some(own));
            self.to_apply = others.into();
            ids.extend(with);
            ids.sort_unstable();
        }
        let calls: Vec<Call> = ids.into_iter().filter_map(|it| self.apply(now, it)).collect();
        Action::of_runs(calls)
    }

    fn group_of(&self, run: RunId) -> Option<usize> {
        self.runs[self.place(run)?].group
    }

    /// Takes a worker for a run, unless its group has one. Returns the group; `None` without one.
    pub(super) fn take_worker(&mut self, vertex: u32) -> Option<usize> {
        let group = self.graph.groups.of(vertex);
        let is_first = group.is_none_or(|it| self.groups[it].running == 0);
        self.busy += usize::from(is_first);
        if let Some(group) = group {
            self.groups[group].running += 1;
        }
        group
    }

    /// Frees the worker of a run that ended, unless its group still runs.
    pub(super) fn release_worker(&mut self, group: Option<usize>) {
        if let Some(group) = group {
            self.groups[group].running -= 1;
            self.offer(group);
        }
        let is_last = group.is_none_or(|it| self.groups[it].running == 0);
        self.busy -= usize::from(is_last);
    }

    /// Counts the runs of each group in a new graph.
    pub(super) fn regroup(&mut self) {
        self.groups = vec![Group::default(); self.graph.groups.count];
        self.busy = 0;
        for index in 0..self.runs.len() {
            self.runs[index].group = self.take_worker(self.runs[index].vertex);
        }
    }

    /// Returns the running vertices of a vertex's group.
    pub(super) fn running_members(&self, vertex: u32) -> Vec<u32> {
        let Some(group) = self.graph.groups.of(vertex) else {
            return Vec::new();
        };
        let runs = self.runs.iter().filter(|run| run.group == Some(group));
        runs.map(|run| run.vertex).collect()
    }
}

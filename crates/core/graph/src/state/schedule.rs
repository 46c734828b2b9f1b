//! Decides which vertices are dirty, and which of them may run.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::{Cause, RunId, State};
use crate::ports::Sends;
use crate::{EdgeKind, Graph, VertexId};

/// The driver's inputs.
impl State {
    /// Ends a run that a pause or the driver's end interrupted: it begins anew later, and does not
    /// count as a failure.
    pub(crate) fn handle_interrupted(&mut self, now: Instant, run: RunId) {
        if let Some(at) = self.called(run) {
            self.doubt(at);
            self.give_up(now, run);
        }
    }

    /// Notes that a vertex's watch failed or ended. The vertex runs once it is watched again; the
    /// next attempt comes after `delay`.
    pub(crate) fn handle_unwatched(&mut self, now: Instant, vertex: VertexId, delay: Duration) {
        let at = vertex.0;
        if at as usize >= self.graph.own {
            return;
        }
        self.slots[at as usize].watched = false;
        self.mark_dirty(at, Cause::Unwatched);
        self.dequeue(at);
        self.set_timer(at, now.checked_add(delay));
        self.update_held(now, at);
    }
}

impl State {
    /// Makes a vertex run because of something new: a vertex that failed for good is tried again.
    pub(crate) fn look_again(&mut self, now: Instant, vertex: u32, cause: Cause) {
        self.renew(now, vertex);
        self.mark_dirty(vertex, cause);
        self.enqueue(now, vertex);
    }

    /// Makes a vertex that failed for good try again once it may run, because something is new to
    /// it.
    pub(crate) fn renew(&mut self, now: Instant, vertex: u32) {
        let slot = &mut self.slots[vertex as usize];
        if slot.halted {
            (slot.halted, slot.attempts) = (false, 0);
            // Its poll, if it has one, starts anew with its next run.
            self.set_timer(vertex, None);
            self.update_held(now, vertex);
        }
    }

    /// Notes that a vertex succeeded which is about to run again. This is new to its children, even
    /// if the vertex leaves before that run.
    pub(crate) fn renew_children(&mut self, now: Instant, vertex: u32) {
        for index in 0..self.graph.children.of(vertex).len() {
            let item = self.graph.children.of(vertex)[index];
            if EdgeKind::leads(item) {
                self.renew(now, EdgeKind::child(item));
            }
        }
    }

    /// Makes a vertex dirty, and all its descendants by edges that lead. The descendants of an
    /// unsettled vertex are dirty already.
    pub(crate) fn mark_dirty(&mut self, vertex: u32, cause: Cause) {
        let mut stack = vec![(vertex, cause)];
        while let Some((at, cause)) = stack.pop() {
            let slot = &mut self.slots[at as usize];
            if slot.dirty || slot.gone {
                continue;
            }
            slot.dirty = true;
            slot.cause = cause;
            if slot.running {
                continue;
            }
            slot.settled_since = None;
            self.unsettled += 1;
            self.quiet_since = None;
            self.set_timer(at, None);
            for index in 0..self.graph.children.of(at).len() {
                let item = self.graph.children.of(at)[index];
                let child = EdgeKind::child(item);
                self.slots[child as usize].blocked += 1;
                self.dequeue(child);
                if EdgeKind::leads(item) {
                    stack.push((child, Cause::Parent(VertexId(at))));
                }
            }
        }
    }

    /// Notes that a vertex has run and is no longer dirty: its children may run.
    pub(crate) fn settle(&mut self, now: Instant, vertex: u32) {
        self.unsettled -= 1;
        if self.unsettled == 0 {
            self.quiet_since = Some(now);
        }
        self.slots[vertex as usize].settled_since = Some(self.moment(now));
        if let Some(interval) = self.poll(vertex) {
            self.set_timer(vertex, now.checked_add(interval));
        }
        for index in 0..self.graph.children.of(vertex).len() {
            let item = self.graph.children.of(vertex)[index];
            let child = EdgeKind::child(item);
            self.slots[child as usize].blocked -= 1;
            if EdgeKind::leads(item) {
                self.renew(now, child);
            }
            self.enqueue(now, child);
        }
    }

    /// Puts a vertex in a queue if nothing else keeps it from running, or sets its timer.
    pub(crate) fn enqueue(&mut self, now: Instant, vertex: u32) {
        self.update_held(now, vertex);
        let slot = &self.slots[vertex as usize];
        let may_run = slot.dirty && !slot.running && !slot.halted && slot.watched && !slot.gone;
        let is_waiting = slot.blocked > 0 || slot.ticket > 0;
        if !may_run || is_waiting || self.missing_values(vertex).next().is_some() {
            return;
        }
        let time = slot
            .not_before()
            .into_iter()
            .chain(self.next_token(vertex))
            .max()
            .filter(|at| *at > now);
        self.set_timer(vertex, time);
        if time.is_some() {
            return;
        }
        self.last_ticket += 1;
        let ticket = self.last_ticket;
        self.slots[vertex as usize].ticket = ticket;
        let semaphores = self.graph.holds.of(vertex);
        if semaphores.is_empty() {
            self.wait_for_worker(ticket, vertex);
        } else {
            self.semaphores.wait(semaphores, ticket, vertex);
            self.grant(semaphores.to_vec());
        }
    }

    /// Takes a vertex out of its queue, and releases the semaphores granted to it.
    pub(crate) fn dequeue(&mut self, vertex: u32) {
        let slot = &mut self.slots[vertex as usize];
        let ticket = std::mem::take(&mut slot.ticket);
        if ticket == 0 {
            return;
        }
        let granted = std::mem::take(&mut slot.granted);
        self.leave_workers(ticket, vertex);
        let semaphores = self.graph.holds.of(vertex);
        if granted {
            self.semaphores.release(semaphores);
        } else {
            self.semaphores.cancel(semaphores, ticket);
        }
        self.grant(semaphores.to_vec());
    }

    /// Grants semaphores to the waiters whose turn it is.
    pub(crate) fn grant(&mut self, mut changed: Vec<u32>) {
        while let Some(id) = changed.pop() {
            while let Some((ticket, vertex)) = self.semaphores.next(id) {
                let semaphores = self.graph.holds.of(vertex);
                if !self.semaphores.take(semaphores, ticket) {
                    break;
                }
                self.slots[vertex as usize].granted = true;
                // Other waiters are now first in its other queues.
                changed.extend(semaphores);
                self.wait_for_worker(ticket, vertex);
            }
        }
    }

    /// Returns when a vertex's rate allows a run; `None` if it has no rate.
    pub(crate) fn next_token(&self, vertex: u32) -> Option<Instant> {
        let (every, burst) = self.graph.vertices[vertex as usize].rare().rate?;
        let full_at = self.full_at.get(&vertex)?;
        full_at.checked_sub(every.saturating_mul(burst - 1))
    }

    /// Takes a token, if the vertex has a rate.
    pub(crate) fn take_token(&mut self, now: Instant, vertex: u32) {
        if let Some((every, _)) = self.graph.vertices[vertex as usize].rare().rate {
            let before = self.full_at.get(&vertex).map_or(now, |at| now.max(*at));
            self.full_at.insert(vertex, before.checked_add(every).unwrap_or(before));
        }
    }

    /// Returns a vertex's poll interval; `None` if it does not poll, as for a reversal.
    pub(crate) fn poll(&self, vertex: u32) -> Option<Duration> {
        let poll = self.graph.vertices[vertex as usize].rare().poll;
        poll.filter(|_| (vertex as usize) < self.graph.own)
    }

    pub(crate) fn set_timer(&mut self, vertex: u32, at: Option<Instant>) {
        if let Some(before) = self.slots[vertex as usize].replace_timer(at) {
            self.timers.remove(&(before, vertex));
        }
        self.timers.extend(at.map(|at| (at, vertex)));
    }

    pub(crate) fn fire_timers(&mut self, now: Instant) {
        while let Some(&(at, vertex)) = self.timers.first()
            && at <= now
        {
            self.set_timer(vertex, None);
            self.look_at_time(now, vertex);
        }
    }

    /// Handles a vertex's timer.
    fn look_at_time(&mut self, now: Instant, vertex: u32) {
        self.update_held(now, vertex);
        if !self.slots[vertex as usize].watched {
            self.to_watch.insert(vertex);
            return;
        }
        let slot = &mut self.slots[vertex as usize];
        if std::mem::take(&mut slot.halted) {
            // Its failures still count: one run at each poll, without retries.
            slot.cause = Cause::Poll;
        }
        self.mark_dirty(vertex, Cause::Poll);
        self.enqueue(now, vertex);
    }

    /// Recounts the unsettled vertices of a new graph, and queues those that may run.
    pub(crate) fn count(&mut self, now: Instant) {
        let graph = Arc::clone(&self.graph);
        self.unsettled = 0;
        self.slots.iter_mut().for_each(|slot| slot.blocked = 0);
        for &at in &graph.order {
            self.set_held(now, at);
            let slot = &mut self.slots[at as usize];
            if !slot.is_unsettled() {
                continue;
            }
            self.unsettled += 1;
            slot.settled_since = None;
            let held = slot.held;
            for &item in graph.children.of(at) {
                let child = &mut self.slots[EdgeKind::child(item) as usize];
                let leads = EdgeKind::leads(item);
                child.blocked += u32::from(leads || !held);
                if !child.dirty && !child.gone && leads {
                    child.dirty = true;
                    child.cause = Cause::Parent(VertexId(at));
                }
            }
        }
        self.quiet_since = match self.unsettled {
            0 => self.quiet_since.or(Some(now)),
            _ => None,
        };
        graph.order.iter().for_each(|&at| self.enqueue(now, at));
    }

    /// Requests a new vertex's watch, if it has one.
    pub(crate) fn watch(&mut self, vertex: u32) {
        let is_watched = self.graph.vertices[vertex as usize].watched;
        let is_reversal = vertex as usize >= self.graph.own;
        if is_watched && !is_reversal {
            self.to_watch.insert(vertex);
        } else {
            self.slots[vertex as usize].watched = true;
        }
    }

    /// Gives a new vertex its name's record from the journal.
    pub(crate) fn adopt_record(&mut self, vertex: u32) {
        if let Some(record) = self.unknown.remove(self.graph.name(vertex)) {
            self.slots[vertex as usize].pending = record.refreshes;
        }
    }
}

impl State {
    /// True if a parent of this item keeps its child from running.
    pub(super) fn blocks(&self, item: u32) -> bool {
        let parent = &self.slots[EdgeKind::parent(item) as usize];
        parent.is_unsettled() && (EdgeKind::is_needed(item) || !parent.held)
    }

    fn is_held(&self, now: Instant, vertex: u32) -> bool {
        let slot = &self.slots[vertex as usize];
        if !slot.dirty || slot.running || slot.gone {
            return false;
        }
        let is_retried = slot.not_before().is_some_and(|at| at > now);
        let is_watched_again = !slot.watched && slot.timer().is_some();
        slot.halted
            || is_retried
            || is_watched_again
            || self.graph.needed(vertex).any(|it| self.slots[it as usize].held)
    }

    /// Updates the flag for a held vertex. True if it changed.
    pub(super) fn set_held(&mut self, now: Instant, vertex: u32) -> bool {
        if !self.graph.has_tried {
            return false;
        }
        let held = self.is_held(now, vertex);
        std::mem::replace(&mut self.slots[vertex as usize].held, held) != held
    }

    /// Updates the flags of a vertex and the vertices that need it. Children by order only
    /// continue, or wait, accordingly.
    pub(super) fn update_held(&mut self, now: Instant, vertex: u32) {
        let (mut stack, mut freed) = (Vec::new(), Vec::new());
        let mut next = Some(vertex);
        while let Some(at) = next {
            let children =
                if self.set_held(now, at) { self.graph.children.of(at).len() } else { 0 };
            for index in 0..children {
                let item = self.graph.children.of(at)[index];
                let child = EdgeKind::child(item);
                match (EdgeKind::of(item), self.slots[at as usize].held) {
                    (EdgeKind::AfterTried, true) => {
                        self.slots[child as usize].blocked -= 1;
                        freed.push(child);
                    }
                    (EdgeKind::AfterTried, false) => {
                        self.slots[child as usize].blocked += 1;
                        self.dequeue(child);
                    }
                    _ => stack.push(child),
                }
            }
            next = stack.pop();
        }
        freed.into_iter().for_each(|it| self.enqueue(now, it));
    }
}

/// The driver's inputs and questions.
impl State {
    /// Notes that a run has sent a value by a port: its receivers may run once the vertex is
    /// settled. Must come before the run's [result](Self::handle_done). Returns the sender's name;
    /// `None` if the vertex does not declare the port, or has left or changed. In that case the
    /// caller drops the value.
    pub(crate) fn handle_sent(&mut self, run: RunId, port: &str) -> Option<Arc<str>> {
        let run = &self.runs[self.place(run)?];
        if run.stale || run.vertex as usize >= self.graph.own {
            return None;
        }
        let name = self.graph.name(run.vertex).clone();
        let port = sends(&self.graph, &name, port)?.port.clone();
        self.values.insert((name.clone(), port));
        Some(name)
    }
}

impl State {
    /// Returns the sender and port of each value that a vertex still lacks.
    pub(crate) fn missing_values(
        &self,
        vertex: u32,
    ) -> impl Iterator<Item = &(Arc<str>, Arc<str>)> {
        let is_own = (vertex as usize) < self.graph.own;
        let receives = self.graph.vertices[vertex as usize].rare().receives.iter();
        let all = receives.filter(move |_| is_own).flat_map(|it| &it.from);
        all.filter(|it| !self.values.contains(*it))
    }

    /// Forgets the values of ports that a new graph does not have.
    pub(crate) fn keep_values(&mut self, graph: &Graph) {
        let old = &self.graph;
        self.values.retain(|(name, port)| {
            let sent = sends(graph, name, port);
            sent.is_some() && sent == sends(old, name, port)
        });
    }
}

fn sends<'a>(graph: &'a Graph, sender: &str, port: &str) -> Option<&'a Sends> {
    let VertexId(at) = graph.find(sender)?;
    let ports = &graph.vertices[at as usize].rare().sends;
    ports.iter().find(|it| *it.port == *port)
}

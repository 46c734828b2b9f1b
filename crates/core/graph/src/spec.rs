//! What is declared of a vertex.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use trueup_reconcile::ErrorClass;

use crate::ports::{Merge, PortType, Receives, Sends};
use crate::{EdgeKind, Records};

/// The declaration of a [`Vertex`](crate::Vertex): its name, its settings, and what it runs after.
///
/// When a graph is replaced, a vertex of the same name and settings goes on undisturbed. Edges are
/// no settings: to run a vertex again, change its [revision](Self::with_revision).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VertexSpec {
    pub(crate) name: Arc<str>,
    pub(crate) revision: u64,
    pub(crate) watched: bool,
    pub(crate) noop: bool,
    pub(crate) records: Records,
    /// It says what it will change before it does.
    pub(crate) announces: bool,
    pub(crate) retries: u32,
    pub(crate) delay: Duration,
    /// `None`: the vertex has nothing of it.
    rare: Option<Box<Rare>>,
    /// What is turned into edges, and `None` in a graph.
    pub(crate) links: Option<Box<Links>>,
}

/// Settings that few vertices have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rare {
    pub(crate) poll: Option<Duration>,
    /// Retries and delay of single classes.
    pub(crate) class_retries: Vec<(ErrorClass, u32, Duration)>,
    /// A run in so much time, and so many at once.
    pub(crate) rate: Option<(Duration, u32)>,
    pub(crate) semaphores: Vec<(Arc<str>, u32)>,
    pub(crate) timeout: Option<Duration>,
    /// The thread that it runs on.
    pub(crate) thread: Option<Arc<str>>,
    /// The group whose vertices are called together.
    pub(crate) group: Option<Arc<str>>,
    pub(crate) sends: Vec<Sends>,
    pub(crate) receives: Vec<Receives>,
}

/// What a vertex without rare settings has.
static NOTHING: Rare = Rare {
    poll: None,
    class_retries: Vec::new(),
    rate: None,
    semaphores: Vec::new(),
    timeout: None,
    thread: None,
    group: None,
    sends: Vec::new(),
    receives: Vec::new(),
};

impl VertexSpec {
    /// Returns a vertex that is watched, tries 3 times again with 1 s between, and has no limits.
    pub fn new(name: &str) -> Self {
        VertexSpec {
            name: name.into(),
            revision: 0,
            watched: true,
            noop: false,
            records: Records::None,
            announces: false,
            retries: 3,
            delay: Duration::from_secs(1),
            rare: None,
            links: None,
        }
    }

    pub(crate) fn rare(&self) -> &Rare {
        self.rare.as_deref().unwrap_or(&NOTHING)
    }

    fn with_rare(mut self, set: impl FnOnce(&mut Rare)) -> Self {
        set(self.rare.get_or_insert_default());
        self
    }

    pub(crate) fn semaphores_mut(&mut self) -> impl Iterator<Item = &mut (Arc<str>, u32)> {
        let rare = self.rare.iter_mut();
        rare.flat_map(|it| &mut it.semaphores)
    }

    fn links_mut(&mut self) -> &mut Links {
        self.links.get_or_insert_default()
    }

    pub(crate) fn with_name(self, name: &Arc<str>) -> Self {
        VertexSpec { name: name.clone(), ..self }
    }

    /// Returns the name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the revision of what is declared: any number that changes with it, such as a hash; 0 by
    /// default.
    #[must_use]
    pub fn with_revision(self, revision: u64) -> Self {
        VertexSpec { revision, ..self }
    }

    /// Sets that no watch is waited for before the first run. The vertex runs when its parents do,
    /// and on [`Driver::event`](crate::Driver::event).
    #[must_use]
    pub fn unwatched(self) -> Self {
        VertexSpec { watched: false, ..self }
    }

    /// Sets that the vertex runs again so long after each run, also while it is watched: for what
    /// nothing tells of. A failure does not end this: after its [retries](Self::with_retry), or at once if its class is permanent,
    /// the vertex runs again after the interval, or after the delay of its retries if that is
    /// longer.
    #[must_use]
    pub fn with_poll(self, interval: Duration) -> Self {
        self.with_rare(|it| it.poll = Some(interval))
    }

    /// Sets that the vertex changes nothing. It only reports what it would change, notifies no
    /// other vertex, and keeps a pending refresh.
    #[must_use]
    pub fn with_noop(self) -> Self {
        VertexSpec { noop: true, ..self }
    }

    /// Sets how often a failed run is repeated, and the time between: 3 times and 1 s by default.
    /// `u32::MAX`: without end. Errors of a permanent class are not repeated. Afterwards the vertex
    /// waits for an event, a run of a parent, or its next [poll](Self::with_poll).
    #[must_use]
    pub fn with_retry(self, retries: u32, delay: Duration) -> Self {
        VertexSpec { retries, delay, ..self }
    }

    /// Sets the same for errors of one class, also of a permanent one. By default, a permanent class
    /// has no retries, and others have those of [`with_retry`](Self::with_retry).
    #[must_use]
    pub fn with_class_retry(self, class: ErrorClass, retries: u32, delay: Duration) -> Self {
        self.with_rare(|it| {
            it.class_retries.retain(|it| it.0 != class);
            it.class_retries.push((class, retries, delay));
        })
    }

    /// Returns how often a run that failed is repeated, and the time between.
    pub(crate) fn retry(&self, class: ErrorClass) -> (u32, Duration) {
        let own = self.rare().class_retries.iter().find(|it| it.0 == class);
        match own {
            Some((_, retries, delay)) => (*retries, *delay),
            None if class.is_permanent() => (0, self.delay),
            None => (self.retries, self.delay),
        }
    }

    /// Sets that in the long run there is one run in each time `every`, and that `burst` of them
    /// (at least 1) may follow each other at once. Unused runs beyond the burst are lost, and no
    /// run is owed.
    #[must_use]
    pub fn with_rate(self, every: Duration, burst: u32) -> Self {
        self.with_rare(|it| it.rate = Some((every, burst.max(1))))
    }

    /// Adds a semaphore: at most `count` vertices that name `id` run at a time. A repeated one
    /// counts once.
    #[must_use]
    pub fn with_semaphore(self, id: &str, count: u32) -> Self {
        self.with_rare(|it| it.semaphores.push((id.into(), count)))
    }

    /// Sets for how long a run is to take. Then its
    /// [`should_continue`](crate::RunContext::should_continue) turns false, and
    /// [`Driver::overdue`](crate::Driver::overdue) names the vertex until the run ends: a thread
    /// cannot be interrupted.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        self.with_rare(|it| it.timeout = Some(timeout))
    }

    /// Sets that the driver calls the vertex on a thread of that name alone. Vertices of one thread
    /// run one after the other: the semaphore `thread:NAME` of count 1 is added.
    #[must_use]
    pub fn with_thread(self, name: &str) -> Self {
        let vertex = self.with_semaphore(&format!("thread:{name}"), 1);
        vertex.with_rare(|it| it.thread = Some(name.into()))
    }

    pub(crate) fn with_records(self, records: Records) -> Self {
        VertexSpec { records, ..self }
    }

    pub(crate) fn with_announcements(self, announces: bool) -> Self {
        VertexSpec { announces, ..self }
    }

    pub(crate) fn is_recorded(&self) -> bool {
        self.records != Records::None
    }

    /// Sets that the vertex runs together with those of its group that may run at the same time, in
    /// one [call](crate::Vertex::check_apply_group): as one worker, and not while others of the
    /// group run. Each keeps its name, its order, its settings, its refreshes and its result.
    #[must_use]
    pub fn with_group(self, group: &str) -> Self {
        self.with_rare(|it| it.group = Some(group.into()))
    }

    /// Adds a port: runs of the vertex [send](crate::RunContext::send) values of this type by it.
    #[must_use]
    pub fn sends<T: Any + PartialEq + Send + Sync>(self, port: &str) -> Self {
        let (port, of) = (port.into(), PortType::of::<T>());
        self.with_rare(|it| it.sends.push(Sends { port, of }))
    }

    /// Adds a port by which the vertex [receives](crate::RunContext::received) what another vertex
    /// sends by one of its ports. It runs after that, and not before there is a value.
    #[must_use]
    pub fn receives<T: Any + PartialEq + Send + Sync>(
        self,
        port: &str,
        sender: &str,
        sender_port: &str,
    ) -> Self {
        self.add_receives::<T>(port, &[(sender, sender_port)], None)
    }

    /// Adds a port with several senders, each with its port. `merge` makes one value of theirs, in
    /// this order, once there is one of each. Change the [revision](Self::with_revision) with it.
    #[must_use]
    pub fn receives_merged<T: Any + PartialEq + Send + Sync>(
        self,
        port: &str,
        senders: &[(&str, &str)],
        merge: impl Fn(&[Arc<T>]) -> T + Send + Sync + 'static,
    ) -> Self {
        self.add_receives::<T>(port, senders, Some(Merge::new(merge)))
    }

    fn add_receives<T: Any + PartialEq>(
        self,
        port: &str,
        senders: &[(&str, &str)],
        merge: Option<Merge>,
    ) -> Self {
        let from = senders.iter().map(|(vertex, port)| ((*vertex).into(), (*port).into()));
        let receives =
            Receives { port: port.into(), from: from.collect(), of: PortType::of::<T>(), merge };
        self.with_rare(|it| it.receives.push(receives))
    }

    /// Adds a parent by name: the vertex runs after it.
    #[must_use]
    pub fn after(mut self, parent: &str) -> Self {
        self.links_mut().after.push(parent, EdgeKind::After);
        self
    }

    /// Adds a parent by name for the order alone: if both are to run, the vertex runs once the
    /// parent was tried, also if that has failed, or is held back by one that has. A run of the
    /// parent does not make the vertex run.
    #[must_use]
    pub fn after_tried(mut self, parent: &str) -> Self {
        self.links_mut().after.push(parent, EdgeKind::AfterTried);
        self
    }

    /// Adds a parent by name whose changes are refreshes of the vertex.
    #[must_use]
    pub fn refreshed_by(mut self, parent: &str) -> Self {
        self.links_mut().after.push(parent, EdgeKind::RefreshedBy);
        self
    }

    /// Adds a parent by name whose changes of this kind are refreshes of the vertex. Several of them
    /// for one parent pass on several kinds. Which kinds a run changes the parent says by
    /// [`will_change`](crate::RunContext::will_change).
    #[must_use]
    pub fn refreshed_by_kind(mut self, parent: &str, kind: &str) -> Self {
        let links = self.links_mut();
        links.after.push(parent, EdgeKind::RefreshedByKinds);
        links.kinds.push((parent.to_owned(), kind.into()));
        self
    }

    /// Adds something that the vertex needs: it runs after all vertices that provide it. A graph in
    /// which none does is refused; see [`wants`](Self::wants).
    #[must_use]
    pub fn needs(mut self, what: &str) -> Self {
        self.links_mut().needs.push(what.to_owned());
        self
    }

    /// As [`needs`](Self::needs), but nothing has to provide it.
    #[must_use]
    pub fn wants(mut self, what: &str) -> Self {
        self.links_mut().wants.push(what.to_owned());
        self
    }

    /// Adds something that the vertex provides.
    #[must_use]
    pub fn provides(mut self, what: &str) -> Self {
        self.links_mut().provides.push(what.to_owned());
        self
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Links {
    /// Vertices, each with the edge from it.
    pub(crate) after: Names,
    /// The kinds of change by which some of them refresh, each with the name of the vertex.
    pub(crate) kinds: Vec<(String, Arc<str>)>,
    pub(crate) needs: Vec<String>,
    /// As `needs`, but nothing has to provide it.
    pub(crate) wants: Vec<String>,
    pub(crate) provides: Vec<String>,
}

/// Names, each with an edge, in one text: a graph has many more edges than vertices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    text: String,
    /// Where each name ends.
    ends: Vec<(usize, EdgeKind)>,
}

impl Names {
    pub(crate) fn push(&mut self, name: &str, edge: EdgeKind) {
        self.text.push_str(name);
        self.ends.push((self.text.len(), edge));
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, EdgeKind)> {
        let mut begin = 0;
        self.ends.iter().map(move |&(end, edge)| {
            let name = &self.text[begin..end];
            begin = end;
            (name, edge)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_as_they_were_added() {
        let mut names = Names::default();
        assert!(names.is_empty());
        let (one, other) = (EdgeKind::AfterTried, EdgeKind::RefreshedBy);
        let all = [("a", one), ("", other), ("\u{fc}ber", other), ("a", other)];
        all.iter().for_each(|(name, edge)| names.push(name, *edge));
        assert!(!names.is_empty());
        assert_eq!(names.iter().collect::<Vec<_>>(), all);
    }
}

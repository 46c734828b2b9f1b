//! A vertex's declaration.

use std::any::Any;
use std::sync::Arc;
use std::time::Duration;

use trueup_reconcile::ErrorClass;

use crate::ports::{Merge, PortType, Receives, Sends};
use crate::{EdgeKind, Records};

/// The declaration of a [`Vertex`](crate::Vertex): its name, settings and parents.
///
/// When a graph is replaced, a vertex with the same name and settings continues undisturbed. Edges
/// do not count as settings: to run a vertex again, change its [revision](Self::with_revision).
///
/// ```
/// use std::time::Duration;
/// use trueup_graph::{VertexSpec, validate};
///
/// let file = VertexSpec::new("file.conf").provides("conf");
/// let reload = VertexSpec::new("exec.reload")
///     .needs("conf") // runs after every vertex that provides it
///     .refreshed_by("file.conf")
///     .with_timeout(Duration::from_secs(10));
/// assert_eq!(reload.name(), "exec.reload");
/// validate([file, reload])?;
/// # Ok::<(), trueup_graph::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct VertexSpec {
    pub(crate) name: Arc<str>,
    pub(crate) revision: u64,
    pub(crate) watched: bool,
    pub(crate) noop: bool,
    pub(crate) records: Records,
    /// True if the vertex announces its changes before it makes them.
    pub(crate) announces: bool,
    pub(crate) retries: u32,
    pub(crate) delay: Duration,
    /// `None` if all these settings have their defaults.
    rare: Option<Box<Rare>>,
    /// The names of parents, which become edges; `None` once they have.
    pub(crate) links: Option<Box<Links>>,
}

/// Settings that few vertices have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Rare {
    pub(crate) poll: Option<Duration>,
    /// Retries and delay for single error classes.
    pub(crate) class_retries: Vec<(ErrorClass, u32, Duration)>,
    /// The time that one run earns, and the largest burst.
    pub(crate) rate: Option<(Duration, u32)>,
    pub(crate) semaphores: Vec<(Arc<str>, u32)>,
    pub(crate) timeout: Option<Duration>,
    /// The name of the vertex's own thread.
    pub(crate) thread: Option<Arc<str>>,
    /// The group that shares a call.
    pub(crate) group: Option<Arc<str>>,
    pub(crate) sends: Vec<Sends>,
    pub(crate) receives: Vec<Receives>,
}

/// The defaults of the rare settings.
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
    /// Declares a vertex that is watched, is retried 3 times with 1 s between, and has no limits.
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

    /// Returns the vertex's name, unique in its graph.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Sets the declaration's revision: any number that changes with the declaration, such as a
    /// hash. The default is 0.
    #[must_use]
    pub fn with_revision(self, revision: u64) -> Self {
        VertexSpec { revision, ..self }
    }

    /// Lets the vertex run without a watch: when its parents run, and on
    /// [`Driver::event`](crate::Driver::event).
    #[must_use]
    pub fn unwatched(self) -> Self {
        VertexSpec { watched: false, ..self }
    }

    /// Runs the vertex again this long after each run, also while it is watched: for changes that
    /// no event reports. Failures do not end the polls. After its [retries](Self::with_retry), or
    /// at once if the error's class is permanent, the vertex runs again after the interval, or
    /// after the retry delay if that is longer.
    #[must_use]
    pub fn with_poll(self, interval: Duration) -> Self {
        self.with_rare(|it| it.poll = Some(interval))
    }

    /// Makes the vertex change nothing. It only reports what it would change, refreshes no other
    /// vertex, and keeps a pending refresh.
    #[must_use]
    pub fn with_noop(self) -> Self {
        VertexSpec { noop: true, ..self }
    }

    /// Sets the number of retries after a failed run, and the delay before each; the default is 3
    /// and 1 s. `u32::MAX` retries without end. A permanent error is not retried. Afterwards, the
    /// vertex waits for an event, a parent's run, or its next [poll](Self::with_poll).
    #[must_use]
    pub fn with_retry(self, retries: u32, delay: Duration) -> Self {
        VertexSpec { retries, delay, ..self }
    }

    /// Sets the retries of one error class, which may be a permanent one. By default, a permanent
    /// class has no retries, and the others follow [`with_retry`](Self::with_retry).
    #[must_use]
    pub fn with_class_retry(self, class: ErrorClass, retries: u32, delay: Duration) -> Self {
        self.with_rare(|it| {
            it.class_retries.retain(|it| it.0 != class);
            it.class_retries.push((class, retries, delay));
        })
    }

    /// Returns the number of retries for a class, and the delay before each.
    pub(crate) fn retry(&self, class: ErrorClass) -> (u32, Duration) {
        let own = self.rare().class_retries.iter().find(|it| it.0 == class);
        match own {
            Some((_, retries, delay)) => (*retries, *delay),
            None if class.is_permanent() => (0, self.delay),
            None => (self.retries, self.delay),
        }
    }

    /// Limits the rate to one run in each time `every` on average; up to `burst` runs (at least 1)
    /// may follow each other at once. Unused runs beyond the burst are lost, and no run is owed.
    #[must_use]
    pub fn with_rate(self, every: Duration, burst: u32) -> Self {
        self.with_rare(|it| it.rate = Some((every, burst.max(1))))
    }

    /// Adds a semaphore: at most `count` vertices that name `id` run at a time. Naming it twice
    /// counts once.
    #[must_use]
    pub fn with_semaphore(self, id: &str, count: u32) -> Self {
        self.with_rare(|it| it.semaphores.push((id.into(), count)))
    }

    /// Sets a run's time limit. After it, [`should_continue`](crate::RunContext::should_continue)
    /// returns false, and [`Driver::overdue`](crate::Driver::overdue) names the vertex until the
    /// run ends. The driver cannot interrupt a thread.
    #[must_use]
    pub fn with_timeout(self, timeout: Duration) -> Self {
        self.with_rare(|it| it.timeout = Some(timeout))
    }

    /// Makes the driver call the vertex on the thread of this name only. Vertices of one thread run
    /// one after the other: this adds the semaphore `thread:NAME` of count 1.
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

    /// Puts the vertex in a group. Vertices of one group that are ready at the same time run in one
    /// [call](crate::Vertex::check_apply_group), by one worker, and not while others of the group
    /// run. Each keeps its own name, order, settings, refreshes and result.
    #[must_use]
    pub fn with_group(self, group: &str) -> Self {
        self.with_rare(|it| it.group = Some(group.into()))
    }

    /// Adds a port by which the vertex's runs [send](crate::RunContext::send) values of this type.
    #[must_use]
    pub fn sends<T: Any + PartialEq + Send + Sync>(self, port: &str) -> Self {
        let (port, of) = (port.into(), PortType::of::<T>());
        self.with_rare(|it| it.sends.push(Sends { port, of }))
    }

    /// Adds a port by which the vertex [receives](crate::RunContext::received) the values of
    /// another vertex's port. It runs after the sender, and only once there is a value.
    #[must_use]
    pub fn receives<T: Any + PartialEq + Send + Sync>(
        self,
        port: &str,
        sender: &str,
        sender_port: &str,
    ) -> Self {
        self.add_receives::<T>(port, &[(sender, sender_port)], None)
    }

    /// Adds a port with several senders, each with its port. Once each has sent a value, `merge`
    /// makes one value of theirs, in this order. If `merge` changes, change the
    /// [revision](Self::with_revision).
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

    /// Adds a parent by name: the vertex runs after it, and whenever it runs.
    #[must_use]
    pub fn after(mut self, parent: &str) -> Self {
        self.links_mut().after.push(parent, EdgeKind::After);
        self
    }

    /// Adds a parent by name for the order only. If both are to run, the vertex runs once the
    /// parent was tried, even if the parent failed or a failed vertex holds it back. A run of the
    /// parent does not make the vertex run.
    #[must_use]
    pub fn after_tried(mut self, parent: &str) -> Self {
        self.links_mut().after.push(parent, EdgeKind::AfterTried);
        self
    }

    /// Adds a parent by name; each of its changes refreshes the vertex.
    #[must_use]
    pub fn refreshed_by(mut self, parent: &str) -> Self {
        self.links_mut().after.push(parent, EdgeKind::RefreshedBy);
        self
    }

    /// Adds a parent by name; its changes of this kind refresh the vertex. Repeat the call to pass
    /// on several kinds of one parent. The parent names the kinds of a run's changes with
    /// [`will_change`](crate::RunContext::will_change).
    #[must_use]
    pub fn refreshed_by_kind(mut self, parent: &str, kind: &str) -> Self {
        let links = self.links_mut();
        links.after.push(parent, EdgeKind::RefreshedByKinds);
        links.kinds.push((parent.to_owned(), kind.into()));
        self
    }

    /// Adds a need: the vertex runs after all vertices that provide it. A graph without a provider
    /// is refused; see [`wants`](Self::wants).
    #[must_use]
    pub fn needs(mut self, what: &str) -> Self {
        self.links_mut().needs.push(what.to_owned());
        self
    }

    /// Adds a need like [`needs`](Self::needs), but a graph without a provider is accepted.
    #[must_use]
    pub fn wants(mut self, what: &str) -> Self {
        self.links_mut().wants.push(what.to_owned());
        self
    }

    /// Adds a name that other vertices can [need](Self::needs) or [want](Self::wants).
    #[must_use]
    pub fn provides(mut self, what: &str) -> Self {
        self.links_mut().provides.push(what.to_owned());
        self
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Links {
    /// Parents, each with the edge's kind.
    pub(crate) after: Names,
    /// The kinds of change that refresh the vertex, each with the parent's name.
    pub(crate) kinds: Vec<(String, Arc<str>)>,
    pub(crate) needs: Vec<String>,
    /// Needs that may lack a provider.
    pub(crate) wants: Vec<String>,
    pub(crate) provides: Vec<String>,
}

/// Names, each with an edge, joined in one text: a graph has many more edges than vertices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Names {
    text: String,
    /// The end of each name.
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

//! Builds a checked graph from vertices and edges.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::edge::Kinds;
use crate::error::ErrorKind;
use crate::graph::{Adjacency, Groups, SemaphoreCounts, order};
use crate::state::Made;
use crate::{EdgeKind, Error, Graph, Record, VertexId, VertexSpec};

/// The largest number of vertices: a vertex's number and an edge's kind share 32 bits.
const MOST: usize = (u32::MAX / 4) as usize;

/// A graph under construction.
#[derive(Clone, Debug, Default)]
pub(crate) struct GraphBuilder {
    pub(crate) vertices: Vec<VertexSpec>,
    /// Parent and child; the child is encoded as in [`Graph::children`].
    pub(crate) edges: Vec<(u32, u32)>,
    /// The kinds of change that an edge passes on, by parent and child, for edges limited to some
    /// kinds.
    pub(crate) kinds: BTreeMap<(u32, u32), Kinds>,
}

impl GraphBuilder {
    /// Adds a vertex and returns its number.
    pub(crate) fn vertex(&mut self, vertex: VertexSpec) -> VertexId {
        self.vertices.push(vertex);
        VertexId((self.vertices.len() - 1).min(u32::MAX as usize) as u32)
    }

    /// Adds an edge: `child` runs after `parent`.
    pub(crate) fn edge(&mut self, parent: VertexId, child: VertexId) {
        self.edges.push((parent.0, EdgeKind::After.to(child.0)));
    }

    /// Checks and returns the graph, in time linear in vertices and edges except for sorting names.
    ///
    /// # Errors
    ///
    /// Two vertices have one name, an edge comes from an unknown vertex, there is a cycle, or a
    /// semaphore has a count of 0 or different counts.
    pub(crate) fn build(mut self) -> Result<Graph, Error> {
        let own = self.vertices.len();
        if own > MOST {
            return Err(too_large());
        }
        let by_name = self.names()?;
        self.links()?;
        let mut edges = check_ports(&self.vertices, &by_name)?;
        self.edges.append(&mut edges);
        self.assemble(own, by_name)
    }

    /// Returns the vertices sorted by name.
    fn names(&self) -> Result<Box<[u32]>, Error> {
        let named = self.vertices.iter().zip(0u32..);
        let mut begun: Vec<_> = named.map(|(it, at)| (beginning(it.name()), at)).collect();
        // Most names differ in their first bytes, so the full names are rarely compared.
        begun.sort_unstable_by(|(one, at), (other, other_at)| {
            one.cmp(other).then_with(|| self.name(*at).cmp(self.name(*other_at)))
        });
        let by_name: Vec<u32> = begun.into_iter().map(|it| it.1).collect();
        match by_name.windows(2).find(|it| self.name(it[0]) == self.name(it[1])) {
            Some(twice) => Err(Error::new(
                ErrorKind::Duplicate,
                format!("vertex {}: declared twice; rename one", self.name(twice[0])),
            )),
            None => Ok(by_name.into()),
        }
    }

    fn name(&self, vertex: u32) -> &str {
        self.vertices[vertex as usize].name()
    }

    /// Turns the declared names of parents, needs and wants into edges.
    fn links(&mut self) -> Result<(), Error> {
        let vertices = self.vertices.iter_mut().zip(0u32..);
        let links: Vec<_> = vertices.filter_map(|(it, at)| Some((at, it.links.take()?))).collect();
        let mut providers = HashMap::<&str, Vec<u32>>::new();
        for (at, links) in &links {
            for what in &links.provides {
                providers.entry(what).or_default().push(*at);
            }
        }
        // Skips the look-ups if no vertex names a parent.
        let is_named = links.iter().any(|it| !it.1.after.is_empty());
        let named = self.vertices.iter().filter(|_| is_named).zip(0u32..);
        let numbers: HashMap<&str, u32> = named.map(|(it, at)| (it.name(), at)).collect();
        for (at, links) in &links {
            for (parent, edge) in links.after.iter() {
                let Some(found) = numbers.get(parent) else {
                    return Err(Error::new(
                        ErrorKind::UnknownVertex,
                        format!(
                            "vertex {}: runs after {parent}, which is not declared",
                            self.name(*at)
                        ),
                    ));
                };
                self.edges.push((*found, edge.to(*at)));
            }
            // Each name was resolved above.
            for (parent, kind) in &links.kinds {
                if let Some(parent) = numbers.get(&**parent) {
                    let kinds = self.kinds.entry((*parent, *at)).or_default();
                    kinds.add(Kinds::from_iter([kind.clone()]));
                }
            }
            if let Some(what) = links.needs.iter().find(|it| !providers.contains_key(it.as_str())) {
                let name = self.name(*at);
                let message = format!("vertex {name}: needs {what}, which no vertex provides");
                return Err(Error::new(ErrorKind::UnknownVertex, message));
            }
            for what in links.needs.iter().chain(&links.wants) {
                let found = providers.get(what.as_str()).into_iter().flatten();
                // A vertex does not wait for other providers of a need which it provides itself.
                let others = found.filter(|&provider| provider != at);
                let edge = EdgeKind::After.to(*at);
                self.edges.extend(others.map(|&provider| (provider, edge)));
            }
        }
        Ok(())
    }

    /// Builds the graph with optional edges. If all of them would form a cycle, drops the last
    /// lists until there is none.
    pub(crate) fn assemble_with(
        mut self,
        own: usize,
        by_name: Box<[u32]>,
        wanted: &[Vec<(u32, u32)>],
    ) -> Result<Graph, Error> {
        let Some((last, others)) = wanted.split_last() else {
            return self.assemble(own, by_name);
        };
        if last.is_empty() {
            return self.assemble_with(own, by_name, others);
        }
        let without = self.clone();
        self.edges.extend(wanted.iter().flatten());
        match self.assemble(own, by_name.clone()) {
            Err(error) if error.is_cycle() => without.assemble_with(own, by_name, others),
            result => result,
        }
    }

    /// Builds the graph; the vertices from `own` on are reversals.
    pub(crate) fn assemble(mut self, own: usize, by_name: Box<[u32]>) -> Result<Graph, Error> {
        let count = self.vertices.len();
        if count > MOST || self.edges.len() > u32::MAX as usize {
            return Err(too_large());
        }
        if self
            .edges
            .iter()
            .any(|(one, other)| (*one).max(EdgeKind::child(*other)) as usize >= count)
        {
            let message = "an edge leads to a vertex of another graph".to_owned();
            return Err(Error::new(ErrorKind::UnknownVertex, message));
        }
        let edges = self.edges.iter().copied();
        let has_tried = edges.clone().any(|it| EdgeKind::of(it.1) == EdgeKind::AfterTried);
        let up = edges.clone().map(|(one, it)| (EdgeKind::child(it), EdgeKind::of(it).from(one)));
        let parents = Adjacency::new(count, up, EdgeKind::parent);
        let children = Adjacency::new(count, edges, EdgeKind::child);
        // An edge that passes on every kind overrides one limited to some.
        self.kinds.retain(|(parent, child), _| {
            let item = EdgeKind::RefreshedByKinds.to(*child);
            children.of(*parent).binary_search(&item).is_ok()
        });
        let (semaphores, holds) = self.semaphores()?;
        let groups = Groups::new(&self.vertices[..own]);
        let mut graph = Graph {
            vertices: std::mem::take(&mut self.vertices).into(),
            own,
            by_name,
            parents,
            children,
            kinds: std::mem::take(&mut self.kinds),
            has_tried,
            order: Box::default(),
            holds,
            semaphores,
            groups,
        };
        graph.order = order(&graph)?;
        Ok(graph)
    }

    fn semaphores(&self) -> Result<(SemaphoreCounts, Adjacency), Error> {
        let mut known = BTreeMap::<&Arc<str>, (u32, u32, &VertexSpec)>::new();
        let mut pairs = Vec::new();
        for (at, vertex) in self.vertices.iter().enumerate() {
            for (id, count) in &vertex.rare().semaphores {
                let next = known.len() as u32;
                let (number, first, other) = *known.entry(id).or_insert((next, *count, vertex));
                let (name, other) = (vertex.name(), other.name());
                let message = if *count == 0 {
                    format!("vertex {name}: semaphore {id} has the count 0")
                } else if *count != first {
                    format!(
                        "semaphore {id}: count {first} at {other}, {count} at {name}; use one count"
                    )
                } else {
                    pairs.push((at as u32, number));
                    continue;
                };
                return Err(Error::new(ErrorKind::Semaphore, message));
            }
        }
        let holds = Adjacency::new(self.vertices.len(), pairs.into_iter(), |it| it);
        let mut semaphores: Vec<_> = known.into_iter().collect();
        semaphores.sort_unstable_by_key(|(_, (number, ..))| *number);
        let counts = semaphores.into_iter().map(|(id, (_, count, _))| (id.clone(), count));
        Ok((counts.collect(), holds))
    }
}

/// Checks these vertices as a [`Driver`](crate::Driver) does before it starts.
///
/// ```
/// use trueup_graph::{VertexSpec, validate};
///
/// let circle = [VertexSpec::new("a").after("b"), VertexSpec::new("b").after("a")];
/// assert!(validate(circle).unwrap_err().is_cycle());
/// ```
///
/// # Errors
///
/// Two vertices have one name, an edge comes from an unknown vertex, there is a cycle, a port does
/// not fit, or a semaphore has a count of 0 or different counts.
pub fn validate(vertices: impl IntoIterator<Item = VertexSpec>) -> Result<(), Error> {
    Graph::new(vertices).map(drop)
}

/// Reversals of vertices that left the graph, or whose declaration changed.
impl Graph {
    /// Adds a reversal for each of these declarations: of vertices that left while no process ran,
    /// or refuse to adopt the work under their names. `records` are all records of the journal.
    /// Leaves out a declaration if no record says that it made something.
    ///
    /// Reversals run in the reverse order of making, children before their parents.
    ///
    /// # Errors
    ///
    /// The graph is too large, or a semaphore has different counts.
    pub(crate) fn restore(
        self,
        records: &[(Arc<str>, Record)],
        vertices: impl IntoIterator<Item = VertexSpec>,
    ) -> Result<Self, Error> {
        let made = records.iter().filter_map(|(name, record)| {
            let made = record.made.as_ref()?;
            Some((&**name, made))
        });
        let made: BTreeMap<&str, &Made> = made.collect();
        let restored = vertices.into_iter().filter_map(|mut vertex| {
            let made = *made.get(vertex.name())?;
            vertex.links = None;
            Some((made.place, vertex))
        });
        let mut restored: Vec<_> = restored.collect();
        // The last made comes first.
        restored.sort_by(|one, other| (other.0, one.1.name()).cmp(&(one.0, other.1.name())));
        restored.dedup_by(|one, other| one.1.name == other.1.name);
        let mut builder = self.to_builder();
        let mut numbers = BTreeMap::new();
        for (_, vertex) in restored {
            let (found, name) = (self.find(vertex.name()), vertex.name.clone());
            let number = builder.vertex(vertex);
            if let Some(found) = found {
                builder.edge(number, found);
            }
            numbers.insert(name, number);
        }
        // Children are undone before their parents. `agreeing` holds the edges in the order of
        // making, `others` the edges against it. `leaving`: a vertex that stays runs before its
        // former parent is undone.
        let (mut agreeing, mut others, mut leaving) = (Vec::new(), Vec::new(), Vec::new());
        for (child, made_by_child) in &made {
            for parent in &made_by_child.after {
                let Some(parent_number) = numbers.get(parent) else {
                    continue;
                };
                let (edges, child) = match (numbers.get(*child), self.find(child)) {
                    (Some(child), _) if made_by_child.place > made[&**parent].place => {
                        (&mut agreeing, *child)
                    }
                    (Some(child), _) => (&mut others, *child),
                    (None, Some(child)) if self.find(parent).is_none() => (&mut leaving, child),
                    (None, _) => continue,
                };
                edges.push((child.0, EdgeKind::After.to(parent_number.0)));
            }
        }
        builder.assemble_with(self.own, self.by_name, &[agreeing, leaving, others])
    }
}

/// Checks the ports that vertices receive by, and returns the edges from the senders.
fn check_ports(vertices: &[VertexSpec], by_name: &[u32]) -> Result<Vec<(u32, u32)>, Error> {
    let mut edges = Vec::new();
    for (at, vertex) in vertices.iter().enumerate() {
        let sent = vertex.rare().sends.iter().map(|it| &it.port);
        let received = vertex.rare().receives.iter().map(|it| &it.port);
        for ports in [sent.collect::<Vec<_>>(), received.collect()] {
            let mut each = ports.iter().enumerate();
            if let Some((_, port)) = each.find(|(at, port)| ports[..*at].contains(*port)) {
                let message = format!(
                    "vertex {}: port {port} is declared twice; rename one, or use \
                     `receives_merged` for several senders",
                    vertex.name()
                );
                return Err(Error::new(ErrorKind::Port, message));
            }
        }
        for port in &vertex.rare().receives {
            for (sender, sender_port) in &port.from {
                let found = by_name
                    .binary_search_by(|it| vertices[*it as usize].name().cmp(sender))
                    .ok()
                    .map(|it| by_name[it]);
                let ports = found.map_or(&[][..], |it| &vertices[it as usize].rare().sends);
                let problem = match (found, ports.iter().find(|it| it.port == *sender_port)) {
                    (None, _) => ", which is not declared".to_owned(),
                    (_, None) => ", which does not send it".to_owned(),
                    (_, Some(sent)) if sent.of != port.of => {
                        format!(" as {}, which sends {}; use one type", port.of.name, sent.of.name)
                    }
                    (Some(found), _) => {
                        edges.push((found, EdgeKind::After.to(at as u32)));
                        continue;
                    }
                };
                let message = format!(
                    "vertex {}: port {} receives {sender_port} of {sender}{problem}",
                    vertex.name(),
                    port.port
                );
                return Err(Error::new(ErrorKind::Port, message));
            }
        }
    }
    Ok(edges)
}

/// Returns the first 16 bytes of a name as a number that sorts as the name does.
fn beginning(name: &str) -> u128 {
    let mut bytes = [0; 16];
    let len = name.len().min(16);
    bytes[..len].copy_from_slice(&name.as_bytes()[..len]);
    u128::from_be_bytes(bytes)
}

fn too_large() -> Error {
    Error::new(ErrorKind::TooLarge, "the graph has too many vertices or edges".to_owned())
}

//! Of which ports there is a value. The driver has the values.

use std::sync::Arc;

use super::{Run, RunId, State};
use crate::ports::Sends;
use crate::{Graph, VertexId};

/// Inputs and questions of the driver.
impl State {
    /// Takes note that a run has sent a value by a port: those that receive it may run once the
    /// vertex is settled. Comes before the [result](Self::handle_done) of the run. Returns the name
    /// of the sender; `None` if it does not declare the port, or has left or changed: then the
    /// value is to be dropped.
    pub fn handle_sent(&mut self, run: RunId, port: &str) -> Option<Arc<str>> {
        let run = self.runs.iter().find(|it: &&Run| it.id == run)?;
        if run.stale || run.vertex as usize >= self.graph.own {
            return None;
        }
        let name = self.graph.name(run.vertex).clone();
        let port = sends(&self.graph, &name, port)?.port.clone();
        self.values.insert((name.clone(), port));
        Some(name)
    }

    /// True if there is a value of a port. A vertex that is replaced keeps it, if it sends the
    /// same type by it; one that leaves does not.
    pub fn has_value(&self, sender: &Arc<str>, port: &Arc<str>) -> bool {
        self.values.contains(&(sender.clone(), port.clone()))
    }
}

impl State {
    /// Returns the ports that a vertex receives and that have no value: sender and port.
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

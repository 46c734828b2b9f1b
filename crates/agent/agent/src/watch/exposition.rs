//! The metrics page: the counts of the loop and of its statuses, in Prometheus' text format 0.0.4.
//!
//! The crate `prometheus` is used because `prometheus-client` writes OpenMetrics alone.

use std::collections::BTreeMap;

use prometheus::core::Collector;
use prometheus::{Gauge, IntCounter, IntCounterVec, IntGaugeVec, Opts};
use prometheus::{Registry, Result, TextEncoder};
use trueup_graph::Snapshot;
use trueup_loop::Stats;
use trueup_reconcile::Ops;

use super::world_status::WorldStatus;
use crate::graph::{VertexState, graph_verdict};

/// Returns the page. `exceptions` are the numbers of statuses by kind and condition. `world` is the
/// state of the world, if the file has `[world]`. `graph` has the states of files and commands.
/// `is_file_current` is true if the file in force is the one on disk. Fails if two metrics have one
/// name, or a name is malformed: a mistake in this source file.
pub(crate) fn exposition(
    stats: &Stats,
    exceptions: &BTreeMap<(&'static str, &'static str), usize>,
    is_file_current: bool,
    world: Option<&WorldStatus>,
    graph: Option<&Snapshot>,
) -> Result<String> {
    // The loop keeps the counts, so each page copies them into metrics of its own.
    let page = Page(Registry::new());
    let help = "The version of trueup.";
    let info = IntGaugeVec::new(Opts::new("trueup_build_info", help), &["version"])?;
    info.with_label_values(&[env!("CARGO_PKG_VERSION")]).set(1);
    page.add(info)?;

    let help = "Passes, over everything (whole) or over the objects that may have changed (dirty).";
    let passes = IntCounterVec::new(Opts::new("trueup_passes_total", help), &["extent"])?;
    for (extent, number) in [("whole", stats.full_passes), ("dirty", stats.dirty_passes)] {
        passes.with_label_values(&[extent]).inc_by(number);
    }
    page.add(passes)?;
    let help = "Passes that could not run.";
    page.counter("trueup_passes_failed_total", help, stats.failed_passes)?;
    let help = "Passes that ended before all was done.";
    page.counter("trueup_passes_cut_total", help, stats.truncated_passes)?;

    let help = "Ops by the kind of their objects and by outcome.";
    let opts = Opts::new("trueup_ops_total", help);
    let ops = IntCounterVec::new(opts, &["kind", "outcome"])?;
    for (kind, counts) in &stats.ops {
        let Ops { applied, failed, declined, pending, .. } = *counts;
        for (outcome, number) in
            [("applied", applied), ("failed", failed), ("declined", declined), ("pending", pending)]
        {
            ops.with_label_values(&[*kind, outcome]).inc_by(number);
        }
    }
    page.add(ops)?;

    let help = "Objects that are not in place, by their kind and what is the matter with them.";
    let opts = Opts::new("trueup_unresolved", help);
    let unresolved = IntGaugeVec::new(opts, &["kind", "condition"])?;
    for ((kind, condition), number) in exceptions {
        let number = i64::try_from(*number).unwrap_or(i64::MAX);
        let gauge = unresolved.with_label_values(&[kind, condition]);
        gauge.set(number);
    }
    page.add(unresolved)?;

    let help = "Hints that something may have changed.";
    page.counter("trueup_hints_total", help, stats.hints)?;
    let help = "Times that the kernel dropped events because trueup did not read them fast enough.";
    page.counter("trueup_overruns_total", help, stats.overruns)?;
    let help = "Times that the subscription to the kernel's events failed.";
    let name = "trueup_subscription_failures_total";
    page.counter(name, help, stats.subscription_failures)?;
    let help = "Objects that failed and wait for their backoff to end.";
    page.gauge("trueup_backed_off", help, stats.backed_off as f64)?;
    if let Some(last) = stats.last_pass {
        let help = "How long the last pass took.";
        page.gauge("trueup_last_pass_seconds", help, last.as_secs_f64())?;
    }
    if let Some(left) = stats.next_full_pass {
        let help = "Time until the next pass over everything, if nothing calls for one before.";
        let name = "trueup_next_whole_pass_seconds";
        page.gauge(name, help, left.as_secs_f64())?;
    }
    if let Some(since) = stats.since_converged {
        let help = "Time since the state was last seen converged; 0 while it is.";
        page.gauge("trueup_seconds_since_converged", help, since.as_secs_f64())?;
    }
    let is_known = world.is_none_or(|world| world.unknown().is_none());
    let is_graph_converged = graph.and_then(graph_verdict).is_none();
    let is_known = is_known && is_graph_converged;
    let is_converged = is_known && stats.since_converged.is_some_and(|since| since.is_zero());
    let help = "Whether the last look found the state converged.";
    page.flag("trueup_converged", help, is_converged)?;
    let help = "How many files came into force after the first.";
    page.gauge("trueup_desired_revision", help, stats.desired.number() as f64)?;
    let help = "Whether trueup receives the kernel's events, and does not only look by timer.";
    page.flag("trueup_subscribed", help, stats.subscribed)?;
    let help = "Whether the file in force is the one on disk.";
    page.flag("trueup_file_current", help, is_file_current)?;
    if let Some(world) = world {
        page.world(world)?;
    }
    if let Some(graph) = graph {
        let help = "How each vertex of the graph stands: 1 with the state that it is in.";
        let opts = Opts::new("trueup_vertex_state", help);
        let states = IntGaugeVec::new(opts, &["vertex", "state"])?;
        for vertex in &graph.vertices {
            let state = VertexState::of(vertex).name();
            states.with_label_values(&[&vertex.name, state]).set(1);
        }
        page.add(states)?;
    }
    TextEncoder::new().encode_to_string(&page.0.gather())
}

struct Page(Registry);

impl Page {
    fn add(&self, metric: impl Collector + 'static) -> Result<()> {
        self.0.register(Box::new(metric))
    }

    fn world(&self, world: &WorldStatus) -> Result<()> {
        let help = "Whether there was a complete view of what other hosts export.";
        self.flag("trueup_world_known", help, world.collection.is_known)?;
        let help = "Time since the store was last reached; 0 while it is.";
        let since = world.cut_off_since();
        let cut_off = since.map(|since| since.elapsed().unwrap_or_default());
        let seconds = cut_off.unwrap_or_default().as_secs_f64();
        self.gauge("trueup_world_cut_off_seconds", help, seconds)?;
        for (name, help, number) in [
            ("trueup_world_exports", "Exports that the file declares.", world.exports.declared),
            (
                "trueup_world_taken",
                "Exports of the file that lose traffic to exports of other hosts.",
                world.collection.taken().len(),
            ),
            (
                "trueup_world_contested",
                "What other hosts export of the prefixes of the file's exports, or wait to take.",
                world.collection.contests.len(),
            ),
            (
                "trueup_world_ungranted",
                "Exports of the file that the operator's grants do not allow this host.",
                world.collection.ungranted.len(),
            ),
            (
                "trueup_world_collected",
                "Routes that are taken from other hosts.",
                world.collection.collected,
            ),
            (
                "trueup_world_refused",
                "Resources of other hosts that are not taken.",
                world.collection.refused,
            ),
            (
                "trueup_world_overlaps",
                "Routes that take traffic from another host's: to a part of its prefix, or with a lower \
                 metric.",
                world.collection.overlaps,
            ),
            (
                "trueup_world_damped",
                "Hosts whose exports change too often, so that changes wait.",
                world.collection.damped.len(),
            ),
            (
                "trueup_world_retained",
                "Routes from before that stay until it is known what other hosts export.",
                world.collection.retained,
            ),
        ] {
            self.gauge(name, help, number as f64)?;
        }
        let help = "Whether the store has the exports as declared.";
        self.flag("trueup_world_exported", help, world.exports.is_in_place)?;
        let help = "Times that the lease of the exports has ended while trueup was running.";
        self.counter("trueup_world_lease_losses_total", help, world.exports.losses)
    }

    fn counter(&self, name: &str, help: &str, value: u64) -> Result<()> {
        let counter = IntCounter::new(name, help)?;
        counter.inc_by(value);
        self.add(counter)
    }

    fn gauge(&self, name: &str, help: &str, value: f64) -> Result<()> {
        let gauge = Gauge::new(name, help)?;
        gauge.set(value);
        self.add(gauge)
    }

    fn flag(&self, name: &str, help: &str, value: bool) -> Result<()> {
        self.gauge(name, help, f64::from(u8::from(value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_sample_has_its_family_in_front() {
        let mut stats = Stats::default();
        stats.full_passes = 3;
        let mut ops = Ops::default();
        (ops.applied, ops.failed) = (2, 1);
        stats.ops.insert("route", ops);
        stats.last_pass = Some(std::time::Duration::from_millis(1500));
        stats.next_full_pass = Some(std::time::Duration::from_secs(150));
        stats.since_converged = Some(std::time::Duration::ZERO);
        let mut known = WorldStatus::default();
        known.collection.is_known = true;
        let exceptions = [(("route", "failed"), 2), (("link", "contended"), 0)].into();
        let page = exposition(&stats, &exceptions, true, Some(&known), None).unwrap();
        let mut family = "";
        let mut samples = Vec::new();
        for line in page.lines() {
            match line.split(' ').collect::<Vec<_>>()[..] {
                ["#", "HELP", name, ..] => family = name,
                ["#", "TYPE", name, kind] => {
                    assert_eq!(name, family);
                    assert!(["counter", "gauge"].contains(&kind), "{line}");
                    assert_eq!(kind == "counter", name.ends_with("_total"), "{line}");
                }
                [sample, value] => {
                    assert_eq!(sample.split('{').next(), Some(family), "{line}");
                    assert!(value.parse::<f64>().is_ok(), "{line}");
                    samples.push(line);
                }
                _ => panic!("{line}"),
            }
        }
        for sample in [
            "trueup_passes_total{extent=\"whole\"} 3",
            "trueup_ops_total{kind=\"route\",outcome=\"failed\"} 1",
            "trueup_unresolved{condition=\"failed\",kind=\"route\"} 2",
            "trueup_unresolved{condition=\"contended\",kind=\"link\"} 0",
            "trueup_last_pass_seconds 1.5",
            "trueup_next_whole_pass_seconds 150",
            "trueup_converged 1",
            "trueup_world_known 1",
            "trueup_world_lease_losses_total 0",
            "trueup_desired_revision 0",
        ] {
            assert!(samples.contains(&sample), "{sample}: {page}");
        }
        known.collection.is_known = false;
        let page = exposition(&stats, &exceptions, true, Some(&known), None).unwrap();
        assert!(page.contains("trueup_converged 0"), "{page}");
        let page = exposition(&Stats::default(), &BTreeMap::new(), true, None, None).unwrap();
        for absent in ["world", "since_converged", "next_whole_pass"] {
            assert!(!page.contains(absent), "{page}");
        }
    }
}

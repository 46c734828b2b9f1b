use std::convert::Infallible;
use std::sync::mpsc::{Sender, channel};
use std::thread::sleep;

use trueup_file::{File, TableNames};
use trueup_graph::{Places, SourceVertex};
use trueup_loop::{Config, Loop};
use trueup_netlink::Namespace;
use trueup_reconcile::{MemoryLedger, PassInput, Report, Source};

use super::*;
use crate::part::{Looping, Once};
use crate::report::SectionResult;
use crate::source::AnyDesired;

const LONG: Duration = Duration::from_secs(60);

/// A part whose passes tell their desired state.
struct Telling {
    part: Part,
    desired: u32,
    told: Sender<(Part, u32)>,
}

struct Nothing;

impl Report for Nothing {
    fn converged(&self) -> bool {
        true
    }
}

impl Source for Telling {
    type Scope = ();
    type Desired = u32;
    type Options = ();
    type Report = Nothing;
    type Observed = ();
    type Error = Infallible;

    fn reconcile(&mut self, input: PassInput<'_, Self>) -> Result<Nothing, Infallible> {
        self.told.send((self.part, *input.desired)).unwrap();
        Ok(Nothing)
    }
}

impl Telling {
    fn source(&self) -> Arc<dyn AnySource> {
        let Telling { part, desired, ref told } = *self;
        let source = Telling { part, desired, told: told.clone() };
        let config = Config::default().with_interval(LONG);
        let looped = Loop::new(source, (), desired, MemoryLedger::default(), (), config);
        Arc::new(SourceVertex::of_loop(looped))
    }
}

impl AnyPart for Telling {
    fn part(&self) -> Part {
        self.part
    }

    fn desired(&self) -> AnyDesired {
        Arc::new(self.desired)
    }

    fn looped(&self, _: &Looping) -> Arc<dyn AnySource> {
        self.source()
    }

    fn once(&self, _: &Once) -> Box<dyn Vertex> {
        self.source().vertex()
    }

    fn plan(&self, _: &Namespace, _: &mut dyn Ledger) -> Option<SectionResult> {
        None
    }
}

#[test]
fn a_part_that_a_reload_adds_runs_before_those_that_come_after_it() {
    let (told, tell) = channel();
    let telling = |part, desired| Telling { part, desired, told: told.clone() };
    let file = File::parse("f.toml", b"route = []", &TableNames::default()).unwrap();
    let around = Around {
        run: Runs { interval: None, namespace: Namespace::current(), places: Places::default() },
        make_world: None,
        on_result: Arc::new(|_, _| {}),
    };
    let before = vec![(Part::NETWORK, telling(Part::NETWORK, 1).source())];
    let ledger = Box::new(MemoryLedger::default());
    let graph = RunningGraph::start(&file, before, ledger, around).unwrap();
    assert_eq!(tell.recv_timeout(LONG).unwrap(), (Part::NETWORK, 1));
    let added = Arc::new(telling(Part::SETTINGS, 2));
    let parts: [Arc<dyn AnyPart>; 2] = [added.clone(), Arc::new(telling(Part::NETWORK, 2))];
    // The network has its new desired state long before the graph has the new part.
    let declare = |_, _| sleep(Duration::from_millis(300));
    let paused = graph.pause_settings().unwrap();
    graph.replace(&file, parts.into(), paused, |_| added.source(), declare, |_| {}).unwrap();
    assert_eq!(tell.recv_timeout(LONG).unwrap(), (Part::SETTINGS, 2));
    assert_eq!(tell.recv_timeout(LONG).unwrap(), (Part::NETWORK, 2));
}

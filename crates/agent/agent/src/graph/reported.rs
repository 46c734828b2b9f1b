//! A vertex whose results are reported.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use trueup_graph::{Failure, Records, RunContext, Turn, Verdict, Vertex, Watch};
use trueup_reconcile::Hints;

/// What is called with the name of a vertex and the result of a run that may change something.
pub(crate) type OnResult = Arc<dyn Fn(&str, &Result<Verdict, Failure>) + Send + Sync>;

/// Reports each run of a vertex that may change something, and each failure.
pub(crate) struct Reported {
    name: String,
    vertex: Box<dyn Vertex>,
    report: OnResult,
}

impl Reported {
    pub(crate) fn new(name: &str, vertex: Box<dyn Vertex>, report: OnResult) -> Reported {
        Reported { name: name.to_owned(), vertex, report }
    }

    fn reported(&self, context: &RunContext, result: &Result<Verdict, Failure>) {
        // A run that was interrupted is repeated.
        if result.is_ok() || context.should_continue() {
            (self.report)(&self.name, result);
        }
    }
}

impl Vertex for Reported {
    fn check_apply(&mut self, context: &RunContext, apply: bool) -> Result<Verdict, Failure> {
        let result = self.vertex.check_apply(context, apply);
        self.reported(context, &result);
        result
    }

    fn announces(&self) -> bool {
        self.vertex.announces()
    }

    fn watch(&mut self, hints: Hints, waker: Waker) -> Result<Watch, Failure> {
        self.vertex.watch(hints, waker)
    }

    fn events(&mut self, turn: Turn<'_>) -> Result<Option<Instant>, Failure> {
        self.vertex.events(turn)
    }

    fn records(&self) -> Records {
        self.vertex.records()
    }

    fn record(&self) -> Option<Vec<u8>> {
        self.vertex.record()
    }

    fn adopt(&mut self, record: &[u8]) -> bool {
        self.vertex.adopt(record)
    }

    fn reverse(&mut self, context: &RunContext) -> Result<Verdict, Failure> {
        let result = self.vertex.reverse(context);
        self.reported(context, &result);
        result
    }
}

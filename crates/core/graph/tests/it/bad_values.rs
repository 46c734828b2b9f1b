//! Values whose code panics.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use trueup_graph::{RunContext, Verdict, VertexSpec};

use crate::support::{BOUND, start, until, vertex};

/// A value that panics in its comparison or its drop, as its fields say.
#[derive(Debug)]
struct Bad {
    in_eq: bool,
    in_drop: bool,
}

impl PartialEq for Bad {
    fn eq(&self, other: &Self) -> bool {
        assert!(!self.in_eq || !other.in_eq, "on purpose in eq");
        false
    }
}

impl Drop for Bad {
    fn drop(&mut self) {
        assert!(!self.in_drop || std::thread::panicking(), "on purpose in drop");
    }
}

#[test]
fn panics_of_values_fail_the_receiver_alone_and_lock_nothing() {
    let in_eq = Arc::new(AtomicU32::new(1));
    let flag = Arc::clone(&in_eq);
    let send = move |context: &RunContext, _: bool| {
        let in_eq = flag.load(Ordering::SeqCst) == 1;
        let bad = Bad { in_eq, in_drop: true };
        context.send("bad", bad)?;
        Ok(Verdict::InPlace)
    };
    let spec = VertexSpec::new("a").sends::<Bad>("bad");
    let receive = |context: &RunContext, _: bool| {
        let received = context.received::<Bad>("in");
        // This is not the last reference: nothing is dropped here.
        received.map(|_| Verdict::InPlace)
    };
    let spec_b = VertexSpec::new("b").receives::<Bad>("in", "a", "bad");
    let merge = |_: &[Arc<Bad>]| -> Bad { panic!("on purpose in merge") };
    let spec_c = VertexSpec::new("c").receives_merged("in", &[("a", "bad")], merge);
    let no_retry = |spec: VertexSpec| spec.with_retry(0, BOUND);
    let driver = start(
        2,
        [vertex(spec, send), vertex(no_retry(spec_b), receive), vertex(no_retry(spec_c), receive)],
    );
    let message = |name| driver.explain(name).unwrap().message.unwrap_or_default();
    until("the merge panics", || message("c").contains("on purpose in merge"));
    until("b has run", || driver.are_converged(&["b"]).unwrap());
    driver.event("a").unwrap();
    until("eq panics", || message("b").contains("on purpose in eq"));
    in_eq.store(0, Ordering::SeqCst);
    driver.event("a").unwrap();
    until("b sees another value", || driver.are_converged(&["b"]).unwrap());
    driver.pause(BOUND).unwrap();
    driver.resume();
    driver.replace([]).unwrap();
    driver.wait_converged(BOUND).unwrap();
    driver.stop(BOUND).unwrap();
}

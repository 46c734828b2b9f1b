//! The futures and the stream of a handle, under runtimes that do not know them.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use smol::stream::StreamExt as _;
use trueup_loop::{Event, Revision};
use trueup_reconcile::OpKey;

use crate::contract::sources::*;

/// A source whose first pass finds an object that waits; later passes find it in place.
fn running() -> trueup_loop::Running<Scripted> {
    let (source, _) = Scripted::new(|given, _, _| {
        let statuses = match given.number {
            2 => vec![(2, Some("a link"))],
            3 => vec![(2, None)],
            _ => Vec::new(),
        };
        Ok(Report1 {
            number: given.number,
            converged: given.number != 2,
            statuses,
            ..Report1::default()
        })
    });
    looped(source, quiet()).spawn("it").unwrap()
}

/// Changes an object twice. It waits after the first change, and not after the second.
async fn change_twice(handle: trueup_loop::Handle<Scripted>) {
    handle.tried(Revision::default()).await.unwrap();
    let mut events = handle.events();
    let waits = handle.change(|desired| *desired = 2).unwrap();
    let tried = handle.tried(waits).await.unwrap();
    assert!(!tried.is_in_place());
    let event = events.next().await.unwrap();
    assert!(matches!(event, Event::Changed { key: OpKey(2), .. }), "{event:?}");
    let comes = handle.change(|desired| *desired = 2).unwrap();
    assert!(handle.converged(comes).await.unwrap().converged);
    assert!(handle.tried(comes).await.unwrap().is_in_place());
    let event = events.next().await.unwrap();
    assert!(matches!(event, Event::Cleared { key: OpKey(2), .. }), "{event:?}");
}

#[test]
fn under_tokio() {
    let running = running();
    let handle = running.handle().clone();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { tokio::spawn(change_twice(handle)).await.unwrap() });
}

#[test]
fn a_bound_of_the_runtime_ends_the_wait_and_nothing_else() {
    let (source, _passes, go) = slow();
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle().clone();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    runtime.block_on(async {
        let revision = handle.change(|desired| *desired = 2).unwrap();
        let bound = tokio::time::timeout(Duration::from_millis(5), handle.converged(revision));
        assert!(bound.await.is_err());
        drop(go);
        assert!(handle.converged(revision).await.unwrap().converged);
    });
}

#[test]
fn under_smol() {
    let running = running();
    smol::block_on(change_twice(running.handle().clone()));
}

#[test]
fn a_wait_that_is_dropped_keeps_no_waker() {
    struct Idle;
    impl Wake for Idle {
        fn wake(self: Arc<Self>) {}
    }
    let (source, passes, go) = slow();
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle();
    next(&passes);
    let later = Revision::default();
    let wakers: [Arc<Idle>; 3] = std::array::from_fn(|_| Arc::new(Idle));
    let [first, second, third] = wakers.each_ref().map(|it| Waker::from(Arc::clone(it)));
    let uses = || wakers.each_ref().map(|it| Arc::strong_count(it) - 2);
    {
        let mut events = handle.events();
        let mut tried = pin!(handle.tried(later));
        let mut converged = pin!(handle.converged(later));
        for (waker, expected) in [(&first, [3, 0, 0]), (&second, [0, 3, 0])] {
            let mut context = Context::from_waker(waker);
            assert!(pin!(events.next()).poll(&mut context).is_pending());
            assert!(tried.as_mut().poll(&mut context).is_pending());
            assert!(converged.as_mut().poll(&mut context).is_pending());
            assert_eq!(uses(), expected);
        }
        // A third waiting task does not disturb the others.
        let mut context = Context::from_waker(&third);
        assert!(pin!(handle.tried(later)).poll(&mut context).is_pending());
        assert_eq!(uses(), [0, 3, 0]);
    }
    assert_eq!(uses(), [0, 0, 0]);
    drop(go);
}

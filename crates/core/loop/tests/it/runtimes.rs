//! The futures and the stream of a handle, under runtimes that do not know them.

use std::pin::pin;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use smol::stream::StreamExt as _;
use trueup_loop::{ErrorKind, Event, Handle, Revision, Runner};
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

/// Makes each request of a handle that waits, one after the other, until the loop has ended.
async fn request_all(running: trueup_loop::Running<Scripted>) {
    let handle = running.handle().clone();
    let first = handle.forced().await.unwrap().number;
    assert!(handle.forced().await.unwrap().number > first);
    assert_eq!(handle.asked(|view| *view.scope).await.unwrap(), "scope");
    handle.paused().await.unwrap();
    assert!(handle.stats().paused);
    assert_eq!(handle.forced().await.unwrap_err().kind(), ErrorKind::Paused);
    assert_eq!(handle.asked(|view| *view.options).await.unwrap(), "options");
    handle.resume().unwrap();
    let (forced, ended) = (handle.forced(), handle.ended());
    assert!(forced.await.unwrap().number > first);
    running.stopped().await.unwrap();
    ended.await.unwrap();
    assert!(handle.is_ended());
    assert!(handle.forced().await.unwrap_err().is_ended());
    assert!(handle.paused().await.unwrap_err().is_ended());
    assert!(handle.asked(|_| ()).await.unwrap_err().is_ended());
    handle.ended().await.unwrap();
}

/// An executor of std alone: the thread sleeps until a waker unparks it.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

#[test]
fn under_std_alone() {
    block_on(change_twice(running().handle().clone()));
    block_on(request_all(running()));
}

#[test]
fn under_tokio() {
    let running = running();
    let handle = running.handle().clone();
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { tokio::spawn(change_twice(handle)).await.unwrap() });
    runtime.block_on(async { tokio::spawn(request_all(running)).await.unwrap() });
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
    smol::block_on(request_all(running));
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
        let mut forced = pin!(handle.forced());
        let mut asked = pin!(handle.asked(|_| ()));
        let mut ended = pin!(handle.ended());
        for (waker, expected) in [(&first, [6, 0, 0]), (&second, [0, 6, 0])] {
            let mut context = Context::from_waker(waker);
            assert!(pin!(events.next()).poll(&mut context).is_pending());
            assert!(tried.as_mut().poll(&mut context).is_pending());
            assert!(converged.as_mut().poll(&mut context).is_pending());
            assert!(forced.as_mut().poll(&mut context).is_pending());
            assert!(asked.as_mut().poll(&mut context).is_pending());
            assert!(ended.as_mut().poll(&mut context).is_pending());
            assert_eq!(uses(), expected);
        }
        // A third waiting task does not disturb the others.
        let mut context = Context::from_waker(&third);
        assert!(pin!(handle.ended()).poll(&mut context).is_pending());
        assert_eq!(uses(), [0, 6, 0]);
    }
    assert_eq!(uses(), [0, 0, 0]);
    drop(go);
}

#[test]
fn a_dropped_future_withdraws_its_question_and_keeps_other_requests() {
    let (source, passes, go) = slow();
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle();
    assert_eq!(next(&passes).number, 1);
    let (call, called) = channel::<()>();
    drop(handle.asked(move |_| call.send(())));
    drop(handle.forced());
    drop(go);
    // The question's captures are dropped, uncalled.
    assert!(called.recv_timeout(LONG).is_err());
    assert_eq!(next(&passes).number, 2);
    drop(handle.paused());
    assert!(handle.stats().paused);
    running.stop(LONG).unwrap();
}

/// Waits for a loop with futures of all requests, while `end` ends it in a pass.
fn await_end(end: impl FnOnce(trueup_loop::Running<Scripted>)) {
    let (source, passes, go) = slow();
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle().clone();
    next(&passes);
    let never = handle.change(|_| panic!("the loop ends before")).unwrap();
    let (forced, asked) = (handle.forced(), handle.asked(|_| thread::yield_now()));
    let (converged, tried) = (handle.converged(never), handle.tried(never));
    let ended = handle.ended();
    let waiting = thread::spawn(move || {
        block_on(async {
            assert!(forced.await.unwrap_err().is_ended());
            assert!(converged.await.unwrap_err().is_ended());
            assert!(tried.await.unwrap_err().is_ended());
            // The end of the running pass comes first, and then the questions.
            assert!(asked.await.map_or_else(|error| error.is_ended(), |()| true));
            ended.await.unwrap();
        });
    });
    end(running);
    drop(go);
    waiting.join().unwrap();
}

#[test]
fn the_end_of_the_loop_ends_every_future() {
    await_end(|running| running.handle().stop());
    await_end(drop);
    await_end(|running| drop(running.stopped()));
    let (source, _) = keeping();
    let unrun = looped(source, quiet());
    let handle = unrun.handle();
    let (forced, asked) = (handle.forced(), handle.asked(|_| ()));
    let (paused, ended) = (handle.paused(), handle.ended());
    drop(unrun);
    assert!(block_on(forced).unwrap_err().is_ended());
    assert!(block_on(asked).unwrap_err().is_ended());
    // No pass was running.
    block_on(paused).unwrap();
    block_on(ended).unwrap();
}

#[test]
fn a_panic_ends_every_future() {
    let (source, _) = keeping();
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle();
    block_on(handle.converged(Revision::default())).unwrap();
    let asked = handle.asked(|_| -> u8 { panic!("asked to") });
    let ended = handle.ended();
    assert!(block_on(asked).unwrap_err().is_ended());
    block_on(ended).unwrap();
    assert_eq!(block_on(running.stopped()).unwrap_err().kind(), ErrorKind::Panicked);
}

#[test]
fn a_waker_may_call_the_loop() {
    /// Uses every lock that the loop and its handles share.
    struct Calls(OnceLock<Handle<Scripted>>, std::sync::mpsc::Sender<usize>);
    impl Wake for Calls {
        fn wake(self: Arc<Self>) {
            let handle = self.0.get().unwrap();
            drop((handle.stats(), handle.exceptions(), handle.last_report()));
            drop((handle.forced(), handle.asked(|_| ()), handle.hint()));
            let _ = self.1.send(handle.exception_counts().len());
        }
    }
    let (source, passes, go) = slow();
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle();
    next(&passes);
    let (woken, wakes) = channel();
    let calls = Arc::new(Calls(OnceLock::new(), woken));
    calls.0.get_or_init(|| handle.clone());
    let waker = Waker::from(calls);
    let mut context = Context::from_waker(&waker);
    let (mut forced, mut asked) = (pin!(handle.forced()), pin!(handle.asked(|_| ())));
    assert!(forced.as_mut().poll(&mut context).is_pending());
    assert!(asked.as_mut().poll(&mut context).is_pending());
    drop(go);
    // Without a deadlock, both are woken.
    for _ in 0..2 {
        wakes.recv_timeout(LONG).unwrap();
    }
    block_on(asked).unwrap();
    block_on(forced).unwrap();
    let mut ended = pin!(handle.ended());
    assert!(ended.as_mut().poll(&mut context).is_pending());
    running.stop(LONG).unwrap();
    wakes.recv_timeout(LONG).unwrap();
    block_on(ended).unwrap();
}

#[test]
fn a_future_made_on_the_loops_own_thread_ends_elsewhere() {
    let (source, _) = keeping();
    let it = looped(source, quiet());
    let inside = it.handle();
    let (send, made) = channel();
    let mut send = Some(send);
    let it = it.on_report(move |_, _| {
        if let Some(send) = send.take() {
            // Nothing is written in a callback, so the pause is there already.
            block_on(inside.paused()).unwrap();
            inside.resume().unwrap();
            drop(send.send((inside.forced(), inside.asked(|view| *view.scope))));
        }
    });
    let running = it.spawn("it").unwrap();
    let (forced, asked) = made.recv_timeout(LONG).unwrap();
    assert_eq!(block_on(asked).unwrap(), "scope");
    assert!(block_on(forced).unwrap().number > 1);
    running.stop(LONG).unwrap();
}

#[test]
fn a_detached_loop_runs_on_until_it_is_stopped() {
    let (source, passes) = keeping();
    let handle = looped(source, quiet()).spawn("it").unwrap().detach();
    next(&passes);
    let forced = handle.force(LONG).unwrap();
    // No handle is needed for it to go on.
    let only = handle.clone();
    drop(handle);
    assert!(only.force(LONG).unwrap().number > forced.number);
    assert!(!only.is_ended());
    only.stop();
    block_on(only.ended()).unwrap();
    // A loop that is not detached ends with its value.
    let (source, _) = keeping();
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle().clone();
    drop(running);
    handle.wait_ended(LONG).unwrap();
}

#[test]
fn a_task_waits_for_the_end_of_a_runner() {
    let (source, passes, go) = slow();
    let runner = Runner::start("loops", 2.try_into().unwrap()).unwrap();
    let handle = runner.add(looped(source, quiet()), Result::unwrap).unwrap();
    next(&passes);
    drop(runner.stopped());
    let mut stopped = pin!(runner.stopped());
    assert!(stopped.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    let waiting = thread::spawn({
        let stopped = runner.stopped();
        move || block_on(stopped)
    });
    drop(go);
    waiting.join().unwrap();
    assert!(handle.is_ended());
    block_on(stopped);
    block_on(runner.stopped());
}

#[test]
fn a_waker_that_panics_leaves_no_other_task_waiting() {
    struct Panics;
    impl Wake for Panics {
        fn wake(self: Arc<Self>) {
            panic!("a waker that panics, as it is to");
        }
    }
    struct Sends(std::sync::mpsc::Sender<()>);
    impl Wake for Sends {
        fn wake(self: Arc<Self>) {
            self.0.send(()).unwrap();
        }
    }
    let running = running();
    let (sender, woken) = channel();
    let wakers = [Waker::from(Arc::new(Panics)), Waker::from(Arc::new(Sends(sender)))];
    let handle = running.handle().clone();
    let mut futures = [(); 2].map(|()| Box::pin(handle.ended()));
    for (future, waker) in futures.iter_mut().zip(&wakers) {
        assert!(future.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
    }
    running.stop(LONG).unwrap();
    woken.recv_timeout(LONG).unwrap();
}

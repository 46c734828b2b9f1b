//! Foreign code: wakers, and values of the source and of callers, may call the loop whenever they
//! are cloned, woken or dropped. None of this happens under a lock, which would be a deadlock.
#![allow(unsafe_code, reason = "a waker that sees its clones")]

use std::cell::Cell;
use std::fmt;
use std::mem::ManuallyDrop;
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock};
use std::task::{Context, RawWaker, RawWakerVTable, Waker};
use std::thread;

use trueup_loop::{Config, Handle, Loop, Revision, Runner, Step};
use trueup_reconcile::{Hints, MemoryLedger, PassInput, Report, Source, Subscribed};

use crate::contract::sources::{LONG, SHORT};

/// Uses every lock that the loop and its handles share.
#[derive(Clone, Default)]
struct Calls(Arc<(OnceLock<Handle<Foreign>>, AtomicUsize)>);

thread_local! {
    /// True within a call: a waker that asks wakes itself.
    static IS_CALLING: Cell<bool> = const { Cell::new(false) };
}

impl Calls {
    fn call(&self) {
        if let Some(handle) = self.0.0.get()
            && !IS_CALLING.replace(true)
        {
            self.0.1.fetch_add(1, Ordering::Relaxed);
            drop((handle.stats(), handle.exceptions(), handle.last_report()));
            drop((handle.asked(|_| ()), handle.hint(), handle.subscribed()));
            IS_CALLING.set(false);
        }
    }

    /// Returns the number of calls since the last time.
    fn count(&self) -> usize {
        self.0.1.swap(0, Ordering::Relaxed)
    }

    fn waker(&self) -> Waker {
        // SAFETY: the table's functions keep the contract of a waker that owns an `Arc`.
        unsafe { Waker::new(Arc::into_raw(Arc::new(self.clone())).cast(), &TABLE) }
    }
}

static TABLE: RawWakerVTable = RawWakerVTable::new(
    |data| {
        let calls = borrowed(data);
        calls.call();
        RawWaker::new(Arc::into_raw(Arc::clone(&calls)).cast(), &TABLE)
    },
    |data| ManuallyDrop::into_inner(borrowed(data)).call(),
    |data| borrowed(data).call(),
    |data| ManuallyDrop::into_inner(borrowed(data)).call(),
);

/// Returns the `Arc` of a waker, without its ownership.
fn borrowed(data: *const ()) -> ManuallyDrop<Arc<Calls>> {
    // SAFETY: each waker's data comes from `Arc::into_raw`.
    ManuallyDrop::new(unsafe { Arc::from_raw(data.cast()) })
}

/// A value that calls the loop when it is dropped.
struct Value(Calls);

impl Drop for Value {
    fn drop(&mut self) {
        self.0.call();
    }
}

impl fmt::Debug for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Value")
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is foreign")
    }
}

impl std::error::Error for Value {}

impl Report for Value {
    fn converged(&self) -> bool {
        true
    }
}

/// A source all of whose values call the loop. Its second pass and its first two subscriptions
/// fail.
struct Foreign {
    calls: Calls,
    passes: u32,
    subscriptions: u32,
}

impl Source for Foreign {
    type Scope = Value;
    type Desired = Value;
    type Options = Value;
    type Report = Value;
    type Observed = ();
    type Error = Value;

    fn reconcile(&mut self, _: PassInput<'_, Self>) -> Result<Value, Value> {
        self.passes += 1;
        let value = Value(self.calls.clone());
        if self.passes == 2 { Err(value) } else { Ok(value) }
    }

    fn subscribe(&mut self, _: &Value, _: Hints) -> Subscribed<(), Value> {
        self.subscriptions += 1;
        match self.subscriptions {
            1 | 2 => Subscribed::Failed(Value(self.calls.clone())),
            _ => Subscribed::Active(()),
        }
    }
}

fn make() -> (Loop<'static, Foreign>, Handle<Foreign>, Calls) {
    let calls = Calls::default();
    let value = || Value(calls.clone());
    let source = Foreign { calls: calls.clone(), passes: 0, subscriptions: 0 };
    let config = Config::default().with_interval(SHORT);
    let looped = Loop::new(source, value(), value(), MemoryLedger::default(), value(), config);
    let handle = looped.handle();
    calls.0.0.get_or_init(|| handle.clone());
    (looped, handle, calls)
}

/// Runs a test on a thread of its own, because a deadlock would hang it.
fn within(test: impl FnOnce() + Send + 'static) {
    let (done, is_done) = channel();
    let running = thread::spawn(move || {
        test();
        done.send(()).unwrap();
    });
    if is_done.recv_timeout(LONG) == Err(std::sync::mpsc::RecvTimeoutError::Timeout) {
        panic!("a deadlock");
    }
    running.join().unwrap();
}

/// Makes each request of a handle, so that each value is replaced, refused or withdrawn.
fn request_all(handle: &Handle<Foreign>, calls: &Calls) {
    let value = || Value(calls.clone());
    for _ in 0..2 {
        drop(handle.set_desired(value()));
        let captured = value();
        drop(handle.change(move |desired| *desired = captured));
    }
    let captured = value();
    drop(handle.asked(move |_| drop(captured)));
    let captured = value();
    drop(handle.ask(move |_| drop(captured), SHORT));
    let answered = handle.asked(|view| Value(view.desired.0.clone()));
    drop(handle.paused());
    drop(handle.resume());
    drop(handle.forced());
    let waker = calls.waker();
    let mut context = Context::from_waker(&waker);
    let mut waiting = pin!(async {
        let revision = Revision::default();
        drop((answered.await, handle.tried(revision).await, handle.converged(revision).await));
    });
    // It leaves wakers behind, which are woken or dropped.
    let _ = waiting.as_mut().poll(&mut context);
    drop(pin!(handle.ended()).poll(&mut context));
}

#[test]
fn foreign_code_may_call_the_loop_at_each_request() {
    within(|| {
        let (mut looped, handle, calls) = make();
        for _ in 0..2 {
            looped.set_waker(calls.waker());
        }
        assert!(calls.count() > 0, "the replaced waker is dropped");
        while !handle.subscribed().is_some_and(|it| it.is_active()) {
            request_all(&handle, &calls);
            let step = looped.pass(true, true, &|| true, &|_| true);
            assert!(matches!(step, Step::Passed), "{step:?}");
            looped.poll(false);
        }
        assert!(calls.count() > 0);
        drop(handle.paused());
        handle.resume().unwrap();
        assert!(calls.count() > 0, "the waker is woken");
        request_all(&handle, &calls);
        let waker = calls.waker();
        let mut ended = pin!(handle.ended());
        assert!(ended.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        drop(looped);
        request_all(&handle, &calls);
        assert!(calls.count() > 0);
    });
}

#[test]
fn foreign_code_may_call_a_loop_of_a_runner() {
    within(|| {
        let runner = Arc::new(Runner::start("loops", std::num::NonZeroUsize::MIN).unwrap());
        let (looped, handle, calls) = make();
        let (inside, value) = (Arc::clone(&runner), Value(calls.clone()));
        let ended = move |_| {
            value.0.call();
            drop(inside.stop(SHORT));
        };
        runner.add(looped, ended).unwrap();
        for _ in 0..4 {
            request_all(&handle, &calls);
            drop(handle.force(LONG));
        }
        handle.stop();
        let waker = calls.waker();
        let mut stopped = pin!(runner.stopped());
        let _ = stopped.as_mut().poll(&mut Context::from_waker(&waker));
        smol::block_on(stopped);
        assert!(handle.is_ended());
    });
}

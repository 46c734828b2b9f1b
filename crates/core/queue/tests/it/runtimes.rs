//! Tickets as futures, under runtimes that do not know them.

use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Wake, Waker};
use std::time::Duration;

use trueup_queue::{Outcome, Queue};

use crate::support::*;

async fn submit_and_wait(queue: Queue<u8>) {
    let held = hold(&queue, 1);
    let waits = queue.submit(1, || 7).unwrap();
    let other = queue.submit(1, || panic!("on purpose")).unwrap();
    let cancelled = queue.submit(1, || ()).unwrap();
    assert!(cancelled.cancel());
    drop(held);
    assert_eq!(waits.await.unwrap(), Outcome::Done(7));
    let other: Outcome<()> = other.await.unwrap();
    assert_eq!(other, Outcome::Panicked("on purpose".into()));
    assert_eq!(cancelled.await.unwrap(), Outcome::Cancelled);
}

#[test]
fn under_tokio() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let queue = queue(1);
    runtime.block_on(async { tokio::spawn(submit_and_wait(queue)).await.unwrap() });
}

#[test]
fn under_smol() {
    smol::block_on(submit_and_wait(queue(1)));
}

#[test]
fn a_bound_of_the_runtime_ends_the_wait_and_not_the_job() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
    let (queue, log) = (queue(1), Log::default());
    let held = hold(&queue, 1);
    runtime.block_on(async {
        let ticket = queue.submit(1, log.job(1)).unwrap();
        assert!(tokio::time::timeout(Duration::from_millis(5), ticket).await.is_err());
    });
    drop(held);
    end(&queue);
    assert_eq!(log.all(), [1]);
}

#[test]
fn a_ticket_that_is_dropped_keeps_no_waker() {
    struct Idle;
    impl Wake for Idle {
        fn wake(self: Arc<Self>) {}
    }
    let queue = queue(1);
    let held = hold(&queue, 1);
    let idle: [Arc<Idle>; 2] = std::array::from_fn(|_| Arc::new(Idle));
    let wakers = idle.each_ref().map(|it| Waker::from(Arc::clone(it)));
    let uses = || idle.each_ref().map(|it| Arc::strong_count(it) - 2);
    {
        let mut ticket = pin!(queue.submit(1, || ()).unwrap());
        for (waker, expected) in wakers.iter().zip([[1, 0], [0, 1]]) {
            assert!(ticket.as_mut().poll(&mut Context::from_waker(waker)).is_pending());
            assert_eq!(uses(), expected);
        }
    }
    assert_eq!(uses(), [0, 0]);
    drop(held);
    end(&queue);
}

//! The results of subscribing, and the effect of a hint.

use std::sync::mpsc::channel;

use trueup_loop::Config;
use trueup_reconcile::{Extent, Hints, Subscribed};

use super::sources::*;

#[test]
fn subscribe_unsupported_is_timer_only_and_no_fault() {
    let (source, passes) = keeping();
    let (tell, told) = channel();
    let it = looped(source, quiet().with_interval(SHORT));
    let it = it.on_subscribe(move |answer| tell.send(answer.is_active()).unwrap());
    let running = it.spawn("it").unwrap();
    for _ in 0..4 {
        assert_eq!(next(&passes).extent, Extent::Everything);
    }
    let handle = running.handle();
    assert_eq!(handle.subscribed(), Some(Subscribed::Unsupported));
    rest(handle, &passes);
    let stats = handle.stats();
    assert_eq!((stats.subscription_failures, stats.subscribed), (0, false));
    assert_eq!(told.try_iter().collect::<Vec<_>>(), [false], "once");
}

#[test]
fn subscribe_error_is_timer_only_and_said_aloud_until_it_is_there_at_a_later_interval() {
    let (source, passes) = keeping();
    let mut tries = 0;
    let source = source.subscribed(move |_: Hints| {
        tries += 1;
        match tries {
            1..=3 => Subscribed::Failed(Oops { end: false }),
            _ => Subscribed::Active(pushed()),
        }
    });
    let (tell, told) = channel();
    let it = looped(source, quiet().with_interval(SHORT));
    let it = it.on_subscribe(move |answer| tell.send(answer.is_active()).unwrap());
    let running = it.spawn("it").unwrap();
    assert_eq!(told.recv_timeout(LONG), Ok(false), "aloud");
    assert_eq!(told.recv_timeout(LONG), Ok(true), "and when it is mended");
    assert_eq!(next(&passes).number, 1);
    let handle = running.handle();
    handle.force(LONG).unwrap();
    assert_eq!(handle.subscribed(), Some(Subscribed::Active(())));
    rest(handle, &passes);
    assert_eq!(handle.stats().subscription_failures, 3);
    assert_eq!(told.try_iter().count(), 0, "not for each try");
}

#[test]
fn a_hint_says_look_now_from_any_thread() {
    assert_eq!(Config::default().debounce().as_millis(), 100);
    let (source, passes) = keeping();
    let (give, hints) = channel();
    let source = source.subscribed(move |hints: Hints| {
        give.send(hints).unwrap();
        Subscribed::Active(pushed())
    });
    let running = looped(source, quiet()).spawn("it").unwrap();
    let hints = hints.recv_timeout(LONG).unwrap();
    assert_eq!(next(&passes).extent, Extent::Everything);
    for number in 2..5 {
        let hints = hints.clone();
        std::thread::spawn(move || hints.request_pass()).join().unwrap();
        let pass = next(&passes);
        assert_eq!((pass.number, pass.extent), (number, Extent::Dirty));
    }
    running.handle().hint().unwrap();
    assert_eq!(next(&passes).extent, Extent::Everything, "a handle's is about all");
    running.handle().hints().request_pass();
    assert_eq!(next(&passes).extent, Extent::Everything);
    let handle = running.handle().clone();
    running.stop(LONG).unwrap();
    hints.request_pass();
    let stats = handle.stats();
    assert_eq!((stats.full_passes, stats.dirty_passes), (3, 3));
}

#[test]
fn the_first_hint_arms_the_wakeup_and_later_ones_do_not_push_it_back() {
    let (source, passes) = keeping();
    let (give, hints) = channel();
    let source = source.subscribed(move |hints: Hints| {
        give.send(hints).unwrap();
        Subscribed::Active(pushed())
    });
    let config = quiet().with_debounce(10 * SHORT);
    let running = looped(source, config).spawn("it").unwrap();
    let hints = hints.recv_timeout(LONG).unwrap();
    next(&passes);
    let first = std::time::Instant::now();
    // With constant hints, the pass still comes.
    while passes.try_recv().is_err() {
        hints.request_pass();
        assert!(first.elapsed() < LONG);
        std::thread::yield_now();
    }
    assert!(first.elapsed() >= 10 * SHORT);
    running.stop(LONG).unwrap();
}

//! Pause, resume, stop, the end, and waits for convergence.

use std::sync::mpsc::{TryRecvError, channel};
use std::thread;

use trueup_loop::{ErrorKind, Revision};
use trueup_reconcile::Extent;

use super::sources::*;

#[test]
fn pause_guarantees_no_write_afterwards_and_resume_looks_again() {
    let (source, passes) = keeping();
    let running = looped(source, quiet().with_interval(SHORT)).spawn("it").unwrap();
    let handle = running.handle();
    next(&passes);
    handle.pause(LONG).unwrap();
    let before = passes.try_iter().count();
    assert!(handle.stats().paused);
    handle.hint().unwrap();
    handle.set_desired(2).unwrap();
    assert_eq!(handle.force(LONG).unwrap_err().kind(), ErrorKind::Paused);
    // Many intervals pass.
    assert!(passes.recv_timeout(20 * SHORT).is_err(), "after {before}");
    handle.resume().unwrap();
    let pass = next(&passes);
    assert_eq!((pass.extent, pass.desired), (Extent::Everything, 2));
    running.stop(LONG).unwrap();
}

#[test]
fn a_running_pass_is_told_of_a_pause_and_of_a_stop_and_begins_no_further_step() {
    // Each pass continues until it is asked to stop; without that, it never ends.
    let (step, steps) = channel();
    let (source, passes) = Scripted::new(move |given, _, limits| {
        while limits.should_continue() {
            let _ = step.send(given.number);
            thread::yield_now();
        }
        Ok(Report1 { cut: true, ..Report1::default() })
    });
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle();
    assert_eq!(steps.recv_timeout(LONG), Ok(1));
    handle.pause(LONG).unwrap();
    let taken: Vec<_> = steps.try_iter().collect();
    assert_eq!(steps.try_recv(), Err(TryRecvError::Empty), "after {taken:?}");
    handle.resume().unwrap();
    assert_eq!(steps.recv_timeout(LONG), Ok(2));
    handle.stop();
    handle.wait_ended(LONG).unwrap();
    assert_eq!(passes.try_iter().count(), 2, "what is left is left");
}

#[test]
fn a_deadline_ends_a_pass_that_goes_on_and_another_follows() {
    let (source, passes) = Scripted::new(|_, _, limits| {
        while limits.should_continue() {
            thread::yield_now();
        }
        Ok(Report1 { cut: true, ..Report1::default() })
    });
    let running = looped(source, quiet().with_deadline(SHORT)).spawn("it").unwrap();
    for number in 1..=3 {
        assert_eq!(next(&passes).number, number);
    }
    running.stop(LONG).unwrap();
}

#[test]
fn an_error_that_is_the_last_ends_the_loop_and_is_kept() {
    let (source, passes) = Scripted::new(|given, _, _| match given.number {
        1 => Ok(converged(given)),
        _ => Err(Oops { end: true }),
    });
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle().clone();
    next(&passes);
    let forced = handle.force(LONG).unwrap_err();
    assert!(matches!(forced.kind(), ErrorKind::PassFailed | ErrorKind::Ended));
    handle.wait_ended(LONG).unwrap();
    assert_eq!(*handle.last_error().unwrap(), Oops { end: true });
    assert!(handle.hint().unwrap_err().is_ended());
    assert!(handle.set_desired(3).unwrap_err().is_ended());
    let error = running.stop(LONG).unwrap_err();
    assert!(error.is_scope_ended());
    let cause = std::error::Error::source(&error).unwrap();
    assert_eq!(cause.downcast_ref(), Some(&Oops { end: true }));
}

#[test]
fn waiting_until_converged_gives_the_report_over_that_revision_or_a_later_one() {
    // Every second pass converges.
    let (source, passes) = Scripted::new(|given, _, _| {
        Ok(Report1 {
            number: given.desired,
            converged: given.number % 2 == 0,
            ..Report1::default()
        })
    });
    let running = looped(source, quiet().with_interval(SHORT)).spawn("it").unwrap();
    let handle = running.handle();
    let report = handle.wait_converged(Revision::default(), LONG).unwrap();
    assert!(report.converged && report.number == 1);
    let second = handle.set_desired(2).unwrap();
    let third = handle.set_desired(3).unwrap();
    assert!(second < third);
    let report = handle.wait_converged(second, LONG).unwrap();
    assert!(report.converged && report.number >= 2);
    let report = handle.wait_converged(third, LONG).unwrap();
    assert!(report.converged && report.number == 3);
    rest(handle, &passes);
}

#[test]
fn what_has_converged_is_had_at_once_also_when_paused_and_at_the_end() {
    let (source, passes) = keeping();
    let running = looped(source, quiet()).spawn("it").unwrap();
    let handle = running.handle();
    handle.wait_converged(Revision::default(), LONG).unwrap();
    handle.pause(LONG).unwrap();
    handle.wait_converged(Revision::default(), LONG).unwrap();
    let declared = handle.set_desired(2).unwrap();
    let waited = handle.wait_converged(declared, LONG).unwrap_err();
    assert_eq!(waited.kind(), ErrorKind::Paused, "no pass will start");
    rest(handle, &passes);
    let waited = handle.wait_converged(declared, LONG).unwrap_err();
    assert!(waited.is_ended());
}

#[test]
fn whoever_waits_until_converged_is_told_of_a_pause_a_stop_and_the_end() {
    for what in ["pause", "stop", "end"] {
        let (go, wait) = channel::<()>();
        let (source, passes) = Scripted::new(move |given, _, _| {
            let _ = wait.recv();
            match what {
                "end" => Err(Oops { end: true }),
                _ => Ok(Report1 { number: given.number, ..Report1::default() }),
            }
        });
        let running = looped(source, quiet()).spawn("it").unwrap();
        let handle = running.handle().clone();
        next(&passes);
        let (asked, asking) = channel();
        let waiting = thread::spawn({
            let handle = handle.clone();
            move || {
                asked.send(()).unwrap();
                handle.wait_converged(Revision::default(), LONG).unwrap_err().kind()
            }
        });
        asking.recv_timeout(LONG).unwrap();
        match what {
            "pause" => assert!(handle.pause(SHORT).unwrap_err().is_timeout()),
            "stop" => handle.stop(),
            _ => {}
        }
        drop(go);
        let expected = match what {
            "pause" => ErrorKind::Paused,
            _ => ErrorKind::Ended,
        };
        assert_eq!(waiting.join().unwrap(), expected, "{what}");
        handle.stop();
        handle.wait_ended(LONG).unwrap();
    }
}

#[test]
fn on_the_loops_own_thread_nothing_waits_for_it_to_converge() {
    let (source, _passes) = Scripted::new(|_, _, _| Ok(Report1::default()));
    let it = looped(source, quiet());
    let handle = it.handle();
    let (tell, told) = channel();
    let it = it.on_report(move |_, _| {
        let waited = handle.wait_converged(Revision::default(), LONG);
        tell.send(waited.unwrap_err().kind()).unwrap();
    });
    let running = it.spawn("it").unwrap();
    assert_eq!(told.recv_timeout(LONG), Ok(ErrorKind::OwnThread));
    running.stop(LONG).unwrap();
}

//! Properties that hold in every interleaving of the threads.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::task::{Wake, Waker};
use std::time::Duration;

use shuttle::future::block_on;
use shuttle::rand::{Rng as _, thread_rng};
use shuttle::thread;

use trueup_reconcile::Report as _;

use crate::source::{LONG, Noting, WRONG, check, make, start};
use crate::{Due, ErrorKind, Handle, Member, Revision, Runner, Step, Task, sync};

/// The number of interleavings tried for each model.
const ORDERS: usize = 1_000;

#[test]
fn a_forced_pass_is_answered_once_by_a_pass_that_began_after_it() {
    check(ORDERS, || {
        let model = start(false);
        let forcing: Vec<_> = (0..2)
            .map(|_| {
                let (handle, seen) = (model.handle.clone(), Arc::clone(&model.seen));
                thread::spawn(move || {
                    let before = seen.lock().unwrap().begun;
                    let report = handle.force(LONG).unwrap();
                    assert!(report.number > before, "{report:?} after {before}");
                    assert!(seen.lock().unwrap().over >= report.number, "its callback is over");
                })
            })
            .collect();
        for forcing in forcing {
            forcing.join().unwrap();
        }
        // The first pass and one for each request, or fewer if requests share a pass.
        assert!(model.seen.lock().unwrap().begun <= 3);
        model.end();
    });
}

#[test]
fn no_hint_is_lost() {
    check(ORDERS, || {
        let model = start(false);
        let hinting = {
            let (handle, seen) = (model.handle.clone(), Arc::clone(&model.seen));
            let begun = Arc::clone(&model.begun);
            thread::spawn(move || {
                let before = seen.lock().unwrap().begun;
                handle.hint().unwrap();
                let (count, changed) = &*begun;
                let mut count = count.lock().unwrap();
                while *count <= before {
                    count = changed.wait(count).unwrap();
                }
            })
        };
        hinting.join().unwrap();
        model.end();
    });
}

#[test]
fn nothing_is_written_between_pause_and_resume() {
    check(ORDERS, || {
        let model = start(true);
        let asking = {
            let handle = model.handle.clone();
            thread::spawn(move || {
                handle.hint().unwrap();
                match handle.force(LONG) {
                    Ok(_) => {}
                    Err(error) => assert_eq!(error.kind(), ErrorKind::Paused),
                }
            })
        };
        model.handle.pause(LONG).unwrap();
        let before = {
            let mut seen = model.seen.lock().unwrap();
            assert_eq!(seen.begun, seen.over, "the running pass is over");
            seen.forbidden = true;
            seen.begun
        };
        for _ in 0..4 {
            thread::yield_now();
        }
        {
            let mut seen = model.seen.lock().unwrap();
            assert_eq!(seen.begun, before);
            seen.forbidden = false;
        }
        model.handle.resume().unwrap();
        asking.join().unwrap();
        // After the resume a pass runs. The wait has no time limit, so a lost wake-up would show
        // here.
        assert!(model.handle.force(LONG).unwrap().number > before);
        model.end();
    });
}

#[test]
fn a_pass_that_begins_after_another_state_was_declared_uses_it() {
    check(ORDERS, || {
        let model = start(false);
        let declaring: Vec<_> = [1, 2]
            .map(|desired| {
                let handle = model.handle.clone();
                thread::spawn(move || {
                    handle.set_desired(desired).unwrap();
                    assert_ne!(handle.force(LONG).unwrap().desired, 0);
                })
            })
            .into();
        for declaring in declaring {
            declaring.join().unwrap();
        }
        model.handle.set_desired(3).unwrap();
        assert_eq!(model.handle.force(LONG).unwrap().desired, 3);
        model.end();
    });
}

#[test]
fn whoever_waits_for_a_revision_to_converge_gets_a_report_over_it_or_a_later_one() {
    check(ORDERS, || {
        let model = start(false);
        let declaring: Vec<_> = [1, 2]
            .map(|desired| {
                let handle = model.handle.clone();
                thread::spawn(move || {
                    let revision = handle.set_desired(desired).unwrap();
                    let report = handle.wait_converged(revision, LONG).unwrap();
                    assert_ne!(report.desired, 0);
                    (revision, desired)
                })
            })
            .into();
        let declared = declaring.into_iter().map(|it| it.join().unwrap());
        let (revision, last) = declared.max().unwrap();
        let report = model.handle.wait_converged(revision, LONG).unwrap();
        assert_eq!(report.desired, last);
        model.end();
    });
}

#[test]
fn each_change_is_made_once_and_before_the_pass_that_answers_it() {
    check(ORDERS, || {
        let model = start(false);
        let changing: Vec<_> = [1, 10]
            .map(|more| {
                let handle = model.handle.clone();
                thread::spawn(move || {
                    let revision = handle.change(move |desired| *desired += more).unwrap();
                    let report = handle.wait_converged(revision, LONG).unwrap();
                    assert_eq!(report.desired / more % 10, 1, "{report:?}");
                    revision
                })
            })
            .into();
        for changing in changing {
            changing.join().unwrap();
        }
        assert_eq!(model.handle.force(LONG).unwrap().desired, 11);
        model.end();
    });
}

#[test]
fn a_change_and_another_desired_state_come_in_the_order_of_their_revisions() {
    check(ORDERS, || {
        let model = start(false);
        let changing = {
            let handle = model.handle.clone();
            thread::spawn(move || handle.change(|desired| *desired += 1).unwrap())
        };
        let declared = model.handle.set_desired(10).unwrap();
        let changed = changing.join().unwrap();
        let desired = if changed > declared { 11 } else { 10 };
        let report = model.handle.wait_converged(changed.max(declared), LONG);
        assert_eq!(report.unwrap().desired, desired);
        model.end();
    });
}

#[test]
fn a_question_is_answered_during_a_pause_or_refused_by_a_loop_that_ends() {
    check(ORDERS, || {
        let model = start(false);
        let asking = |stops: bool| {
            let handle = model.handle.clone();
            thread::spawn(move || match handle.ask(|view| *view.desired, LONG) {
                Ok(desired) => assert_eq!(desired, 0),
                Err(error) => assert!(stops && error.is_ended(), "{error}"),
            })
        };
        let before = [asking(false), asking(false)];
        model.handle.pause(LONG).unwrap();
        for asking in before {
            asking.join().unwrap();
        }
        let last = asking(true);
        model.handle.stop();
        last.join().unwrap();
        model.end();
    });
}

/// A converged report is dropped once it no longer holds, unless a caller waited for it.
#[test]
fn whoever_waited_for_a_report_that_converged_is_given_it_though_the_next_pass_does_not() {
    check(ORDERS, || {
        let model = start(false);
        let waiting = {
            let handle = model.handle.clone();
            thread::spawn(move || {
                let report = handle.wait_converged(Revision::default(), LONG).unwrap();
                assert_ne!(report.desired, WRONG);
            })
        };
        model.handle.force(LONG).unwrap();
        let wrong = model.handle.change(|desired| *desired = WRONG).unwrap();
        assert!(!model.handle.force(LONG).unwrap().converged());
        // Time to take the report before there is another.
        for _ in 0..4 {
            thread::yield_now();
        }
        model.handle.change(|desired| *desired = 0).unwrap();
        let report = model.handle.wait_converged(wrong, LONG).unwrap();
        assert_eq!(report.desired, 0);
        waiting.join().unwrap();
        model.end();
    });
}

/// As with threads: no wake-up of a task is lost, and the loop's end ends each wait.
#[test]
fn tasks_are_answered_by_passes_after_their_requests_or_the_loop_ends() {
    check(ORDERS, || {
        let model = start(false);
        let asking: Vec<_> = (0..2)
            .map(|number| {
                let (handle, seen) = (model.handle.clone(), Arc::clone(&model.seen));
                thread::spawn(move || {
                    let before = seen.lock().unwrap().begun;
                    let (forced, asked) = (handle.forced(), handle.asked(|view| *view.desired));
                    if number == 0 {
                        drop(handle.asked(|_| ()));
                    }
                    block_on(async {
                        let report = forced.await.unwrap();
                        assert!(report.number > before, "{report:?} after {before}");
                        assert_eq!(asked.await.unwrap(), 0);
                    });
                })
            })
            .collect();
        for asking in asking {
            asking.join().unwrap();
        }
        let waiting = {
            let handle = model.handle.clone();
            thread::spawn(move || {
                let (forced, asked) = (handle.forced(), handle.asked(|_| ()));
                let (tried, ended) = (handle.tried(Revision::default()), handle.ended());
                block_on(async {
                    for answer in [forced.await.map(drop), asked.await, tried.await.map(drop)] {
                        assert!(answer.map_or_else(|error| error.is_ended(), |()| true));
                    }
                    ended.await.unwrap();
                });
            })
        };
        model.handle.stop();
        waiting.join().unwrap();
        model.end();
    });
}

#[test]
fn nothing_is_written_once_a_task_has_paused() {
    check(ORDERS, || {
        let model = start(true);
        block_on(model.handle.paused()).unwrap();
        {
            let mut seen = model.seen.lock().unwrap();
            assert_eq!(seen.begun, seen.over, "the running pass is over");
            seen.forbidden = true;
        }
        for _ in 0..4 {
            thread::yield_now();
        }
        model.seen.lock().unwrap().forbidden = false;
        model.handle.resume().unwrap();
        block_on(model.handle.forced()).unwrap();
        model.end();
    });
}

/// Random calls from three threads at once: each returns a documented answer, and the loop ends.
#[test]
fn whatever_is_asked_every_call_returns_and_the_loop_ends() {
    check(2 * ORDERS, || {
        let model = start(true);
        let threads: Vec<_> = (0..3)
            .map(|_| {
                let handle = model.handle.clone();
                thread::spawn(move || {
                    for _ in 0..3 {
                        let stats = handle.stats();
                        assert!(stats.failed_passes <= stats.full_passes);
                        let answer = match thread_rng().gen_range(0..8_u8) {
                            0 => handle.hint(),
                            1 => handle.force(LONG).map(drop),
                            2 => handle.pause(LONG),
                            3 => handle.resume(),
                            4 => handle.set_desired(9).map(drop),
                            5 => handle.change(|desired| *desired += 1).map(drop),
                            6 => handle.wait_converged(Revision::default(), LONG).map(drop),
                            _ => {
                                handle.stop();
                                Ok(())
                            }
                        };
                        if let Err(error) = answer {
                            let allowed = [ErrorKind::Ended, ErrorKind::Paused];
                            assert!(allowed.contains(&error.kind()), "{error}");
                        }
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        model.end();
    });
}

#[test]
fn calls_from_within_a_callback_return() {
    check(ORDERS, || {
        let (it, seen, _) = make(false);
        let handle = it.handle();
        let inner = it.handle();
        let it = it.on_report(move |_, _| {
            seen.lock().unwrap().over += 1;
            let own = inner.force(LONG).unwrap_err();
            assert_ne!(own.kind(), ErrorKind::Timeout, "it did not wait for itself");
            // Everything is written, so there is nothing to wait for.
            match inner.pause(LONG) {
                Ok(()) => inner.resume().or_else(|error| match error.kind() {
                    ErrorKind::Ended => Ok(()),
                    _ => Err(error),
                }),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Ended);
                    Ok(())
                }
            }
            .unwrap();
        });
        let driver = thread::spawn(move || it.run().unwrap());
        handle.force(LONG).map(drop).unwrap_or_else(|error| {
            // The callback's pause comes in between.
            assert_eq!(error.kind(), ErrorKind::Paused);
        });
        handle.stop();
        handle.wait_ended(LONG).unwrap();
        driver.join().unwrap();
    });
}

#[test]
fn a_loop_that_is_dropped_leaves_no_caller_waiting() {
    check(ORDERS, || {
        let (it, _, _) = make(false);
        let handle = it.handle();
        let waiting = thread::spawn(move || {
            assert_eq!(handle.force(LONG).unwrap_err().kind(), ErrorKind::Ended);
            handle.wait_ended(LONG).unwrap();
        });
        drop(it);
        waiting.join().unwrap();
    });
}

/// The turn of a wake-up may begin before the runner has the task, and end after it.
#[test]
fn a_task_that_is_woken_before_it_is_added_runs() {
    struct Runs {
        count: sync::Mutex<u32>,
        changed: sync::Condvar,
    }
    struct Counting(Arc<Runs>, Member);
    impl Task for Counting {
        fn turn(&self, _: Due<'_>) -> ControlFlow<()> {
            *sync::lock(&self.0.count) += 1;
            self.0.changed.notify_all();
            ControlFlow::Break(())
        }

        fn stop(&self) {}
    }
    check(ORDERS, || {
        let runner = Runner::start("tasks", NonZeroUsize::MIN).unwrap();
        let runs = Arc::new(Runs { count: sync::Mutex::new(0), changed: sync::Condvar::new() });
        let is_added = runner.add_task(|member| {
            member.wake();
            thread::yield_now();
            Arc::new(Counting(Arc::clone(&runs), member))
        });
        assert!(is_added);
        let mut count = sync::lock(&runs.count);
        while *count == 0 {
            count = sync::wait(&runs.changed, count);
        }
        drop(count);
        runner.stop(LONG).unwrap();
    });
}

/// A driver of single steps sleeps until it is woken, also with an open pass that only looked. Its
/// waker uses the locks of the loop.
#[test]
fn each_request_that_ends_a_look_wakes_a_driver_whose_waker_calls_the_loop() {
    struct Calls {
        handle: Handle<Noting>,
        is_woken: sync::Mutex<bool>,
        woken: sync::Condvar,
    }
    impl Wake for Calls {
        fn wake(self: Arc<Self>) {
            drop((self.handle.stats(), self.handle.last_report(), self.handle.exceptions()));
            *sync::lock(&self.is_woken) = true;
            self.woken.notify_one();
        }
    }
    check(ORDERS, || {
        let (it, seen, _) = make(false);
        let handle = it.handle();
        let mut it = it.on_report(move |_, _| {
            let mut seen = seen.lock().unwrap();
            seen.over = seen.begun;
        });
        let calls = Arc::new(Calls {
            handle: it.handle(),
            is_woken: sync::Mutex::new(false),
            woken: sync::Condvar::new(),
        });
        it.set_waker(Waker::from(Arc::clone(&calls)));
        let driver = thread::spawn(move || {
            let mut step = it.poll(false);
            loop {
                step = match step {
                    Step::Ended(result) => return result.unwrap(),
                    Step::Rest(rest) if rest.is_pass_due => {
                        it.pass(thread_rng().r#gen(), false, &|| true, &|_| true)
                    }
                    Step::Rest(rest) => {
                        // Only a wake-up comes before the time to look again.
                        let near = sync::now() + Duration::from_secs(1);
                        let until = rest.until.filter(|at| *at < near).unwrap_or(near + LONG);
                        let is_woken = sync::lock(&calls.is_woken);
                        let is_asleep = |is_woken: &bool| !is_woken;
                        *sync::wait_while(&calls.woken, is_woken, until, is_asleep) = false;
                        it.poll(false)
                    }
                    Step::Passed | Step::Looked => it.poll(false),
                }
            }
        });
        let declaring = {
            let handle = handle.clone();
            thread::spawn(move || {
                handle.set_desired(1).unwrap();
                handle.change(|desired| *desired += 1).unwrap();
            })
        };
        handle.pause(LONG).unwrap();
        handle.resume().unwrap();
        assert_eq!(handle.ask(|view| *view.scope, LONG).unwrap(), ());
        declaring.join().unwrap();
        handle.stop();
        handle.wait_ended(LONG).unwrap();
        driver.join().unwrap();
    });
}

/// Tests the checker: if wake-ups are lost, it finds the thread that waits for ever.
#[test]
#[should_panic(expected = "deadlock")]
fn lost_wake_ups_would_be_found() {
    shuttle::check_random(
        || {
            sync::reset();
            sync::lose_wake_ups();
            let model = start(false);
            model.handle.force(LONG).unwrap();
            model.handle.force(LONG).unwrap();
            model.end();
        },
        100,
    );
}

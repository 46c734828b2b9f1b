//! Hints of the backend, in addition to the provider's.

use std::fs;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex};

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use trueup_control::{
    Action, Backend, Config, Engine, Error, ErrorKind, Objects, Observed, Provider, Started,
    Subscription, Task, WatchedFile,
};
use trueup_reconcile::{Drained, Hints, Source as _, Subscribed};
use trueup_testkit::Scratch;

use crate::world::Sim;

/// A backend without objects, with a subscription from the test.
#[derive(Default)]
struct Hinting(Mutex<Option<Subscribed<Box<dyn Subscription>, Error>>>);

impl Backend for Hinting {
    fn observe(&self) -> Result<Observed, Error> {
        Ok(Observed::default())
    }

    fn subscribe(&self, hints: Hints) -> Subscribed<Box<dyn Subscription>, Error> {
        hints.request_pass();
        // Without an answer the backend's client panics.
        self.0.lock().unwrap().take().unwrap()
    }

    fn start(&self, _: &Action, _: &str) -> Started {
        Started::Done
    }

    fn task(&self, _: &str) -> Result<Task, Error> {
        Ok(Task::Unknown)
    }
}

/// A subscription with a descriptor, and the result of draining it when it is readable.
struct Counter(Arc<OwnedFd>, Drained);

/// A provider without a known state, and its subscription.
struct Hinted(Option<Counter>);

impl Provider for Hinted {
    fn desired(&mut self) -> Result<Option<Objects>, Error> {
        Ok(None)
    }

    fn subscribe(&mut self, _: Hints) -> Subscribed<Box<dyn Subscription>, Error> {
        match self.0.take() {
            Some(counter) => Subscribed::Active(Box::new(counter)),
            None => Subscribed::Unsupported,
        }
    }
}

impl Subscription for Counter {
    fn descriptor(&self) -> Option<BorrowedFd<'_>> {
        Some(self.0.as_fd())
    }

    fn drain(&mut self) -> Result<Drained, Error> {
        match rustix::io::read(&*self.0, &mut [0; 8]) {
            Ok(_) => Ok(self.1),
            Err(_) => Ok(Drained::Nothing),
        }
    }
}

fn subscribe<P: Provider>(
    provider: P,
    answer: Option<Subscribed<Box<dyn Subscription>, Error>>,
) -> Result<Engine<Hinting, P>, ErrorKind> {
    let backend = Hinting(Mutex::new(answer));
    let journal = Sim::new().journal();
    let mut engine = Engine::new(backend, provider, &journal, Config::default()).unwrap();
    match engine.subscribe(&(), Hints::new(|| {})) {
        Subscribed::Active(()) => Ok(engine),
        Subscribed::Failed(error) => Err(error.kind()),
        Subscribed::Unsupported => unreachable!("starts that take long give hints"),
    }
}

fn is_readable(descriptor: BorrowedFd<'_>) -> bool {
    let mut descriptors = [PollFd::from_borrowed_fd(descriptor, PollFlags::IN)];
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    poll(&mut descriptors, Some(&now)).unwrap() > 0
}

#[test]
fn the_events_of_provider_and_backend_come_by_one_descriptor() {
    let folder = Scratch::make("hints").unwrap();
    let file = folder.join("desired.json");
    fs::write(&file, "{}").unwrap();
    let counter = Arc::new(eventfd(0, EventfdFlags::NONBLOCK).unwrap());
    let answer = Subscribed::Active(Box::new(Counter(Arc::clone(&counter), Drained::Lost)) as _);
    let mut both = subscribe(WatchedFile::json(&file), Some(answer)).unwrap();
    assert!(!is_readable(both.descriptor().unwrap()));

    rustix::io::write(&*counter, &1u64.to_ne_bytes()).unwrap();
    assert!(is_readable(both.descriptor().unwrap()));
    assert_eq!(both.drain().unwrap(), Drained::Lost);
    assert!(!is_readable(both.descriptor().unwrap()));

    fs::write(&file, "{ }").unwrap();
    assert!(is_readable(both.descriptor().unwrap()));
    assert_eq!(both.drain().unwrap(), Drained::Hint);
    assert!(!is_readable(both.descriptor().unwrap()));

    // The more important of the two results counts.
    fs::write(&file, "{}").unwrap();
    rustix::io::write(&*counter, &1u64.to_ne_bytes()).unwrap();
    assert_eq!(both.drain().unwrap(), Drained::Lost);
}

#[test]
fn a_backend_alone_hints_and_one_that_fails_is_subscribed_to_again() {
    let counter = Arc::new(eventfd(1, EventfdFlags::NONBLOCK).unwrap());
    let answer = Subscribed::Active(Box::new(Counter(counter, Drained::Lost)) as _);
    let mut alone = subscribe(None, Some(answer)).unwrap();
    assert!(is_readable(alone.descriptor().unwrap()));
    assert_eq!(alone.drain().unwrap(), Drained::Lost);

    let mut none = subscribe(None, Some(Subscribed::Unsupported)).unwrap();
    assert!(none.descriptor().is_none());
    assert_eq!(none.drain().unwrap(), Drained::Nothing);

    let failed = Subscribed::Failed(Error::new(ErrorKind::Backend, "no events"));
    for answer in [Some(failed), None] {
        assert_eq!(subscribe(None, answer).unwrap_err(), ErrorKind::Backend);
    }
}

#[test]
fn lost_events_of_one_part_count_more_than_a_hint_of_the_other() {
    for parts in [[Drained::Lost, Drained::Hint], [Drained::Hint, Drained::Lost]] {
        let [provider, backend] = parts.map(|drained| {
            let readable = eventfd(1, EventfdFlags::NONBLOCK).unwrap();
            Counter(Arc::new(readable), drained)
        });
        let backend = Subscribed::Active(Box::new(backend) as _);
        let mut both = subscribe(Hinted(Some(provider)), Some(backend)).unwrap();
        assert_eq!(both.drain().unwrap(), Drained::Lost, "{parts:?}");
        assert_eq!(both.drain().unwrap(), Drained::Nothing);
    }
}

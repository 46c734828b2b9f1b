//! Checks a backend's normalisers against the backend itself, for its tests.

use std::collections::BTreeSet;
use std::thread;
use std::time::{Duration, Instant};

use trueup_control::{
    Action, Backend, Config, Error, ErrorKind, Normalisers, Objects, Plan, Started, Task, plan,
};

/// The interval between two polls of a task.
const POLL: Duration = Duration::from_millis(50);

/// Writes objects to a backend, reads them back, and checks that no change is left:
/// `plan(normalise(read(write(x))))` must be empty. Objects with other keys are not touched.
///
/// Call it with a generator of objects, on a backend that the test may write to. `timeout` is for
/// each task.
///
/// # Errors
///
/// [`Invalid`](ErrorKind::Invalid) names the fields that read back as drift, or a normaliser that
/// is not idempotent; [`Backend`](ErrorKind::Backend): the backend refused, or did not answer;
/// [`Timeout`](ErrorKind::Timeout).
pub fn check_backend<B: Backend>(
    backend: &B,
    normalisers: &Normalisers,
    desired: &Objects,
    timeout: Duration,
) -> Result<(), Error> {
    let config = Config::default().with_create().with_normalisers(normalisers.clone());
    let rest = |backend: &B| -> Result<(Plan, Objects), Error> {
        let observed = backend.observe()?;
        if let Some((key, why)) = observed.unread.first_key_value() {
            let message = format!("{key} could not be read: {why}");
            return Err(Error::new(ErrorKind::Backend, message));
        }
        let mut observed = observed.objects;
        observed.retain(|key, _| desired.contains_key(key));
        let plan = plan(desired, &observed, &BTreeSet::new(), &config);
        Ok((plan, observed))
    };
    for (at, action) in rest(backend)?.0.actions.iter().enumerate() {
        execute(backend, action, &format!("check-{at}"), timeout)?;
    }
    let (left, observed) = rest(backend)?;
    if let Some(action) = left.actions.first() {
        let message = format!(
            "what was written reads back as drift, so it would be written in each pass: {action}; \
             add normalisers for these fields"
        );
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    for (key, object) in desired.iter().chain(&observed) {
        let once = normalisers.object(object);
        if normalisers.object(&once) != once {
            let message = format!("{key}: a normaliser is not idempotent: {once:?}");
            return Err(Error::new(ErrorKind::Invalid, message));
        }
    }
    Ok(())
}

fn execute<B: Backend>(
    backend: &B,
    action: &Action,
    request: &str,
    timeout: Duration,
) -> Result<(), Error> {
    let failed = |why: &str| Err(Error::new(ErrorKind::Backend, format!("{action}: {why}")));
    let task = match backend.start(action, request) {
        Started::Done => return Ok(()),
        Started::Task(task) if task.is_empty() => return Ok(()),
        Started::Task(task) => task,
        Started::Refused { message, .. } | Started::Indeterminate { message } => {
            return failed(&message);
        }
    };
    let begun = Instant::now();
    loop {
        match backend.task(&task)? {
            Task::Succeeded => return Ok(()),
            Task::Failed(why) => return failed(&why),
            Task::Unknown => return failed("its task is not known"),
            Task::Running { .. } if begun.elapsed() >= timeout => {
                let message = format!("{action}: task {task} has not ended");
                return Err(Error::new(ErrorKind::Timeout, message));
            }
            Task::Running { .. } => thread::sleep(POLL),
        }
    }
}

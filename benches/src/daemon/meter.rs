//! The processor time of trueup in a process that does other things as well.

use std::time::Duration;

use anyhow::Result;

use crate::listener::Listener;
use crate::processor;

/// What the process uses from now on, without the listener, and without what the calling thread
/// does beside its calls of the library.
pub(super) struct Meter<'a> {
    listener: &'a Listener,
    others: Duration,
    calls: Duration,
}

impl Meter<'_> {
    pub(super) fn start(listener: &Listener) -> Result<Meter<'_>> {
        Ok(Meter { listener, others: others(listener)?, calls: Duration::ZERO })
    }

    /// Makes a call that counts.
    pub(super) fn call<T>(&mut self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        let before = processor::of_this_thread()?;
        let result = call();
        self.calls += processor::of_this_thread()?.saturating_sub(before);
        result
    }

    /// Returns what was used.
    pub(super) fn read(&self) -> Result<Duration> {
        Ok(others(self.listener)?.saturating_sub(self.others) + self.calls)
    }
}

/// What all threads have used but the listener and the calling one.
fn others(listener: &Listener) -> Result<Duration> {
    let ours = listener.processor()? + processor::of_this_thread()?;
    Ok(processor::of_this_process()?.saturating_sub(ours))
}

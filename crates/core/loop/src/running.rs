//! Runs a loop on its own thread, or on a runner's threads.

use std::mem;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use trueup_reconcile::Source;

use crate::control::Control;
use crate::runner::caught;
use crate::sync::thread::{self, JoinHandle};
use crate::turns::{Due, Member};
use crate::watched::Watched;
use crate::{Error, ErrorKind, Handle, Loop, Runner, Step, Task};

/// A loop that runs on its own thread. Dropping this stops the loop without waiting for it, unless
/// it is [detached](Self::detach).
///
/// ```
#[doc = include_str!("docs/easy.txt")]
/// # use std::time::Duration;
/// # use trueup_loop::{Config, Loop};
/// # fn main() -> Result<(), trueup_loop::Error> {
/// let it = Loop::new(Easy, (), 0, MemoryLedger::default(), (), Config::default());
/// let running = it.spawn("easy")?;
/// let handle = running.handle().clone(); // outlives the loop
/// running.stop(Duration::from_secs(10))?;
/// assert!(handle.is_ended());
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct Running<S: Source> {
    handle: Handle<S>,
    thread: Option<JoinHandle<Result<(), Error>>>,
}

impl<S: Source> Loop<'static, S> {
    /// Runs the loop on a new thread with this name. NULs, which a thread's name cannot hold, are
    /// removed.
    ///
    /// # Errors
    ///
    /// [`Os`](ErrorKind::Os) if the operating system refuses a thread.
    pub fn spawn(self, name: &str) -> Result<Running<S>, Error>
    where
        Self: Send + 'static,
    {
        let handle = self.handle();
        let thread = thread::Builder::new()
            .name(name.replace('\0', ""))
            .spawn(move || self.run())
            .map_err(Error::os)?;
        Ok(Running { handle, thread: Some(thread) })
    }
}

impl<S: Source> Running<S> {
    /// Returns the loop's controls; a clone of them outlives this.
    pub fn handle(&self) -> &Handle<S> {
        &self.handle
    }

    /// Stops the loop and waits for its thread.
    ///
    /// # Errors
    ///
    /// [`Timeout`](ErrorKind::Timeout) if a pass lasted longer: the loop still ends after that
    /// pass. The error of [`Loop::run`]. [`Panicked`](ErrorKind::Panicked) if the source or a
    /// callback panicked.
    pub fn stop(mut self, timeout: Duration) -> Result<(), Error> {
        self.handle.stop();
        self.handle.wait_ended(timeout)?;
        self.join()
    }

    /// Stops the loop and returns the future of its end, with the errors of [`stop`](Self::stop)
    /// except the timeout. It needs no runtime. If it is dropped, the loop still ends.
    pub fn stopped(mut self) -> impl Future<Output = Result<(), Error>> + use<S> {
        self.handle.stop();
        async move {
            self.handle.ended().await?;
            self.join()
        }
    }

    /// Lets the loop run on, and returns its controls. The loop then ends with
    /// [`Handle::stop`], with its scope, with a panic, or with the process, and not when its
    /// handles are dropped. [`Handle::last_error`] returns the error that ended the scope; a panic
    /// shows only in [`Handle::is_ended`].
    ///
    /// ```
    #[doc = include_str!("docs/easy.txt")]
    /// # use std::time::Duration;
    /// # use trueup_loop::{Config, Loop};
    /// # fn main() -> Result<(), trueup_loop::Error> {
    /// let it = Loop::new(Easy, (), 0, MemoryLedger::default(), (), Config::default());
    /// let handle = it.spawn("background")?.detach();
    /// assert!(handle.force(Duration::from_secs(10))?.converged());
    /// handle.stop();
    /// # Ok(())
    /// # }
    /// ```
    pub fn detach(mut self) -> Handle<S> {
        self.thread = None;
        self.handle.clone()
    }

    /// Waits for the thread's end. The loop is dropped, so the thread is about to return.
    fn join(&mut self) -> Result<(), Error> {
        let is_own = |it: &JoinHandle<_>| it.thread().id() == thread::current().id();
        if self.thread.as_ref().is_some_and(is_own) {
            return Err(Error::new(ErrorKind::OwnThread));
        }
        match self.thread.take().map(JoinHandle::join) {
            Some(Ok(result)) => result,
            Some(Err(_panic)) => Err(Error::new(ErrorKind::Panicked)),
            None => Ok(()),
        }
    }
}

impl<S: Source> Drop for Running<S> {
    fn drop(&mut self) {
        // Without the thread, the loop has ended or is detached.
        if self.thread.is_some() {
            self.handle.stop();
        }
    }
}

type OnEnd = Box<dyn FnOnce(Result<(), Error>) + Send>;

struct LoopTask<S: Source> {
    control: Arc<Control>,
    /// `None` during a turn, and once it has ended.
    running: Watched<Option<Box<RunningLoop<S>>>>,
    _member: Member,
}

struct RunningLoop<S: Source> {
    looped: Loop<'static, S>,
    ended: OnEnd,
}

impl Runner {
    /// Adds a loop, which runs from now on, and returns its controls. Once the loop is dropped,
    /// `ended` gets the result of [`Loop::run`], on a thread of the runner. After a panic of the
    /// source or of a callback, the result is [`Panicked`](ErrorKind::Panicked).
    ///
    /// Loops take turns, and each turn has at most one pass.
    ///
    /// # Errors
    ///
    /// [`Ended`](ErrorKind::Ended) if the runner was stopped.
    pub fn add<S>(
        &self,
        added: Loop<'static, S>,
        ended: impl FnOnce(Result<(), Error>) + Send + 'static,
    ) -> Result<Handle<S>, Error>
    where
        S: Source + 'static,
        Loop<'static, S>: Send,
    {
        let handle = added.handle();
        let is_added = self.add_task(|member| {
            added.set_waker(member.waker());
            let control = added.control();
            let running = Box::new(RunningLoop { looped: added, ended: Box::new(ended) });
            Arc::new(LoopTask { control, running: Watched::new(Some(running)), _member: member })
        });
        if is_added { Ok(handle) } else { Err(Error::new(ErrorKind::Ended)) }
    }
}

impl<S: Source> Task for LoopTask<S>
where
    Loop<'static, S>: Send,
{
    fn turn(&self, mut due: Due<'_>) -> ControlFlow<()> {
        let Some(mut running) = self.running.with(Option::take) else {
            return ControlFlow::Break(());
        };
        let looped = &mut running.looped;
        // A loop has one member.
        for turn in &mut due {
            let panicked = Err(Error::new(ErrorKind::Panicked));
            let step = caught(|| match looped.turn(turn.is_readable()) {
                Step::Rest(rest) if !rest.is_pass_due => {
                    looped.sleep(turn, rest);
                    None
                }
                Step::Ended(result) => Some(result),
                _ => {
                    turn.again();
                    None
                }
            });
            let Some(result) = step.unwrap_or_else(|| Some(panicked.clone())) else {
                continue;
            };
            let RunningLoop { looped, ended } = *running;
            let is_dropped = caught(|| drop(looped)).is_some();
            ended(if is_dropped { result } else { panicked });
            return ControlFlow::Break(());
        }
        let mut running = Some(running);
        self.running.with(|it| mem::swap(it, &mut running));
        // The next turn, which may be another thread's, begins here.
        drop(due);
        ControlFlow::Continue(())
    }

    fn stop(&self) {
        self.control.stop();
    }
}

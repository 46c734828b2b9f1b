//! The runtime of the connections, on a thread of its own.

use std::future::Future;
use std::io;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::runtime::{Builder, Handle};
use tokio::sync::oneshot;
use trueup_world::{Error, ErrorKind};

/// The thread of the runtime. It is in the network namespace of the thread that started it, and
/// ends when this is dropped.
pub(crate) struct Runtime {
    handle: Handle,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Runtime {
    pub(crate) fn start() -> io::Result<Runtime> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let handle = runtime.handle().clone();
        let (stop, stopped) = oneshot::channel::<()>();
        let thread = thread::Builder::new().name("etcd".to_owned()).spawn(move || {
            // An error means that the sender was dropped, which also ends it.
            let _ = runtime.block_on(stopped);
            // A look-up of a name may hang, so this does not wait for it.
            runtime.shutdown_background();
        })?;
        Ok(Runtime { handle, stop: Some(stop), thread: Some(thread) })
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }

    /// Runs a future that ends by itself within `bound`, and blocks until then.
    pub(crate) fn run<T: Send + 'static>(
        &self,
        bound: Duration,
        future: impl Future<Output = Result<T, Error>> + Send + 'static,
    ) -> Result<T, Error> {
        // Extra time, in case the thread gets no processor.
        const SLACK: Duration = Duration::from_secs(2);
        let (sender, receiver) = mpsc::sync_channel(1);
        let task = self.handle.spawn(async move {
            // The caller has stopped waiting.
            let _ = sender.send(future.await);
        });
        match receiver.recv_timeout(bound + SLACK) {
            Ok(result) => result,
            Err(RecvTimeoutError::Timeout) => {
                task.abort();
                let message = format!("etcd: no answer after {:?}", bound + SLACK);
                Err(Error::new(ErrorKind::Indeterminate, message))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(Error::new(ErrorKind::Store, "etcd: the client failed, which is a fault of it"))
            }
        }
    }
}

impl Drop for Runtime {
    fn drop(&mut self) {
        self.stop.take();
        if let Some(thread) = self.thread.take() {
            // Its tasks may have panicked, but not the thread.
            let _ = thread.join();
        }
    }
}

//! The endpoints of a cluster. Calls go to one of them. If it fails, they go to the next.

use std::future::Future;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use etcd_client::proto::PbResponseHeader;
use etcd_client::{Client, Txn};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout, timeout_at};
use trueup_world::{Error, ErrorKind};

use crate::config::Config;
use crate::failure::{Failure, Then};

/// The pause before all endpoints are tried once more, if a member answered that it cannot serve
/// now, as in an election.
const PAUSE: Duration = Duration::from_millis(100);

/// The rule for sending a call again if its effect is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Repeat {
    /// It may be sent again, because a second time makes no difference.
    Safe,
    /// It must not be sent again.
    Never,
}

pub(crate) struct Endpoints {
    pub(crate) config: Config,
    /// The connected client of each endpoint, with its generation. After each failure of the
    /// connection, a new client is made, which reads password and certificates again.
    clients: Vec<Mutex<Option<(u64, Client)>>>,
    current: AtomicUsize,
    /// The id of the cluster, from the first answer.
    cluster: OnceLock<u64>,
    /// The newest revision in an answer.
    newest: AtomicU64,
    /// The number of times that the store was found at an older revision.
    restorations: AtomicU64,
}

impl Endpoints {
    pub(crate) fn new(config: Config) -> Endpoints {
        Endpoints {
            clients: config.endpoints.iter().map(|_| Mutex::default()).collect(),
            config,
            current: AtomicUsize::new(0),
            cluster: OnceLock::new(),
            newest: AtomicU64::new(0),
            restorations: AtomicU64::new(0),
        }
    }

    /// Returns the index of the endpoint that calls go to.
    pub(crate) fn current(&self) -> usize {
        self.current.load(Ordering::Relaxed) % self.clients.len()
    }

    /// Returns the deadline of a call that begins now.
    pub(crate) fn deadline(&self) -> Instant {
        Instant::now() + self.config.timeout
    }

    /// Calls the current endpoint, then the others, until one answers or the deadline passes.
    pub(crate) async fn call<T, F>(
        &self,
        repeat: Repeat,
        deadline: Instant,
        operation: impl Fn(Client) -> F,
    ) -> Result<T, Error>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let is_write = repeat == Repeat::Never;
        let (mut failed, mut answered, mut has_authenticated) = (0, false, false);
        // Why an endpoint of the right cluster did not answer. It may answer later.
        let mut missing: Option<(usize, Failure)> = None;
        loop {
            let index = self.current();
            let rest = deadline.saturating_duration_since(Instant::now());
            // If the call can be repeated, some time is left for another endpoint.
            let is_last = is_write || failed + 1 >= self.clients.len();
            let share = if is_last { rest } else { rest / 2 };
            let (generation, failure) = match self.attempt(index, share, &operation).await {
                Ok(answer) => return Ok(answer),
                Err(failure) => failure,
            };
            let may_repeat = failure.is_void || !is_write;
            match failure.then {
                Then::Fail => return Err(self.error(index, failure, is_write)),
                Then::Authenticate => {
                    self.forget(index, generation).await;
                    if has_authenticated {
                        return Err(self.error(index, failure, is_write));
                    }
                    has_authenticated = true;
                    continue;
                }
                Then::AuthenticateAgain => {
                    self.forget(index, generation).await;
                    if Instant::now() + 3 * PAUSE >= deadline {
                        return Err(self.error(index, failure, is_write));
                    }
                    sleep(PAUSE / 10).await;
                    continue;
                }
                Then::NextUnreachable => self.forget(index, generation).await,
                Then::Next => answered = true,
            }
            self.go_on_from(index);
            failed += 1;
            let (is_over, is_round) =
                (Instant::now() >= deadline, failed.is_multiple_of(self.clients.len()));
            if failure.kind != ErrorKind::Replaced {
                missing = Some((index, failure));
            } else if is_round {
                // Only now it is known that every endpoint is of another cluster, unless one did
                // not answer.
                missing.get_or_insert((index, failure));
            } else if is_over || !may_repeat {
                let kind = ErrorKind::Unavailable;
                missing.get_or_insert((index, Failure { kind, ..failure }));
            }
            let Some((at, why)) = missing.take_if(|_| !may_repeat || is_over || is_round) else {
                continue;
            };
            // A further attempt that can only time out would make a refusal uncertain.
            let rest = deadline.saturating_duration_since(Instant::now());
            let is_last = !answered || rest < (3 * PAUSE).max(self.config.timeout / 5);
            if !may_repeat || is_over || is_last || why.kind == ErrorKind::Replaced {
                return Err(self.error(at, why, is_write));
            }
            answered = false;
            sleep(PAUSE).await;
        }
    }

    async fn attempt<T, F>(
        &self,
        index: usize,
        share: Duration,
        operation: &impl Fn(Client) -> F,
    ) -> Result<T, (u64, Failure)>
    where
        F: Future<Output = Result<T, Failure>>,
    {
        let end = Instant::now() + share;
        let Ok(connected) = timeout_at(end, self.client(index)).await else {
            return Err((0, Failure::timeout(true)));
        };
        let (generation, client) = connected.map_err(|failure| (0, failure))?;
        timeout_at(end, operation(client))
            .await
            .unwrap_or_else(|_| Err(Failure::timeout(false)))
            .map_err(|failure| (generation, failure))
    }

    /// Returns an endpoint's client, and the client's generation.
    async fn client(&self, index: usize) -> Result<(u64, Client), Failure> {
        static GENERATIONS: AtomicUsize = AtomicUsize::new(1);
        let mut client = self.clients[index].lock().await;
        if let Some(client) = &*client {
            return Ok(client.clone());
        }
        let generation = GENERATIONS.fetch_add(1, Ordering::Relaxed) as u64;
        let made = self.connect(index, true).await?;
        Ok(client.insert((generation, made)).clone())
    }

    /// Makes a new client of an endpoint. With `needs_leader`, a member that knows no leader
    /// refuses all calls and ends all watches. Otherwise it would let them wait.
    pub(crate) async fn connect(
        &self,
        index: usize,
        needs_leader: bool,
    ) -> Result<Client, Failure> {
        let options = self.config.options()?.with_require_leader(needs_leader);
        let url = self.url(index);
        // Without a user, nothing is sent yet. With a user, this fetches a token, which may be
        // repeated.
        timeout(self.config.timeout, Client::connect([url], Some(options)))
            .await
            .unwrap_or_else(|_| {
                Err(etcd_client::Error::IoError(std::io::ErrorKind::TimedOut.into()))
            })
            .map_err(|error| Failure { is_void: true, ..Failure::from(error) })
    }

    async fn forget(&self, index: usize, generation: u64) {
        let mut client = self.clients[index].lock().await;
        if client.as_ref().is_some_and(|client| client.0 == generation) {
            *client = None;
        }
    }

    /// Switches the next calls to the endpoint after this one, unless they already go elsewhere.
    pub(crate) fn go_on_from(&self, index: usize) {
        let next = (index + 1) % self.clients.len();
        // Another call was first.
        let _ = self.current.compare_exchange(index, next, Ordering::Relaxed, Ordering::Relaxed);
    }

    pub(crate) fn error(&self, index: usize, failure: Failure, is_write: bool) -> Error {
        failure.into_error(self.url(index), is_write)
    }

    pub(crate) fn url(&self, index: usize) -> &str {
        &self.config.endpoints[index]
    }

    /// Returns how often the store was found to have been restored from an older copy, at an
    /// earlier revision than in an answer from before this call. Later writes and leases may be
    /// gone.
    pub(crate) async fn restorations(&self, client: &Client) -> Result<u64, Failure> {
        let seen = self.newest.load(Ordering::SeqCst);
        // An empty transaction needs no permission. It is a linearizable read, so its revision is
        // not older than that of an earlier answer.
        let read = client.kv_client().txn(Txn::new()).await?.0;
        let now = self.check(read.header.as_ref())?;
        if now < seen
            && self.newest.compare_exchange(seen, now, Ordering::SeqCst, Ordering::SeqCst).is_ok()
        {
            self.restorations.fetch_add(1, Ordering::SeqCst);
        }
        Ok(self.restorations.load(Ordering::SeqCst))
    }

    /// Checks that an answer comes from the same cluster as the first one, because revisions of
    /// another cluster have other meanings. Returns the member's revision of the store.
    pub(crate) fn check(&self, header: Option<&PbResponseHeader>) -> Result<u64, Failure> {
        let Some(header) = header else {
            return Err(Failure::void(ErrorKind::Store, "an answer without a header"));
        };
        let known = *self.cluster.get_or_init(|| header.cluster_id);
        if known == header.cluster_id {
            let revision = revision(header.revision)?;
            self.newest.fetch_max(revision, Ordering::SeqCst);
            return Ok(revision);
        }
        // Another endpoint may belong to the right cluster.
        Err(Failure {
            then: Then::Next,
            ..Failure::void(
                ErrorKind::Replaced,
                format!(
                    "it belongs to cluster {:x}, and other answers came from {known:x}: give \
                     endpoints of one cluster, and restart if it was made anew",
                    header.cluster_id
                ),
            )
        })
    }
}

/// Converts etcd's revision. Fails if it is negative.
pub(crate) fn revision(revision: i64) -> Result<u64, Failure> {
    u64::try_from(revision)
        .map_err(|_| Failure::void(ErrorKind::Store, format!("a revision of {revision}")))
}

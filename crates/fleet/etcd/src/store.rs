//! The etcd store: calls, leases and watches.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{Client, Compare as EtcdCompare, CompareOp, PutOptions, Txn, TxnOp};
use trueup_world::{
    Compare, Entry, Error, ErrorKind, LeaseId, Limits, Revision, Store, StoreMember, StoreWatch,
    Write,
};

use crate::config::Config;
use crate::endpoints::{Endpoints, Repeat};
use crate::failure::Failure;
use crate::lease::Keepers;
use crate::members::members;
use crate::read::{read, read_key};
use crate::runtime::Runtime;
use crate::watch::EtcdWatch;

/// A store on etcd, as one client is connected to it.
///
/// A thread of its own serves its connections, in the network namespace of the thread that opened
/// the store. The thread ends with the last of the store and its watches.
///
/// ```no_run
/// use trueup_etcd::{Config, EtcdStore};
/// use trueup_world::World;
///
/// # fn main() -> Result<(), trueup_world::Error> {
/// let store = EtcdStore::open(Config::new(["https://10.0.0.1:2379"]))?;
/// let world = World::new(std::sync::Arc::new(store), "/trueup", "a")?;
/// println!("{:?}", world.members()?);
/// # Ok(())
/// # }
/// ```
pub struct EtcdStore {
    runtime: Arc<Runtime>,
    endpoints: Arc<Endpoints>,
    keepers: Arc<Keepers>,
}

impl EtcdStore {
    /// Opens a store. It connects only when necessary, so no member must exist yet.
    ///
    /// # Errors
    ///
    /// [`Invalid`](ErrorKind::Invalid) if the configuration cannot work, or names a file that
    /// cannot be read. [`Store`](ErrorKind::Store) if no thread can be started.
    pub fn open(config: Config) -> Result<EtcdStore, Error> {
        config.check()?;
        let runtime = Runtime::start().map_err(|error| {
            Error::new(ErrorKind::Store, format!("etcd: no thread: {error}")).with_source(error)
        })?;
        Ok(EtcdStore {
            runtime: Arc::new(runtime),
            endpoints: Arc::new(Endpoints::new(config)),
            keepers: Arc::default(),
        })
    }

    /// Returns the URL of the endpoint that calls go to now.
    pub fn endpoint(&self) -> &str {
        &self.endpoints.config.endpoints[self.endpoints.current()]
    }

    pub(crate) fn call<T, F>(
        &self,
        repeat: Repeat,
        operation: impl Fn(Arc<Endpoints>, Client) -> F + Send + Sync + 'static,
    ) -> Result<T, Error>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let endpoints = Arc::clone(&self.endpoints);
        self.runtime.run(endpoints.config.timeout, async move {
            let deadline = endpoints.deadline();
            endpoints
                .call(repeat, deadline, |client| operation(Arc::clone(&endpoints), client))
                .await
        })
    }
}

impl fmt::Debug for EtcdStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EtcdStore")
            .field("endpoints", &self.endpoints.config.endpoints)
            .finish_non_exhaustive()
    }
}

impl Store for EtcdStore {
    fn read(&self, prefix: &[u8], at: Option<Revision>) -> Result<(Revision, Vec<Entry>), Error> {
        let at = match at {
            Some(at) => signed(at)?,
            None => 0,
        };
        let prefix: Arc<[u8]> = prefix.into();
        self.call(Repeat::Safe, move |endpoints, client| {
            read(endpoints, client, Arc::clone(&prefix), at)
        })
    }

    fn read_key(&self, key: &[u8]) -> Result<Option<Entry>, Error> {
        let key: Arc<[u8]> = key.into();
        self.call(Repeat::Safe, move |endpoints, client| {
            read_key(endpoints, client, Arc::clone(&key))
        })
    }

    fn commit(&self, compares: &[Compare], writes: &[Write]) -> Result<Option<Revision>, Error> {
        self.limits().check_transaction(compares, writes)?;
        let txn = Txn::new()
            .when(compares.iter().map(compare).collect::<Result<Vec<_>, _>>()?)
            .and_then(writes.iter().map(write).collect::<Vec<_>>());
        self.call(Repeat::Never, move |endpoints, client| commit(endpoints, client, txn.clone()))
    }

    fn limits(&self) -> Limits {
        self.endpoints.config.limits
    }

    fn watch(&self, prefix: &[u8], after: Revision) -> Result<Box<dyn StoreWatch>, Error> {
        let watch = EtcdWatch::begin(&self.runtime, &self.endpoints, prefix, after)?;
        Ok(Box::new(watch))
    }

    fn grant(&self, ttl: Duration) -> Result<LeaseId, Error> {
        let whole = ttl.as_secs() + u64::from(ttl.subsec_nanos() > 0);
        let seconds = i64::try_from(whole.max(1)).unwrap_or(i64::MAX);
        // Many hosts may start at once.
        let spread = (self.endpoints.config.timeout / 20).mul_f64(fastrand::f64());
        self.call(Repeat::Never, move |endpoints, client| async move {
            tokio::time::sleep(spread).await;
            let answer = client.lease_client().grant(seconds, None).await?.0;
            endpoints.check(answer.header.as_ref())?;
            match (answer.id, &*answer.error) {
                (1.., "") => Ok(LeaseId(answer.id)),
                (_, error) => Err(Failure::void(ErrorKind::Store, format!("no lease: {error}"))),
            }
        })
    }

    fn renew(&self, lease: LeaseId) -> Result<Duration, Error> {
        let endpoints = Arc::clone(&self.endpoints);
        let keepers = Arc::clone(&self.keepers);
        let renewed = self
            .runtime
            .run(endpoints.config.timeout, async move { keepers.renew(&endpoints, lease).await });
        renewed.map(|renewed| renewed.rest())
    }

    fn revoke(&self, lease: LeaseId) -> Result<(), Error> {
        self.keepers.forget(lease);
        // The second time the lease is gone, which is no error.
        self.call(Repeat::Safe, move |_, client| async move {
            match client.lease_client().revoke(lease.0).await {
                Ok(_) => Ok(()),
                Err(error) => match Failure::from(error) {
                    failure if failure.kind == ErrorKind::LeaseEnded => Ok(()),
                    failure => Err(failure),
                },
            }
        })
    }

    fn members(&self) -> Result<Vec<StoreMember>, Error> {
        let endpoints = Arc::clone(&self.endpoints);
        self.runtime.run(endpoints.config.timeout, members(endpoints))
    }
}

async fn commit(
    endpoints: Arc<Endpoints>,
    client: Client,
    txn: Txn,
) -> Result<Option<Revision>, Failure> {
    let answer = client.kv_client().txn(txn).await?;
    // The write has taken effect, even if the answer has an error.
    let made = endpoints
        .check(answer.0.header.as_ref())
        .map(Revision)
        .map_err(|failure| Failure { is_void: false, ..failure })?;
    Ok(answer.succeeded().then_some(made))
}

fn compare(compare: &Compare) -> Result<EtcdCompare, Error> {
    Ok(match compare {
        Compare::Absent(key) => EtcdCompare::create_revision(key.clone(), CompareOp::Equal, 0),
        Compare::Modified(key, at) => {
            EtcdCompare::mod_revision(key.clone(), CompareOp::Equal, signed(*at)?)
        }
        Compare::Value(key, value) => {
            EtcdCompare::value(key.clone(), CompareOp::Equal, value.clone())
        }
    })
}

fn write(write: &Write) -> TxnOp {
    match write {
        Write::Put { key, value, lease } => {
            let options = PutOptions::new().with_lease(lease.map_or(0, |lease| lease.0));
            TxnOp::put(key.clone(), value.clone(), Some(options))
        }
        Write::Delete(key) => TxnOp::delete(key.clone(), None),
    }
}

fn signed(revision: Revision) -> Result<i64, Error> {
    i64::try_from(revision.0)
        .map_err(|_| Error::new(ErrorKind::Invalid, format!("a revision of {revision}")))
}

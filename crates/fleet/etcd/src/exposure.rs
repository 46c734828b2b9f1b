//! What a member lets a client do that says nothing about itself.

use std::future::Future;

use trueup_world::{Error, ErrorKind};

use crate::config::Config;
use crate::endpoints::Repeat;
use crate::failure::Failure;
use crate::store::EtcdStore;

/// What a client may do that has neither a user nor a certificate.
///
/// etcd before 3.4.42, 3.5.28 and 3.6.9 asks for no user where leases, members and compactions are
/// concerned, also with access control on. A client that may list leases may keep each of them
/// alive, and with it the exports of a dead host. Members that ask for certificates
/// (`--client-cert-auth`) let no such client in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exposure {
    /// It may read keys: access control is off.
    pub keys: bool,
    /// It may list the leases, keep them alive, and compact the history.
    pub leases: bool,
    /// It may list the members.
    pub members: bool,
}

impl Exposure {
    /// Asks a member, the first endpoint that answers, without user and certificate. Writes
    /// nothing.
    ///
    /// # Errors
    ///
    /// When the client is not let in, or no member is reached, which look the same;
    /// [`Invalid`](ErrorKind::Invalid) if the configuration cannot work.
    pub fn probe(mut config: Config) -> Result<Exposure, Error> {
        config.user = None;
        (config.cert_file, config.key_file) = (None, None);
        EtcdStore::open(config)?.call(Repeat::Safe, |_, client| async move {
            Ok(Exposure {
                keys: is_allowed(client.kv_client().get("/", None)).await?,
                leases: is_allowed(client.lease_client().leases()).await?,
                members: is_allowed(client.cluster_client().member_list()).await?,
            })
        })
    }
}

async fn is_allowed<T>(
    call: impl Future<Output = Result<T, etcd_client::Error>>,
) -> Result<bool, Failure> {
    match call.await.map_err(Failure::from) {
        Ok(_) => Ok(true),
        Err(failure) if failure.kind == ErrorKind::Denied => Ok(false),
        Err(failure) => Err(failure),
    }
}

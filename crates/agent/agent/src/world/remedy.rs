//! Errors of TLS, with the keys of the file that cause them.

use std::time::Duration;

use trueup_etcd::EtcdStore;
use trueup_file::World;
use trueup_world::{
    Compare, Entry, Error, ErrorKind, LeaseId, Limits, Revision, Store, StoreMember, StoreWatch,
    Write,
};

use super::OnReplaced;

/// An etcd store whose errors say what to change in the file.
pub(crate) struct WithRemedy {
    etcd: EtcdStore,
    /// The remedy if this host does not accept a member's certificate.
    authority: Option<String>,
    /// The remedy if a member does not accept this host's certificate.
    certificate: String,
    on_replaced: OnReplaced,
}

/// The ends of errors with no other information than a closed connection.
const CLOSED: [&str; 3] = ["operation was canceled", "transport error", "broken pipe"];

impl WithRemedy {
    pub(crate) fn new(etcd: EtcdStore, named: &World, on_replaced: OnReplaced) -> WithRemedy {
        let authority = named.ca_file.as_ref().map(|file| {
            format!(
                "ca_file {} is not that of the authority which signed the certificate of the \
                 member: give that one",
                file.display()
            )
        });
        let certificate = match &named.certificate {
            Some((cert_file, _)) => format!(
                "if the member goes on to close the connection, it does not accept cert_file {}: \
                 give one of an authority that it trusts (its --trusted-ca-file), with its \
                 key_file",
                cert_file.display()
            ),
            None => {
                "if the member asks for a certificate (its --client-cert-auth), give cert_file \
                     and key_file"
                    .to_owned()
            }
        };
        WithRemedy { etcd, authority, certificate, on_replaced }
    }

    fn remedy(&self, error: Error) -> Error {
        if error.kind() == ErrorKind::Replaced {
            (self.on_replaced)(&error);
        }
        let text = error.to_string();
        // The words of rustls for a refusal by this side, and for alerts from the other side.
        let remedy = match &self.authority {
            Some(authority) if text.contains("invalid peer certificate: UnknownIssuer") => {
                authority
            }
            Some(_) if text.contains("received fatal alert") => &self.certificate,
            // A member that misses a certificate, or does not trust it, closes the connection. The
            // error depends on the operation at that time.
            Some(_) if CLOSED.iter().any(|words| text.ends_with(words)) => &self.certificate,
            _ => return error,
        };
        Error::new(error.kind(), format!("{text}; {remedy}"))
    }
}

impl Store for WithRemedy {
    fn read(&self, prefix: &[u8], at: Option<Revision>) -> Result<(Revision, Vec<Entry>), Error> {
        self.etcd.read(prefix, at).map_err(|it| self.remedy(it))
    }

    fn commit(&self, compares: &[Compare], writes: &[Write]) -> Result<Option<Revision>, Error> {
        self.etcd.commit(compares, writes).map_err(|it| self.remedy(it))
    }

    fn limits(&self) -> Limits {
        self.etcd.limits()
    }

    fn watch(&self, prefix: &[u8], after: Revision) -> Result<Box<dyn StoreWatch>, Error> {
        self.etcd.watch(prefix, after).map_err(|it| self.remedy(it))
    }

    fn grant(&self, ttl: Duration) -> Result<LeaseId, Error> {
        self.etcd.grant(ttl).map_err(|it| self.remedy(it))
    }

    fn renew(&self, lease: LeaseId) -> Result<Duration, Error> {
        self.etcd.renew(lease).map_err(|it| self.remedy(it))
    }

    fn revoke(&self, lease: LeaseId) -> Result<(), Error> {
        self.etcd.revoke(lease).map_err(|it| self.remedy(it))
    }

    fn members(&self) -> Result<Vec<StoreMember>, Error> {
        self.etcd.members().map_err(|it| self.remedy(it))
    }
}

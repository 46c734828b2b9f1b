//! Whether the members of etcd are connected to with TLS, and what is refused without it.

use super::store::{CA_FILE, CERT_FILE, ENDPOINTS, USER};
use crate::fields::Fields;
use crate::value::Result;

/// Checks that all members are connected to alike, that the keys of TLS go with `https`, and that
/// a password is sent in clear only if that is allowed.
pub(super) fn check(
    fields: &Fields<'_>,
    urls: &[String],
    allow_clear_password: bool,
) -> Result<()> {
    let is_https = |url: &String| url.starts_with("https://");
    let tls_key = [CA_FILE, CERT_FILE].into_iter().find(|key| fields.has(key));
    match (urls.iter().any(is_https), urls.iter().all(is_https), tls_key) {
        (true, false, _) => {
            fields.fault(ENDPOINTS, "some are http, some https: write the same for all members")
        }
        (true, true, _) if !fields.has(CA_FILE) => fields.fault(
            ENDPOINTS,
            "https needs `ca_file`, the certificates that sign those of the members: write one \
             such as ca_file = \"/etc/trueup/ca.pem\"",
        ),
        (false, _, Some(key)) => fields.fault(
            key,
            format!("the endpoints are http, without TLS: write https there, or no `{key}`"),
        ),
        (false, _, None) if fields.has(USER) && !allow_clear_password => fields.fault(
            USER,
            "the endpoints are http, which shows its password to each machine on the way and to \
             each program that takes the port while etcd is down: write https there, with \
             `ca_file`, or allow_clear_password = true",
        ),
        _ => Ok(()),
    }
}

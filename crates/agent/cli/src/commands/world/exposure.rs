//! The rights that the members of etcd give to a client without a user or a certificate.

use trueup::etcd::Exposure;

use super::Opened;
use crate::output;
use trueup_agent::exchange::etcd_config;

/// Before these versions, etcd checks no user for requests about leases, members and the history,
/// even with access control on.
const REMEDY: &str = "anybody who reaches the port may keep the lease of a dead host alive, so that \
                      its routes stay, and delete the history: have the members ask for \
                      certificates (--client-cert-auth, with TLS), install etcd 3.4.42, 3.5.28, \
                      3.6.9 or later, and let hosts alone reach the port";

const KEYS: &str = "anybody who reaches the port may read and write what all hosts export: turn \
                    access control on with `trueup world init --enforce`, or have the members ask \
                    for certificates (--client-cert-auth)";

/// Asks each endpoint. Returns the operations that they allow, and the problems. `None` if the file
/// has neither a user nor a certificate, and so relies on neither.
pub(super) fn exposure(Opened { named, .. }: &Opened) -> Option<(String, Vec<String>)> {
    let Some(urls) = &named.endpoints else {
        return None;
    };
    if named.credentials.is_none() && named.certificate.is_none() {
        return None;
    }
    let (mut states, mut keys, mut others) = (Vec::new(), false, false);
    for url in urls {
        let config = etcd_config(named, std::slice::from_ref(url)).map_err(anyhow::Error::from);
        match config.and_then(|config| Ok(Exposure::probe(config)?)) {
            Ok(found) => {
                states.push(format!("{url}: {}", allowed(found)));
                keys |= found.keys;
                others |= !found.keys && (found.leases || found.members);
            }
            Err(error) => {
                let why = output::with_causes(error.as_ref());
                states.push(format!("{url}: not let in ({why})"));
            }
        }
    }
    let problems = keys.then_some(KEYS).into_iter().chain(others.then_some(REMEDY));
    Some((states.join("; "), problems.map(str::to_owned).collect()))
}

fn allowed(found: Exposure) -> String {
    let may =
        [(found.keys, "read keys"), (found.leases, "list leases"), (found.members, "list members")];
    let may: Vec<&str> = may.iter().filter(|it| it.0).map(|it| it.1).collect();
    match &may[..] {
        [] => "refused".to_owned(),
        may => format!("may {}", may.join(", ")),
    }
}

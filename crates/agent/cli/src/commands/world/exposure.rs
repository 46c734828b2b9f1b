//! What the members of etcd let a client do that has neither a user nor a certificate.

use trueup::etcd::Exposure;

use super::Opened;
use super::doctor::Finding;
use crate::output;
use trueup_agent::exchange::etcd_config;

/// etcd before these versions asks nobody for a user where leases, members and the history are
/// concerned, also with access control on.
const REMEDY: &str = "anybody who reaches the port may keep the lease of a dead host alive, so that \
                      its routes stay, and delete the history: have the members ask for \
                      certificates (--client-cert-auth, with TLS), install etcd 3.4.42, 3.5.28, \
                      3.6.9 or later, and let hosts alone reach the port";

const KEYS: &str = "anybody who reaches the port may read and write what all hosts export: turn \
                    access control on with `trueup world init --enforce`, or have the members ask \
                    for certificates (--client-cert-auth)";

/// Asks each endpoint. A file that gives neither a user nor a certificate relies on neither.
pub(super) fn exposure(Opened { named, .. }: &Opened) -> Option<Finding> {
    let Some(urls) = &named.endpoints else {
        return None;
    };
    if named.credentials.is_none() && named.certificate.is_none() {
        return None;
    }
    let probe = |url: &String| {
        let config = etcd_config(named, std::slice::from_ref(url))?;
        anyhow::Ok(Exposure::probe(config)?)
    };
    let found: Vec<_> = urls.iter().map(|url| (url, probe(url))).collect();
    let state = found.iter().map(|(url, found)| match found {
        Ok(found) => format!("{url}: {}", allowed(*found)),
        Err(error) => format!("{url}: not let in ({})", output::with_causes(error.as_ref())),
    });
    let is_any = |what: fn(&Exposure) -> bool| found.iter().flat_map(|it| &it.1).any(what);
    let problems = [
        (is_any(|it| it.keys), KEYS),
        (is_any(|it| !it.keys && (it.leases || it.members)), REMEDY),
    ];
    Some(Finding {
        about: "clients without a user and a certificate".to_owned(),
        state: state.collect::<Vec<_>>().join("; "),
        problems: problems.iter().filter(|it| it.0).map(|it| it.1.to_owned()).collect(),
    })
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

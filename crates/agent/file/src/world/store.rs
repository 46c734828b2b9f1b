//! `[world]`: the store through which hosts exchange resources, and this host's part in it.

use std::path::PathBuf;
use std::time::Duration;

use super::host;
use crate::fields::Fields;
use crate::parse;
use crate::tables::TableNames;
use crate::value::{Node, Result, Table, Value, fault, text};

const KEYS: [&str; 15] = [
    "endpoints",
    "store",
    "host",
    "prefix",
    "ttl",
    "user",
    "password_file",
    "allow_clear_password",
    "ca_file",
    "cert_file",
    "key_file",
    "partition",
    "grace",
    "damping",
    "grants_key",
];

/// The keys that only a store of etcd has.
const KEYS_OF_ETCD: [&str; 6] =
    ["user", "password_file", "allow_clear_password", "ca_file", "cert_file", "key_file"];

/// The value for a store in a file of this host.
const EMBEDDED: &str = "embedded";
const DEFAULT_PREFIX: &str = "/trueup";
const DEFAULT_TTL: Duration = Duration::from_secs(5);
/// The longest time to live, partition and grace, in seconds: a day.
const MAX_SECONDS: u32 = 86_400;
const DEFAULT_DAMPING: Duration = Duration::from_secs(10);
const KEEP: &str = "keep";
const DROP: &str = "drop";

/// The store through which hosts exchange resources, and this host's part in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct World {
    /// The URLs of etcd's members for clients. `None` for a store in a file of this host.
    pub endpoints: Option<Vec<String>>,
    /// This host's name in the store.
    pub host: String,
    /// The prefix of all keys: `/` and a name.
    pub prefix: String,
    /// The time that exports live after their host last renewed its lease: 1 second to a day.
    pub ttl: Duration,
    /// The user of etcd, and the file whose first line is the password. `None` for an etcd without
    /// authentication.
    pub credentials: Option<(String, PathBuf)>,
    /// True if passwords may be sent over `http`, where each machine on the way can read them.
    pub allow_clear_password: bool,
    /// The PEM file of the certificates that sign the members' certificates. Required with `https`
    /// endpoints, and refused with others.
    pub ca_file: Option<PathBuf>,
    /// The PEM files of this host's certificate and its private key. `None` for an etcd that
    /// requires none.
    pub certificate: Option<(PathBuf, PathBuf)>,
    /// The time that collected routes stay while the store is unreachable: 0 seconds to a day.
    /// `None` for no limit.
    pub partition: Option<Duration>,
    /// The time that a host's exports stay after its lease has ended: 0 seconds to a day.
    pub grace: Duration,
    /// The time after which another host's export may change again, if it has changed too often: at
    /// most a day. 0 for no limit.
    pub damping: Duration,
    /// The operator's public Ed25519 key, which signs the exports that each host may make. `None`
    /// if any host may export any prefix.
    pub grants_key: Option<[u8; 32]>,
}

pub(crate) fn read(at: usize, table: &Table<'_>, tables: &TableNames) -> Result<World> {
    let fields = Fields::new("[world]", at, table, &[&KEYS], tables)?;
    let endpoints = store(&fields)?;
    if endpoints.is_none()
        && let Some(key) = KEYS_OF_ETCD.into_iter().find(|key| fields.has(key))
    {
        return fields.fault(key, format!("an embedded store has no `{key}`: leave it out"));
    }
    for (first, second) in [("user", "password_file"), ("cert_file", "key_file")] {
        match (fields.has(first), fields.has(second)) {
            (true, false) => fields.fault(first, format!("`{second}` is missing beside it"))?,
            (false, true) => fields.fault(second, format!("`{first}` is missing beside it"))?,
            _ => {}
        }
    }
    let allow_clear_password = fields.flag("allow_clear_password")?;
    if let Some(urls) = &endpoints {
        check_transport(&fields, urls, allow_clear_password)?;
    }
    let user = fields.read("user", |value| parse::text(value, "a string").map(str::to_owned))?;
    let ttl = fields.read("ttl", parse::number(1..=MAX_SECONDS))?;
    Ok(World {
        endpoints,
        host: fields.required("host", "host = \"a\"", host)?,
        prefix: fields.read("prefix", prefix)?.unwrap_or_else(|| DEFAULT_PREFIX.to_owned()),
        ttl: ttl.map_or(DEFAULT_TTL, |ttl| Duration::from_secs(ttl.into())),
        credentials: user.zip(fields.read("password_file", file_path)?),
        allow_clear_password,
        ca_file: fields.read("ca_file", file_path)?,
        certificate: fields.read("cert_file", file_path)?.zip(fields.read("key_file", file_path)?),
        partition: fields.read("partition", partition)?.flatten(),
        grace: fields.read("grace", time)?.unwrap_or_default(),
        damping: fields.read("damping", time)?.unwrap_or(DEFAULT_DAMPING),
        grants_key: fields.read("grants_key", read_grants_key)?,
    })
}

/// Returns the required keys, and those that differ from their defaults.
pub(crate) fn write(world: &World) -> Table<'static> {
    let mut table = Table::default();
    match &world.endpoints {
        Some(urls) => table.set("endpoints", urls.iter().map(text).collect::<Node<'_>>()),
        None => table.set("store", text(EMBEDDED)),
    }
    table.set("host", text(&world.host));
    if world.prefix != DEFAULT_PREFIX {
        table.set("prefix", text(&world.prefix));
    }
    if world.ttl != DEFAULT_TTL {
        table.set("ttl", parse::seconds_node(world.ttl));
    }
    if let Some((user, password_file)) = &world.credentials {
        table.set("user", text(user));
        table.set("password_file", text(password_file.display()));
    }
    table.set_true("allow_clear_password", world.allow_clear_password);
    table.set_some("ca_file", world.ca_file.as_ref().map(|path| text(path.display())));
    if let Some((cert_file, key_file)) = &world.certificate {
        table.set("cert_file", text(cert_file.display()));
        table.set("key_file", text(key_file.display()));
    }
    match world.partition {
        None => {}
        Some(Duration::ZERO) => table.set("partition", text(DROP)),
        Some(time) => table.set("partition", parse::seconds_node(time)),
    }
    if !world.grace.is_zero() {
        table.set("grace", parse::seconds_node(world.grace));
    }
    if world.damping != DEFAULT_DAMPING {
        table.set("damping", parse::seconds_node(world.damping));
    }
    table.set_some(
        "grants_key",
        world.grants_key.map(|key| text(key.map(|byte| format!("{byte:02x}")).concat())),
    );
    table
}

/// Reads the endpoints of etcd. `None` for the embedded store.
fn store(fields: &Fields<'_>) -> Result<Option<Vec<String>>> {
    let store = fields.read("store", |value| parse::one_of(value, "store", &[(EMBEDDED, ())]))?;
    let example = "endpoints = [ \"http://10.0.0.1:2379\" ], or store = \"embedded\"";
    match (fields.read("endpoints", endpoints)?, store) {
        (Some(urls), None) => Ok(Some(urls)),
        (None, Some(())) => Ok(None),
        (Some(_), Some(())) => fields.fault("store", "`endpoints` is given: remove one of the two"),
        (None, None) => fault(fields.at, format!("the store is missing: write {example}")),
    }
}

fn endpoints(value: &Value<'_>) -> Result<Vec<String>> {
    let example = "[ \"http://10.0.0.1:2379\" ]";
    match &value.node {
        Node::List(items) if items.is_empty() => {
            fault(value.at, format!("it is empty: write {example}"))
        }
        Node::List(items) => items.iter().map(endpoint).collect(),
        _ => value.unexpected(format_args!("a list of URLs, such as {example}")),
    }
}

fn endpoint(value: &Value<'_>) -> Result<String> {
    let url = parse::text(value, "a URL, such as \"http://10.0.0.1:2379\"")?;
    let rest = ["http://", "https://"].map(|scheme| url.strip_prefix(scheme));
    match rest.into_iter().flatten().next() {
        Some(rest)
            if !rest.is_empty() && rest.bytes().all(|it| it.is_ascii_graphic() && it != b'/') =>
        {
            Ok(url.to_owned())
        }
        _ => fault(
            value.at,
            format!("`{url}` is no URL of a member: write one such as \"http://10.0.0.1:2379\""),
        ),
    }
}

fn prefix(value: &Value<'_>) -> Result<String> {
    let prefix = parse::text(value, "the beginning of all keys, such as \"/trueup\"")?;
    let is_right =
        |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_graphic());
    match prefix.strip_prefix('/') {
        Some(rest) if prefix.len() <= 255 && rest.split('/').all(is_right) => Ok(prefix.to_owned()),
        _ => fault(
            value.at,
            format!(
                "`{prefix}` is no beginning of keys: write `/` and a name, such as \"/trueup\""
            ),
        ),
    }
}

fn file_path(value: &Value<'_>) -> Result<PathBuf> {
    let path = parse::text(value, "the path of a file")?;
    if path.is_empty() || path.contains('\0') {
        fault(value.at, "this is no path: write that of a file")
    } else {
        Ok(PathBuf::from(path))
    }
}

fn time(value: &Value<'_>) -> Result<Duration> {
    parse::seconds(value, MAX_SECONDS)
}

/// Reads the time that collected routes stay. `None` for no limit.
fn partition(value: &Value<'_>) -> Result<Option<Duration>> {
    match &value.node {
        Node::Text(_) => {
            let words = [(KEEP, None), (DROP, Some(Duration::ZERO))];
            parse::one_of(value, "answer to a partition", &words)
        }
        Node::Integer(_) | Node::Fraction(_) => parse::seconds(value, MAX_SECONDS).map(Some),
        _ => value.unexpected("\"keep\", \"drop\" or seconds"),
    }
}

/// Checks that all endpoints use the same scheme, and TLS keys go with `https`. Also checks that no
/// password is sent in clear text unless allowed.
fn check_transport(fields: &Fields<'_>, urls: &[String], allow_clear_password: bool) -> Result<()> {
    let https = urls.iter().filter(|url| url.starts_with("https://")).count();
    let tls_key = ["ca_file", "cert_file"].into_iter().find(|key| fields.has(key));
    match (https > 0, https == urls.len(), tls_key) {
        (true, false, _) => {
            fields.fault("endpoints", "some are http, some https: write the same for all members")
        }
        (true, true, _) if !fields.has("ca_file") => fields.fault(
            "endpoints",
            "https needs `ca_file`, the certificates that sign those of the members: write one \
             such as ca_file = \"/etc/trueup/ca.pem\"",
        ),
        (false, _, Some(key)) => fields.fault(
            key,
            format!("the endpoints are http, without TLS: write https there, or no `{key}`"),
        ),
        (false, _, None) if fields.has("user") && !allow_clear_password => fields.fault(
            "user",
            "the endpoints are http, which shows its password to each machine on the way and to \
             each program that takes the port while etcd is down: write https there, with \
             `ca_file`, or allow_clear_password = true",
        ),
        _ => Ok(()),
    }
}

/// Reads the operator's public key.
fn read_grants_key(value: &Value<'_>) -> Result<[u8; 32]> {
    match key(parse::text(value, "a public key of 64 digits, 0 to 9 and a to f")?) {
        Some(key) => Ok(key),
        None => fault(
            value.at,
            "it is no public key: write the 64 digits, 0 to 9 and a to f, that `trueup world \
             grants key` prints",
        ),
    }
}

fn key(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
        return None;
    }
    let mut key = [0; 32];
    for (byte, at) in key.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(key)
}

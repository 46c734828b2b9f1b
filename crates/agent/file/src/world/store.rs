//! `[world]`: the store through which hosts exchange resources, and this host in it.

use std::path::PathBuf;
use std::time::Duration;

use super::host;
use crate::fields::Fields;
use crate::parse;
use crate::tables::TableNames;
use crate::value::{Node, Result, Table, Value, fault};

const ENDPOINTS: &str = "endpoints";
const STORE: &str = "store";
const HOST: &str = "host";
const PREFIX: &str = "prefix";
const TTL: &str = "ttl";
const USER: &str = "user";
const PASSWORD_FILE: &str = "password_file";
const ALLOW_CLEAR_PASSWORD: &str = "allow_clear_password";
const CA_FILE: &str = "ca_file";
const CERT_FILE: &str = "cert_file";
const KEY_FILE: &str = "key_file";
const PARTITION: &str = "partition";
const GRACE: &str = "grace";
const DAMPING: &str = "damping";
const GRANTS_KEY: &str = "grants_key";

const KEYS: [&str; 15] = [
    ENDPOINTS,
    STORE,
    HOST,
    PREFIX,
    TTL,
    USER,
    PASSWORD_FILE,
    ALLOW_CLEAR_PASSWORD,
    CA_FILE,
    CERT_FILE,
    KEY_FILE,
    PARTITION,
    GRACE,
    DAMPING,
    GRANTS_KEY,
];

/// The word for the store in a file of this host.
const EMBEDDED: &str = "embedded";
const DEFAULT_PREFIX: &str = "/trueup";
/// In seconds.
const DEFAULT_TTL: u32 = 5;
/// The longest time to live, and the longest partition and grace, in seconds: a day.
const MAX_SECONDS: u32 = 86_400;
/// In seconds.
const DEFAULT_DAMPING: u32 = 10;
const KEEP: &str = "keep";
const DROP: &str = "drop";

/// The store through which hosts exchange resources, and this host in it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct World {
    /// The store.
    pub store: StoreAddress,
    /// The name of this host.
    pub host: String,
    /// The beginning of all keys: `/` and a name.
    pub prefix: String,
    /// How long exports live after their host last renewed its lease: 1 second to a day.
    pub ttl: Duration,
    /// The user of etcd; `None` for an etcd without authentication.
    pub credentials: Option<Credentials>,
    /// True if passwords may be sent over `http`, where each machine on the way can read them.
    pub allow_clear_password: bool,
    /// The file of the certificates that sign those of the members, in PEM; with `https`
    /// endpoints, and only with these.
    pub ca_file: Option<PathBuf>,
    /// The certificate of this host; `None` for an etcd that requires none.
    pub certificate: Option<Certificate>,
    /// What becomes of what was collected while the store cannot be reached.
    pub partition: Partition,
    /// How long the exports of a host are kept whose lease has ended: 0 seconds to a day.
    pub grace: Duration,
    /// The time after which an export of another host may change once more, if it has changed too
    /// often: 0 seconds, for no bound, to a day.
    pub damping: Duration,
    /// The operator's public key, Ed25519, that signs what each host may export; `None` if any host
    /// may export any prefix.
    pub grants_key: Option<[u8; 32]>,
}

/// The store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreAddress {
    /// Members of etcd, by their URLs for clients.
    Etcd(Vec<String>),
    /// A file of this host.
    Embedded,
}

/// A user of etcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// The name.
    pub user: String,
    /// The file whose first line is the password.
    pub password_file: PathBuf,
}

/// The certificate of this host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Certificate {
    /// The file of the certificate, in PEM.
    pub cert_file: PathBuf,
    /// The file of its private key, in PEM.
    pub key_file: PathBuf,
}

/// What becomes of what was collected while the store cannot be reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Partition {
    /// It stays.
    #[default]
    Keep,
    /// It stays for so long, at most a day.
    For(Duration),
    /// It goes.
    Drop,
}

pub(crate) fn read(at: usize, table: &Table<'_>, tables: &TableNames) -> Result<World> {
    let fields = Fields::new("[world]", at, table, &[&KEYS], tables)?;
    let text = |value: &Value<'_>| Ok(parse::text(value, "a string")?.to_owned());
    let path = |key| fields.read(key, |value| file_path(value));
    let store = store(&fields)?;
    if store == StoreAddress::Embedded {
        let of_etcd = [USER, PASSWORD_FILE, ALLOW_CLEAR_PASSWORD, CA_FILE, CERT_FILE, KEY_FILE];
        if let Some(key) = of_etcd.into_iter().find(|key| fields.has(key)) {
            let message = format!("an embedded store has no `{key}`: leave it out");
            return fields.fault(key, message);
        }
    }
    let both = |first: &str, second: &str| match (fields.has(first), fields.has(second)) {
        (true, false) => fields.fault(first, format!("`{second}` is missing beside it")),
        (false, true) => fields.fault(second, format!("`{first}` is missing beside it")),
        _ => Ok(()),
    };
    both(USER, PASSWORD_FILE)?;
    both(CERT_FILE, KEY_FILE)?;
    let allow_clear_password = fields.read(ALLOW_CLEAR_PASSWORD, parse::flag)?.unwrap_or(false);
    if let StoreAddress::Etcd(urls) = &store {
        check_transport(&fields, urls, allow_clear_password)?;
    }
    let credentials = fields.read(USER, text)?.zip(path(PASSWORD_FILE)?);
    let certificate = path(CERT_FILE)?.zip(path(KEY_FILE)?);
    let ttl = fields.read(TTL, parse::number(1..=MAX_SECONDS))?;
    Ok(World {
        store,
        host: fields.required(HOST, "host = \"a\"", host)?,
        prefix: fields.read(PREFIX, prefix)?.unwrap_or_else(|| DEFAULT_PREFIX.to_owned()),
        ttl: Duration::from_secs(ttl.unwrap_or(DEFAULT_TTL).into()),
        credentials: credentials.map(|(user, password_file)| Credentials { user, password_file }),
        allow_clear_password,
        ca_file: path(CA_FILE)?,
        certificate: certificate.map(|(cert_file, key_file)| Certificate { cert_file, key_file }),
        partition: fields.read(PARTITION, partition)?.unwrap_or_default(),
        grace: fields.read(GRACE, time)?.unwrap_or_default(),
        damping: fields.read(DAMPING, time)?.unwrap_or(Duration::from_secs(DEFAULT_DAMPING.into())),
        grants_key: fields.read(GRANTS_KEY, read_grants_key)?,
    })
}

/// Returns the keys that are given, or differ from their defaults.
pub(crate) fn write(world: &World) -> Table<'static> {
    let mut table = Table::default();
    let text = |text: &str| Node::Text(text.to_owned().into());
    let path = |path: &PathBuf| text(&path.to_string_lossy());
    match &world.store {
        StoreAddress::Etcd(urls) => {
            let urls: Node<'_> = urls.iter().map(|url| text(url)).collect();
            table.set(ENDPOINTS, urls);
        }
        StoreAddress::Embedded => table.set(STORE, text(EMBEDDED)),
    }
    table.set(HOST, text(&world.host));
    if world.prefix != DEFAULT_PREFIX {
        table.set(PREFIX, text(&world.prefix));
    }
    if world.ttl != Duration::from_secs(DEFAULT_TTL.into()) {
        table.set(TTL, parse::seconds_node(world.ttl));
    }
    if let Some(Credentials { user, password_file }) = &world.credentials {
        table.set(USER, text(user));
        table.set(PASSWORD_FILE, path(password_file));
    }
    table.set_true(ALLOW_CLEAR_PASSWORD, world.allow_clear_password);
    table.set_some(CA_FILE, world.ca_file.as_ref().map(path));
    if let Some(Certificate { cert_file, key_file }) = &world.certificate {
        table.set(CERT_FILE, path(cert_file));
        table.set(KEY_FILE, path(key_file));
    }
    match world.partition {
        Partition::Keep => {}
        Partition::Drop => table.set(PARTITION, text(DROP)),
        Partition::For(time) => table.set(PARTITION, parse::seconds_node(time)),
    }
    if !world.grace.is_zero() {
        table.set(GRACE, parse::seconds_node(world.grace));
    }
    if world.damping != Duration::from_secs(DEFAULT_DAMPING.into()) {
        table.set(DAMPING, parse::seconds_node(world.damping));
    }
    let key = world.grants_key.as_ref();
    table.set_some(GRANTS_KEY, key.map(|key| text(&write_grants_key(key))));
    table
}

fn store(fields: &Fields<'_>) -> Result<StoreAddress> {
    let embedded = |value: &Value<'_>| parse::one_of(value, "store", &[(EMBEDDED, ())]);
    let example = "endpoints = [ \"http://10.0.0.1:2379\" ], or store = \"embedded\"";
    match (fields.read(ENDPOINTS, endpoints)?, fields.read(STORE, embedded)?) {
        (Some(urls), None) => Ok(StoreAddress::Etcd(urls)),
        (None, Some(())) => Ok(StoreAddress::Embedded),
        (Some(_), Some(())) => fields.fault(STORE, "`endpoints` is given: remove one of the two"),
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
    let is_plain = |byte: u8| byte.is_ascii_graphic() && byte != b'/';
    match rest.into_iter().flatten().next() {
        Some(rest) if !rest.is_empty() && rest.bytes().all(is_plain) => Ok(url.to_owned()),
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

fn partition(value: &Value<'_>) -> Result<Partition> {
    match &value.node {
        Node::Text(_) => {
            let words = [(KEEP, Partition::Keep), (DROP, Partition::Drop)];
            parse::one_of(value, "answer to a partition", &words)
        }
        Node::Integer(_) | Node::Fraction(_) => {
            parse::seconds(value, MAX_SECONDS).map(Partition::For)
        }
        _ => value.unexpected("\"keep\", \"drop\" or seconds"),
    }
}

/// Checks that all members are connected to alike, that the keys of TLS go with `https`, and that
/// a password is sent in clear only if that is allowed.
fn check_transport(fields: &Fields<'_>, urls: &[String], allow_clear_password: bool) -> Result<()> {
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

/// Reads the operator's public key.
fn read_grants_key(value: &Value<'_>) -> Result<[u8; 32]> {
    let text = parse::text(value, "a public key of 64 digits, 0 to 9 and a to f")?;
    key(text).map_or_else(
        || {
            let message = "it is no public key: write the 64 digits, 0 to 9 and a to f, that \
                           `trueup world grants key` prints";
            fault(value.at, message)
        },
        Ok,
    )
}

fn write_grants_key(key: &[u8; 32]) -> String {
    key.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn key(text: &str) -> Option<[u8; 32]> {
    let is_digit = |byte: u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    if text.len() != 64 || !text.bytes().all(is_digit) {
        return None;
    }
    let mut key = [0; 32];
    for (byte, at) in key.iter_mut().zip((0..).step_by(2)) {
        *byte = u8::from_str_radix(text.get(at..at + 2)?, 16).ok()?;
    }
    Some(key)
}

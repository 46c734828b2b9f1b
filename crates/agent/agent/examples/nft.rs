//! An agent with a section of its own beside routes: `[[nft]]`, rules of the chain `inet filter
//! input`. Other programs' rules in the chain stay. Give it a file and a directory for its journal.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::process::Command;
use std::time::Duration;

use trueup_agent::{Agent, Config, Namespace, keyed_section};
use trueup_reconcile::ErrorClass;
use trueup_reconcile::keyed::{Backend, Change, Keys, Observation, Ownership};

const CHAIN: &str = "inet filter input";

/// The rules by name. A rule's comment is our marker and its name.
#[derive(Default)]
struct Nft {
    handles: BTreeMap<String, String>,
}

fn nft(scope: &Namespace, command: &str) -> io::Result<String> {
    let run = || Command::new("nft").args(["-a", "-s", command]).output();
    let output = scope.enter(run).map_err(io::Error::other)?.map_err(io::Error::other)?;
    let said = String::from_utf8_lossy(&output.stderr);
    let kind = match &*said {
        _ if output.status.success() => return Ok(String::from_utf8_lossy(&output.stdout).into()),
        said if said.contains("No such file or directory") => ErrorKind::NotFound,
        said if said.contains("Operation not permitted") => ErrorKind::PermissionDenied,
        said if said.contains("syntax error") => ErrorKind::InvalidInput,
        _ => ErrorKind::Other,
    };
    Err(io::Error::new(kind, said.lines().next().unwrap_or("nft failed").to_owned()))
}

impl Nft {
    fn list(&mut self, scope: &Namespace) -> io::Result<BTreeMap<String, String>> {
        let mut rules = BTreeMap::new();
        let listed = match nft(scope, &format!("list chain {CHAIN}")) {
            Err(error) if error.kind() == ErrorKind::NotFound => String::new(), // no chain yet
            listed => listed?,
        };
        for line in listed.lines() {
            let Some((rule, handle)) = line.trim().rsplit_once("\" # handle ") else { continue };
            let Some((rule, name)) = rule.rsplit_once(" comment \"trueup ") else { continue };
            rules.insert(name.to_owned(), rule.to_owned());
            self.handles.insert(name.to_owned(), handle.to_owned());
        }
        Ok(rules)
    }
}

impl Backend for Nft {
    type Scope = Namespace;
    type Key = String;
    type Value = String;
    type Error = io::Error;

    const KIND: &'static str = "nft";
    const OWNERSHIP: Ownership = Ownership::Marker;

    fn observe(
        &mut self,
        scope: &Namespace,
        _: Keys<'_, String>,
    ) -> io::Result<Observation<String, String>> {
        Ok(self.list(scope)?.into())
    }

    fn has_marker(&self, _: &String, _: &String) -> bool {
        true // the others are left out
    }

    fn apply(&mut self, scope: &Namespace, change: &Change<String, String>) -> io::Result<()> {
        let name = change.key();
        if self.list(scope)?.get(name) != change.from() {
            return Err(ErrorKind::AlreadyExists.into()); // a handle may be another rule's by now
        }
        let handle = self.handles.get(name).map_or("", |handle| handle);
        let rule = change.to().map(|rule| format!("{rule} comment \"trueup {name}\""));
        let command = match change {
            Change::Create { .. } => format!("add rule {CHAIN}"),
            Change::Update { .. } => format!("replace rule {CHAIN} handle {handle}"),
            Change::Delete { .. } => format!("delete rule {CHAIN} handle {handle}"),
        };
        nft(scope, &format!("{command} {}", rule.unwrap_or_default())).map(drop)
    }

    fn classify(error: &io::Error) -> ErrorClass {
        error.kind().into()
    }
}

/// `[[nft]]`, with `name = "ssh"` and `rule = "tcp dport 22 accept"`.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Element {
    name: String,
    rule: String,
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(file), Some(state)) = (arguments.next(), arguments.next()) else {
        return Err("usage: nft FILE STATE".into());
    };
    let section = keyed_section(Nft::default, |Element { name, rule }| {
        let is_single = !format!("{name}{rule}").contains(['"', ';', '#', '\\', '\n']);
        if is_single { Ok((name, rule)) } else { Err("write a rule without comment".to_owned()) }
    });
    let agent = Agent::new(None, Some(state.into()))?.with_section(section);
    let config = Config::default().with_interval(Duration::from_millis(200));
    let watch = agent.watch(file.as_ref(), config, |event| {
        if let Some(name) = event.name() {
            println!("{name} {}", event.json());
        }
    })?;
    Ok(watch.run()?)
}

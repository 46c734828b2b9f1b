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
struct Nft;

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

/// Lists our rules by name, with their handles. Several rules of one name, such as another program's
/// copies, are one object. No file declares its value, so they become one rule.
fn list(scope: &Namespace) -> io::Result<BTreeMap<String, (String, Vec<String>)>> {
    let listed = match nft(scope, &format!("list chain {CHAIN}")) {
        Err(error) if error.kind() == ErrorKind::NotFound => String::new(), // no chain yet
        listed => listed?,
    };
    let mut rules = BTreeMap::<_, (String, Vec<_>)>::new();
    for line in listed.lines() {
        let Some((rule, handle)) = line.trim().rsplit_once("\" # handle ") else { continue };
        let Some((rule, comment)) = rule.rsplit_once(" comment \"") else { continue };
        // A quote shows the comment of a set's element, which another text follows.
        let name = comment.strip_prefix("trueup ").filter(|name| !name.contains('"'));
        let Some(name) = name else { continue };
        let (text, handles) = rules.entry(name.to_owned()).or_default();
        *text += if handles.is_empty() { "" } else { "; " };
        *text += rule;
        handles.push(handle.to_owned());
    }
    Ok(rules)
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
        Ok(list(scope)?.into_iter().map(|(name, (text, _))| (name, text)).collect())
    }

    fn has_marker(&self, _: &String, _: &String) -> bool {
        true // the others are left out
    }

    fn apply(&mut self, scope: &Namespace, change: &Change<String, String>) -> io::Result<()> {
        let name = change.key();
        let (text, handles) = list(scope)?.remove(name).unzip();
        if text.as_ref() != change.from() {
            return Err(ErrorKind::AlreadyExists.into()); // a handle may be another rule's by now
        }
        let mut rule = change.to().map(|rule| format!("{rule} comment \"trueup {name}\""));
        let mut commands = Vec::new();
        for handle in handles.unwrap_or_default() {
            commands.push(match rule.take() {
                Some(rule) => format!("replace rule {CHAIN} handle {handle} {rule}"),
                None => format!("delete rule {CHAIN} handle {handle}"),
            });
        }
        commands.extend(rule.map(|rule| format!("add rule {CHAIN} {rule}")));
        nft(scope, &commands.join("; ")).map(drop) // all of them or none
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

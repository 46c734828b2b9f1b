//! The desired-state file.

use std::collections::BTreeSet;

use trueup_file::{
    File, Location, NodeRef, Settings, TableNames, exported_route, to_json, to_toml,
};
use trueup_net::{Desired, Route};
use trueup_world::{Acceptance, Entry, Hosts, ResourceKey, Revision};

/// Parses a desired-state file. Its declarations can be written, as TOML and as JSON, and parsed to
/// the same; written again they give the same text. If it is accepted as TOML or JSON, other
/// parsers accept it as well. Each diagnostic has a location in the file.
pub fn file(data: &[u8]) {
    let tables = TableNames::default();
    let file = match File::parse("fuzzed", data, &tables) {
        Ok(file) => file,
        Err(error) => {
            let text = error.to_string();
            assert!(!error.diagnostics().is_empty() && text.starts_with("fuzzed:"));
            let end = end(data);
            for diagnostic in error.diagnostics() {
                let place = diagnostic.location.expect("it was read, so each has a place");
                assert!(place.line >= 1 && place.column >= 1 && place <= end, "{text}");
            }
            return;
        }
    };
    others_agree(data);
    if let Some(sysctls) = &file.sysctl {
        for (key, _) in sysctls.iter() {
            assert!(file.locations.of_sysctl(key).is_some_and(|place| place <= end(data)));
        }
    }
    commands_are_in_order(&file);
    // Other declarations are not written, and an empty file is refused.
    if file.desired == Desired::default() {
        return;
    }
    let writers: [fn(&Settings, &_) -> String; 2] = [to_toml, to_json];
    for write in writers {
        let text = write(&file.settings, &file.desired);
        let again = File::parse("written", text.as_bytes(), &tables)
            .unwrap_or_else(|error| panic!("{error}\n{text}"));
        assert_eq!(plain(again.desired.clone()), plain(file.desired.clone()), "{text}");
        assert_eq!(again.settings, file.settings, "{text}");
        assert_eq!(write(&again.settings, &again.desired), text);
    }
}

/// Checks that files and commands can be executed one after the other: each dependency is in the
/// file, and none depends on itself.
fn commands_are_in_order(file: &File) {
    let files = file.files.iter().flatten().map(|it| ("file", &*it.name, &it.after, &it.on));
    let execs = file.execs.iter().flatten().map(|exec| {
        assert!(exec.command[0].starts_with('/') && !exec.timeout.is_zero());
        ("exec", &*exec.name, &exec.after, &exec.on)
    });
    let mut waiting: Vec<_> = files.chain(execs).collect();
    let mut done = BTreeSet::new();
    while !waiting.is_empty() {
        let before = waiting.len();
        let sections: BTreeSet<&str> = waiting.iter().map(|(section, ..)| *section).collect();
        waiting.retain(|(section, name, after, on)| {
            let is_ready = after.iter().chain(*on).all(|reference| match reference {
                NodeRef::Section(name) => !sections.contains(&**name),
                NodeRef::File(name) => done.contains(&("file", &**name)),
                NodeRef::Exec(name) => done.contains(&("exec", &**name)),
            });
            if is_ready {
                done.insert((*section, *name));
            }
            !is_ready
        });
        assert!(waiting.len() < before, "a cycle");
    }
}

/// Returns the canonical form, in which implied values are equal, written or not.
fn plain(mut desired: Desired) -> Desired {
    let routes = desired.routes.take();
    desired.routes = routes.map(|routes| routes.iter().map(Route::canonical).collect());
    desired
}

/// Checks that the usual crates for TOML and JSON accept an accepted file.
fn others_agree(data: &[u8]) {
    let text = std::str::from_utf8(data).expect("it was taken");
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with('{') {
        let json: Result<serde_json::Value, _> = serde_json::from_str(text);
        json.unwrap_or_else(|error| panic!("it is no JSON: {error}\n{text}"));
    } else {
        let toml: Result<toml::Table, _> = toml::from_str(text);
        toml.unwrap_or_else(|error| panic!("it is no TOML: {error}\n{text}"));
    }
}

/// Returns the location after the last character; one more column, as the error may be the file's
/// end.
fn end(data: &[u8]) -> Location {
    let line = data.iter().filter(|byte| **byte == b'\n').count() + 1;
    let longest = data.split(|byte| *byte == b'\n').map(<[u8]>::len).max();
    Location { line: line as u32, column: longest.unwrap_or(0) as u32 + 1 }
}

/// The collections for [`resource`].
const COLLECTS: &str = "[world]\nstore = \"embedded\"\nhost = \"me\"\n\
    [[collect]]\nkind = \"route\"\nwithin = [ \"10.0.0.0/8\", \"fd00::/8\" ]\nlimit = 3\n\
    [[collect]]\nkind = \"route\"\nfrom = \"a\"\nwithin = [ \"10.0.0.0/8\" ]\ntable = 100\n";

/// Accepts other hosts' resources, one a line: the first byte of a line selects the host. None is
/// lost, and each route is within the collected prefixes.
pub fn resource(data: &[u8]) {
    let file = File::parse("collects", COLLECTS.as_bytes(), &TableNames::default());
    let collects = file.expect("it is right").collects.unwrap_or_default();
    let lines = data.split(|byte| *byte == b'\n');
    let mut acceptance = Acceptance::new(&collects, "me", exported_route);
    let mut others = Vec::new();
    for (line, created) in lines.zip(1..) {
        let Some((first, data)) = line.split_first() else {
            continue;
        };
        let exporter = ["a", "b", "me"][usize::from(*first) % 3].to_owned();
        if exporter != "me" {
            others.push(Revision(created));
        }
        let (kind, recipient) = ("route".to_owned(), Hosts::Any);
        let key = ResourceKey { exporter, recipient, kind, name: created.to_be_bytes().into() };
        let (created, revision, lease) = (Revision(created), Revision(created), None);
        let entry =
            Entry { key: Vec::new(), value: data.into(), created, modified: revision, lease };
        acceptance.insert(&key, &entry.into());
    }
    acceptance.settle();
    let accepted = acceptance.accepted();
    for (route, origin) in accepted.routes.values() {
        let mut within = collects.iter().flat_map(|collect| &collect.within);
        assert!(within.any(|within| within.covers(route.dst)));
        assert_ne!(origin.exporter, "me");
    }
    let mut seen: Vec<Revision> = accepted.refused.iter().map(|it| it.origin.created).collect();
    seen.extend(accepted.routes.values().map(|(_, origin)| origin.created));
    assert!(others.iter().all(|it| seen.contains(it)));
}

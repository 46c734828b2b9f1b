//! Objects in the file's own form, as TOML or JSON: the same objects give the same text.
//!
//! A file cannot say everything that a kernel can hold. An object is written only if reading it
//! back gives the same; of any other the TOML has a comment that names it and says why.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use trueup_diff::render::{clean, is_harmful};
use trueup_diff::{Address, Desired, IfName, Kind, Link, Neighbour, Route, Rule};

use crate::value::{Fields, Key, Node, Table, Value};
use crate::{Form, Settings, Tables};

/// A file as TOML. Markers, indexes and status of objects are not written; `protocol` is, as the
/// marker of the file. A kind that is `None` is left out.
pub fn to_toml(settings: &Settings, desired: &Desired) -> String {
    let mut out = Toml::default();
    for (key, value) in settings.write(&desired.nexthops).iter() {
        match &value.node {
            Node::Table(table) => {
                let _ = write!(out.sections, "\n[{}]\n", key.name);
                toml_pairs(table, &mut out.sections);
            }
            _ => toml_pair(key, value, &mut out.top),
        }
    }
    each(desired, &mut out);
    out.top + &out.sections
}

/// A file as JSON of the same shape; it has no comments, so that what a file cannot say is
/// simply not there.
pub fn to_json(settings: &Settings, desired: &Desired) -> String {
    let mut out = Json(String::new());
    for (key, value) in settings.write(&desired.nexthops).iter() {
        let before = if out.0.is_empty() { "{" } else { "," };
        let _ = write!(out.0, "{before}\n  \"{}\": ", key.name);
        json_value(value, &mut out.0);
    }
    each(desired, &mut out);
    out.0.push_str("\n}\n");
    out.0
}

/// What takes the sections one after another.
trait Sections {
    /// The objects of a kind, and whether they are to be adopted.
    fn section<T: Form>(&mut self, objects: impl Iterator<Item = (T, bool)>);
}

type Adopt = BTreeSet<(Kind, usize)>;

fn each(desired: &Desired, out: &mut impl Sections) {
    fn one<T: Form>(objects: &Option<Vec<T>>, adopt: &Adopt, out: &mut impl Sections) {
        if let Some(objects) = objects {
            let is_adopted = |position| adopt.contains(&(T::KIND, position));
            let objects = objects.iter().enumerate();
            out.section(objects.map(|(at, object)| (object.plain(), is_adopted(at))));
        }
    }
    let adopt = &desired.adopt;
    one::<Link<IfName>>(&desired.links, adopt, out);
    one::<Address<IfName>>(&desired.addresses, adopt, out);
    one::<Neighbour<IfName>>(&desired.neighbours, adopt, out);
    if let Some(routes) = &desired.routes {
        let is_adopted = |route: &Route<IfName>| routes.adopted().contains(&route.canonical_key());
        let routes = routes.iter();
        out.section(routes.map(|route| (route.plain(), is_adopted(&route))));
    }
    one::<Rule>(&desired.rules, adopt, out);
}

/// The keys of a plain object, or why there are none that say it.
fn form<T: Form>(plain: &T, adopt: bool, tables: &Tables) -> Result<Table<'static>, String> {
    let mut table = Table::default();
    plain.write(&mut table);
    if adopt {
        table.push("adopt", Node::Bool(true));
    }
    let read = Fields::new(T::WHAT, 0, &table, T::KEYS, tables).and_then(|f| T::read(&f));
    match read {
        Ok(back) if back == *plain => Ok(table),
        Ok(_) => Err("it has attributes that a file has no keys for".to_owned()),
        Err(fault) => Err(format!("a file cannot say it: {}", fault.message)),
    }
}

/// The pairs, and the sections without objects, come first: below a `[[header]]` they would be keys of that.
#[derive(Default)]
struct Toml {
    top: String,
    sections: String,
}

impl Sections for Toml {
    fn section<T: Form>(&mut self, objects: impl Iterator<Item = (T, bool)>) {
        let tables = Tables::default();
        let mut none = true;
        for (object, adopt) in objects {
            match form(&object, adopt, &tables) {
                Ok(table) => {
                    none = false;
                    let _ = write!(self.sections, "\n[[{}]]\n", T::KIND);
                    toml_pairs(&table, &mut self.sections);
                }
                Err(why) => {
                    let (words, _) = object.key_words();
                    // Names may hold whatever the kernel lets them.
                    let what = format!("{words}: {why}").replace('\n', " ");
                    let _ = write!(self.sections, "\n# not here: {}\n", clean(&what));
                }
            }
        }
        if none {
            let _ = writeln!(self.top, "{} = []", T::KIND);
        }
    }
}

fn toml_pairs(table: &Table<'_>, out: &mut String) {
    for (key, value) in table.iter() {
        toml_pair(key, value, out);
    }
}

fn toml_pair(key: &Key<'_>, value: &Value<'_>, out: &mut String) {
    let _ = write!(out, "{} = ", key.name);
    toml_value(value, out);
    out.push('\n');
}

fn toml_value(value: &Value<'_>, out: &mut String) {
    match &value.node {
        Node::Text(text) => string(text, out),
        Node::List(elements) => {
            out.push('[');
            for (i, element) in elements.iter().enumerate() {
                out.push_str(if i == 0 { " " } else { ", " });
                toml_value(element, out);
            }
            out.push_str(" ]");
        }
        Node::Table(table) => {
            out.push('{');
            for (i, (key, value)) in table.iter().enumerate() {
                out.push_str(if i == 0 { " " } else { ", " });
                let _ = write!(out, "{} = ", key.name);
                toml_value(value, out);
            }
            out.push_str(" }");
        }
        node => scalar(node, out),
    }
}

struct Json(String);

impl Sections for Json {
    fn section<T: Form>(&mut self, objects: impl Iterator<Item = (T, bool)>) {
        let tables = Tables::default();
        let _ = write!(self.0, ",\n  \"{}\": [", T::KIND);
        let mut before = "\n    ";
        let forms = objects.filter_map(|(object, adopt)| form(&object, adopt, &tables).ok());
        for table in forms {
            self.0.push_str(before);
            json_table(&table, &mut self.0);
            before = ",\n    ";
        }
        self.0.push_str(if before.starts_with(',') {
            "\n  ]"
        } else {
            "]"
        });
    }
}

fn json_table(table: &Table<'_>, out: &mut String) {
    out.push('{');
    for (i, (key, value)) in table.iter().enumerate() {
        out.push_str(if i == 0 { " " } else { ", " });
        let _ = write!(out, "\"{}\": ", key.name);
        json_value(value, out);
    }
    out.push_str(" }");
}

fn json_value(value: &Value<'_>, out: &mut String) {
    match &value.node {
        Node::Text(text) => string(text, out),
        Node::List(elements) => {
            out.push('[');
            for (i, element) in elements.iter().enumerate() {
                out.push_str(if i == 0 { " " } else { ", " });
                json_value(element, out);
            }
            out.push_str(" ]");
        }
        Node::Table(table) => json_table(table, out),
        node => scalar(node, out),
    }
}

/// What TOML and JSON write alike.
fn scalar(node: &Node<'_>, out: &mut String) {
    let _ = match node {
        Node::Integer(number) => write!(out, "{number}"),
        Node::Fraction(number) => write!(out, "{number}"),
        Node::Bool(flag) => write!(out, "{flag}"),
        Node::Text(_) | Node::List(_) | Node::Table(_) | Node::Other(_) => Ok(()),
    };
}

/// A string with the escapes that TOML and JSON share. What a terminal would obey is escaped, too.
fn string(text: &str, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            c if is_harmful(c) => {
                let _ = write!(out, "\\u{:04x}", u32::from(c));
            }
            _ => out.push(c),
        }
    }
    out.push('"');
}

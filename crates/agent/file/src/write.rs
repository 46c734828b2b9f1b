//! A desired state as text, TOML or JSON: the same objects give the same text.
//!
//! A file cannot declare everything that a kernel can hold. An object is written only if reading it
//! back gives the same. For any other the TOML has a comment that names it and says why.

use std::fmt::Write as _;

use trueup_net::render::clean;
use trueup_net::{Desired, Kind};

use crate::collect::sections;
use crate::section::{Output, Unwritable, Written};
use crate::settings::Settings;
use crate::text::{json_table, json_value, toml_pair, toml_pairs};
use crate::value::Node;

/// Returns a desired state as TOML. Markers, indexes and status of objects are not written;
/// `protocol` is, as the marker of the file. A kind that is `None` is left out.
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
    write_sections(desired, &mut out);
    out.top + &out.sections
}

/// Returns a desired state as JSON of the same shape. It has no comments, so that objects which a
/// file cannot declare are missing.
pub fn to_json(settings: &Settings, desired: &Desired) -> String {
    let mut out = Json(String::new());
    for (key, value) in settings.write(&desired.nexthops).iter() {
        let before = if out.0.is_empty() { "{" } else { "," };
        let _ = write!(out.0, "{before}\n  \"{}\": ", key.name);
        json_value(value, &mut out.0);
    }
    write_sections(desired, &mut out);
    out.0.push_str("\n}\n");
    out.0
}

fn write_sections(desired: &Desired, out: &mut dyn Output) {
    for section in sections(&[]) {
        section.elements.write(desired, out);
    }
}

/// Pairs, and sections without objects, come first: below a `[[header]]` they would be keys of that
/// object.
#[derive(Default)]
struct Toml {
    top: String,
    sections: String,
}

impl Output for Toml {
    fn section(&mut self, kind: Kind, objects: &mut dyn Iterator<Item = Written>) {
        let mut is_empty = true;
        for object in objects {
            match object {
                Ok(table) => {
                    is_empty = false;
                    let _ = write!(self.sections, "\n[[{kind}]]\n");
                    toml_pairs(&table, &mut self.sections);
                }
                Err(Unwritable { object, why }) => {
                    // A name may have any character that the kernel allows.
                    let what = format!("{object}: {why}");
                    let _ = write!(self.sections, "\n# not here: {}\n", clean(&what));
                }
            }
        }
        if is_empty {
            let _ = writeln!(self.top, "{kind} = []");
        }
    }
}

struct Json(String);

impl Output for Json {
    fn section(&mut self, kind: Kind, objects: &mut dyn Iterator<Item = Written>) {
        let _ = write!(self.0, ",\n  \"{kind}\": [");
        let mut before = "\n    ";
        for table in objects.flatten() {
            self.0.push_str(before);
            json_table(&table, &mut self.0);
            before = ",\n    ";
        }
        self.0.push_str(if before.starts_with(',') { "\n  ]" } else { "]" });
    }
}

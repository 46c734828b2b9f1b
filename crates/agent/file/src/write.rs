//! A desired state as TOML or JSON text. The same objects give the same text.
//!
//! A file cannot declare every object that a kernel can hold. An object is written only if reading
//! it back gives the same. For any other object, TOML has a comment that names it and says why.

use std::fmt::Write as _;

use trueup_net::Desired;
use trueup_net::render::clean;

use crate::kinds;
use crate::settings::Settings;
use crate::value::{Form, Node};

/// Returns a desired state as TOML. Does not write markers, indexes and status of objects. Writes
/// `protocol`, the file's marker. A kind that is `None` is left out.
///
/// ```
/// use trueup_file::{File, Settings, TableNames, to_toml};
/// use trueup_net::{BridgeAttrs, Desired, Link, LinkKind};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let bridge = Link::new("br0".parse()?, LinkKind::Bridge(BridgeAttrs::default()));
/// let desired = Desired::default().with_links([bridge]);
/// let text = to_toml(&Settings::default(), &desired);
/// assert!(text.contains("name = \"br0\""));
/// let again = File::parse("f.toml", text.as_bytes(), &TableNames::default())?;
/// assert_eq!(again.desired.links, desired.links);
/// # Ok(())
/// # }
/// ```
pub fn to_toml(settings: &Settings, desired: &Desired) -> String {
    // Below a `[[header]]`, pairs and sections without objects would be keys of that object.
    let (mut top, mut sections) = (String::new(), String::new());
    for (key, value) in settings.write(&desired.nexthops).iter() {
        if let Node::Table(table) = &value.node {
            let _ = write!(sections, "\n[{}]\n", key.name);
            Form::Toml.lines(table, &mut sections);
        } else {
            Form::Toml.pair(key, value, &mut top);
            top.push('\n');
        }
    }
    for (kind, objects) in kinds::written(desired) {
        let mut is_empty = true;
        for object in objects {
            match object {
                Ok(table) => {
                    is_empty = false;
                    let _ = write!(sections, "\n[[{kind}]]\n");
                    Form::Toml.lines(&table, &mut sections);
                }
                // A name may have any character that the kernel allows.
                Err(why) => _ = write!(sections, "\n# not here: {}\n", clean(&why)),
            }
        }
        if is_empty {
            let _ = writeln!(top, "{kind} = []");
        }
    }
    top + &sections
}

/// Returns a desired state as JSON of the same shape. It has no comments, so objects that a file
/// cannot declare are missing.
///
/// ```
/// use trueup_file::{Settings, to_json};
/// use trueup_net::Desired;
///
/// let text = to_json(&Settings::default(), &Desired::default().with_routes([]));
/// assert!(text.contains("\"route\""));
/// ```
pub fn to_json(settings: &Settings, desired: &Desired) -> String {
    let mut out = String::new();
    for (key, value) in settings.write(&desired.nexthops).iter() {
        out.push_str(if out.is_empty() { "{\n  " } else { ",\n  " });
        Form::Json.pair(key, value, &mut out);
    }
    for (kind, objects) in kinds::written(desired) {
        let _ = write!(out, ",\n  \"{kind}\": [");
        let mut before = "\n    ";
        for table in objects.flatten() {
            out.push_str(before);
            Form::Json.table(&table, &mut out);
            before = ",\n    ";
        }
        out.push_str(if before.starts_with(',') { "\n  ]" } else { "]" });
    }
    out.push_str("\n}\n");
    out
}

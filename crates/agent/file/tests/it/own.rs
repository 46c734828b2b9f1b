//! Sections that another crate reads.

use std::collections::BTreeMap;

use trueup_file::{File, Location, NodeRef, OwnElement, TableNames};

fn parsed(text: &str) -> Result<File, String> {
    let tables = TableNames::default();
    let file = File::parse_with("f", text.as_bytes(), &tables, &["directory", "nft"]);
    file.map_err(|error| error.to_string())
}

#[test]
fn the_elements_of_a_section_of_another_crate_come_with_their_places() {
    let text = "[[nft]]\ntable = \"a\"\nports = [22, 80]\n[[nft]]\nset.x = 1.5\n\
                [directory]\npath = \"/srv\"\n[[exec]]\nname = \"e\"\ncommand = [\"/bin/true\"]\n\
                on = [\"nft\"]\n";
    let error = parsed(text).unwrap_err();
    assert!(error.starts_with("f:5:1: "), "{error}");
    let file = parsed(&text.replace("set.x", "set")).unwrap();
    let nft = &file.own_sections["nft"];
    let value = |element: &OwnElement| element.read::<serde_json::Value>().unwrap();
    assert_eq!(value(&nft[0]), serde_json::json!({ "table": "a", "ports": [22, 80] }));
    assert_eq!((nft[1].location, nft.len()), (Location { line: 4, column: 1 }, 2));
    assert_eq!(value(&file.own_sections["directory"][0])["path"], "/srv");
    let wrong = nft[1].read::<BTreeMap<String, String>>().unwrap_err();
    assert_eq!(wrong.location, Some(nft[1].location));
    let on = &file.execs.unwrap()[0].on;
    assert_eq!(on[..], [NodeRef::Section("nft".to_owned())]);
}

#[test]
fn the_same_in_json() {
    let file = parsed("{ \"nft\": [{ \"a\": true }], \"directory\": { \"b\": \"c\" } }").unwrap();
    let read = |name: &str| file.own_sections[name][0].read::<serde_json::Value>().unwrap();
    assert_eq!((&read("nft")["a"], &read("directory")["b"]), (&true.into(), &"c".into()));
}

#[test]
fn a_section_that_nobody_reads_is_an_error_with_the_nearest_name() {
    let error = parsed("[[directry]]\npath = \"/srv\"\n").unwrap_err();
    assert!(error.contains("directory"), "{error}");
    let error = File::parse("f", b"[[nft]]\n", &TableNames::default()).unwrap_err();
    assert!(error.to_string().contains("nft"), "{error}");
    let error = parsed("directory = 1\n").unwrap_err();
    assert!(error.starts_with("f:1:13: expected a list"), "{error}");
}

//! Wrong files, each with the exact text of its error. The comments at the start of
//! `tests/bad/*.toml` hold the text, one line for each diagnostic.

use std::path::Path;

use trueup_file::{File, TableNames};

fn errors(name: &str, text: &[u8]) -> Vec<String> {
    match File::parse(name, text, &TableNames::default()) {
        Ok(file) => panic!("{name} is taken for {file:?}"),
        Err(error) => error.to_string().lines().map(str::to_owned).collect(),
    }
}

#[test]
fn each_bad_file_has_the_error_that_it_names() {
    let dir = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/bad");
    let mut seen = 0;
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        let text = std::fs::read_to_string(&path).unwrap();
        let expected: Vec<&str> = text.lines().map_while(|line| line.strip_prefix("# ")).collect();
        let name = path.file_name().unwrap().to_str().unwrap();
        assert_eq!(errors(name, text.as_bytes()), expected, "{name}");
        seen += 1;
    }
    assert!(seen > 35, "{seen} files");
}

fn error(name: &str, text: &[u8]) -> String {
    errors(name, text).join("\n")
}

#[test]
fn json_errors_have_line_and_column() {
    let cases = [
        (
            "",
            "f.json:1:1: the JSON ends too early: a part of it is missing, or a bracket or quote is \
             not closed",
        ),
        ("[]", "f.json:1:1: invalid type: sequence, expected an object"),
        (
            "{\"route\": [{\"dst\":",
            "f.json:1:18: the JSON ends too early: a part of it is missing, or a bracket or quote is \
             not closed",
        ),
        (
            "{\"route\": ]",
            "f.json:1:11: expected a value, such as \"text\", 7, true, a list or an object",
        ),
        ("{\n  \"ä\": 1x\n}", "f.json:2:9: expected `,` or `}`"),
        ("{} x", "f.json:1:4: trailing characters"),
        (
            "{}",
            "f.json:1:1: this declares nothing: write a section, such as [[route]], or `route = \
             []` for no routes",
        ),
        (
            "{ \"protocol\": 1, \"rule\": [] }",
            "f.json:1:15: protocol: 1 (redirect) cannot be a marker, as the kernel and objects made \
             by hand bear 0 to 4 and 9: write a number from 5 to 255 that no other program here \
             uses; 100 to 185 are unassigned, 116 is the default",
        ),
        ("{ \"rule\": [],\n  \"rule\": [] }", "f.json:2:3: `rule` is given twice"),
        (
            "{ \"routes\": [] }",
            "f.json:1:3: unknown section `routes` of a file; did you mean `route`?",
        ),
        (
            "{ \"rule\": null }",
            "f.json:1:11: expected a list of rule sections, found null: write [[rule]] above the \
             keys, or rule = []",
        ),
        (
            "{ \"route\": [ \"ä\",\n { \"dst\": \"10.0.0.1/8\", \"dev\": \"a\" },\n\
             { \"dst\": \"ö\", \"dev\": \"a\" }, { \"dst\": \"1.0.0.0/8\", \"metrc\": 1 } ] }",
            "f.json:1:14: expected a route as a table { ... }, found a string\n\
             f.json:2:11: dst: 10.0.0.1/8 has bits set behind its prefix length; write \
             10.0.0.0/8\n\
             f.json:3:10: dst: `ö` is not a prefix: write ADDRESS/LENGTH, such as 10.0.0.0/8 or \
             2001:db8::/32\n\
             f.json:3:51: unknown key `metrc` of a route; did you mean `metric`?",
        ),
        (
            "{ \"link\": [ { \"name\": \"\\ud800\" } ] }",
            "f.json:1:30: unexpected end of hex escape",
        ),
        (
            "{ \"link\": [ { \"name\": \"a\", \"name\": \"b\" } ] }",
            "f.json:1:28: `name` is given twice",
        ),
        (
            "{ \"link\": [ { \"name\": \"a\", \"mtu\": 1e3 } ] }",
            "f.json:1:35: mtu: expected a number from 1 to 2147483647, found a fraction",
        ),
        (
            "{ \"link\": [ { \"name\": \"a\" }, { \"name\": \"\\u0061\" } ] }",
            "f.json:1:30: a second link a: the first is at 1:13; remove one, or give it another \
             name",
        ),
        ("{ \"link\": [ [[[[[[[[[1]]]]]]]]] ] }", "f.json:1:21: nested more than 8 deep"),
    ];
    for (text, expected) in cases {
        assert_eq!(error("f.json", text.as_bytes()), expected, "{text}");
    }
}

#[test]
fn json_is_known_by_its_name_or_its_first_character() {
    let json = "\u{feff} { \"route\": [ { \"dst\": \"10.0.0.0/8\", \"dev\": \"a\" } ] }";
    let toml = "\u{feff}[[route]]\ndst = \"10.0.0.0/8\"\ndev = \"a\"";
    let read = |name, text: &str| File::parse(name, text.as_bytes(), &TableNames::default());
    let from_json = read("state", json).unwrap();
    assert_eq!(from_json.desired, read("state", toml).unwrap().desired);
    assert!(read("state.json", toml).is_err());
}

#[test]
fn bytes_that_are_not_utf8_are_reported_with_their_place() {
    let expected = "f:2:4: this is not UTF-8: save the file as UTF-8 text";
    assert_eq!(error("f", b"route = []\n# \xc3\xa4\xff"), expected);
}

#[test]
fn a_file_that_cannot_be_read_says_why() {
    let read = |path: &Path| File::read(path, &TableNames::default()).unwrap_err();
    let missing = read(Path::new("/nonexistent/edge.toml"));
    assert_eq!(missing.to_string(), "/nonexistent/edge.toml: no such file");
    assert!(!missing.is_transient());
    let directory = read(Path::new("/"));
    assert_eq!(directory.to_string(), "/: is a directory: name a file in it");
    // This device's text has no end.
    let device = read(Path::new("/dev/zero")).to_string();
    assert!(device.starts_with("/dev/zero: it is a device, and not a regular file"), "{device}");
    // Opening a pipe would wait for its other end.
    let fifo = std::env::temp_dir().join(format!("trueup-bad-{}", std::process::id()));
    let made = std::process::Command::new("mkfifo").arg(&fifo).status();
    assert!(made.unwrap().success());
    let refused = read(&fifo).to_string();
    std::fs::remove_file(&fifo).unwrap();
    assert!(refused.contains("it is a FIFO, and not a regular file"), "{refused}");
}

#[test]
fn nesting_without_end_is_refused_and_does_not_overflow() {
    for text in [
        format!("route = {}", "[".repeat(1_000_000)),
        format!("route = {}", "{a=".repeat(1_000_000)),
        format!("[[route]]\n{}b = 1", "a.".repeat(1_000_000)),
        format!("[[{}b]]", "a.".repeat(1_000_000)),
        format!("{{\"route\": {}", "[".repeat(1_000_000)),
        format!("{{\"route\": {}{}}}", "[".repeat(100_000), "]".repeat(100_000)),
    ] {
        assert!(error("f", text.as_bytes()).len() < 300);
    }
}

#[test]
fn errors_without_end_are_cut_short() {
    let text = "[[rule]]\n".repeat(100_000);
    let lines = errors("f", text.as_bytes());
    assert_eq!(lines.len(), 21);
    assert_eq!(lines[20], "f: and more errors");
    let keys: String = (0..100_000).map(|n| format!("k{n} = 1\n")).collect();
    let text = error("f", format!("[[rule]]\n{keys}").as_bytes());
    assert_eq!(text, "f:66:1: more than 64 keys in one table");
}

#[test]
fn a_yaml_file_is_recognised() {
    let error = |name: &str, text: &str| {
        let file = File::parse(name, text.as_bytes(), &TableNames::default());
        file.unwrap_err().to_string()
    };
    for (name, text, place) in [
        ("f", "# netplan\nnetwork:\n  version: 2\n", "f:2:1"),
        ("f", "---\nroute: []\n", "f:1:1"),
        ("f.toml", "interfaces:\n- name: eth0\n", "f.toml:1:1"),
        ("f", "- name: eth0\n", "f:1:1"),
        ("f.yaml", "route = []\n", "f.yaml:1:1"),
        ("f.yml", "{}", "f.yml:1:1"),
    ] {
        let error = error(name, text);
        assert!(error.starts_with(&format!("{place}: this is YAML: ")), "{error}");
    }
    for text in ["route = []\n", "{ \"route\": [] }", "# a: b\n\n[sysctl]\n\"a:b\" = 1\n"] {
        let file = File::parse("f", text.as_bytes(), &TableNames::default());
        let error = file.map_or_else(|error| error.to_string(), |_| String::new());
        assert!(!error.contains("YAML"), "{error}");
    }
}

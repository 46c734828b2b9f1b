//! Properties of the file: written objects read back the same, and no text causes a panic.

use crate::arbitrary::{address, counts, desired, link, neighbour, route, rule, settings, sysctls};
use proptest::prelude::*;
use trueup_file::{File, Settings, TableNames, to_json, to_toml};
use trueup_net::{
    Collection, Desired, Keyed as _, Kind, LinkKind, NeighbourState, NextHops, RouteType,
    RuleAction,
};

fn read(name: &str, text: &str) -> File {
    let file = File::parse(name, text.as_bytes(), &TableNames::default());
    file.unwrap_or_else(|error| panic!("{error}\n{text}"))
}

proptest! {
    #[test]
    fn what_is_written_reads_back_as_the_same(desired in desired(), settings in settings()) {
        let toml = to_toml(&settings, &desired);
        let from_toml = read("written", &toml);
        prop_assert_eq!(&from_toml.settings, &settings, "{}", toml);
        prop_assert_eq!(&from_toml.desired, &desired, "{}", toml);
        let json = to_json(&settings, &desired);
        let from_json = read("written.json", &json);
        prop_assert_eq!(&from_json.settings, &settings, "{}", json);
        prop_assert_eq!(&from_json.desired, &desired, "{}", json);
        prop_assert_eq!(to_toml(&settings, &from_json.desired), toml);
        for (kind, count) in Kind::DECLARED.into_iter().zip(counts(&desired)) {
            prop_assert!((0..count).all(|i| from_toml.locations.at(kind, i).is_some()));
            prop_assert!(from_toml.locations.at(kind, count).is_none());
        }
    }

    /// Other parsers judge the two parsers used here: the TOML and the JSON hold the same values.
    #[test]
    fn what_is_written_is_toml_and_json(desired in desired(), settings in settings()) {
        let toml: toml::Value = toml::from_str(&to_toml(&settings, &desired)).unwrap();
        let json: toml::Value = serde_json::from_str(&to_json(&settings, &desired)).unwrap();
        prop_assert_eq!(toml, json);
    }

    #[test]
    fn an_object_that_no_file_can_say_is_a_comment(
        mut link in link(), mut neighbour in neighbour(), mut route in route(),
        mut rule in rule(), address in address(), pick in any::<[prop::sample::Index; 3]>(),
    ) {
        link.mtu = Some(0);
        neighbour.state = NeighbourState::NoArp;
        neighbour.proxy = false;
        match pick[0].index(4) {
            0 => route.unmodelled = true,
            1 => route.kind = RouteType::Multicast,
            2 => route.kind = RouteType::Other(77),
            _ => (route.kind, route.nexthops) = (RouteType::Unicast, NextHops::Object(5, vec![])),
        }
        match pick[1].index(4) {
            0 => rule.unmodelled = true,
            1 => rule.action = RuleAction::Nop,
            2 => rule.priority = 0,
            _ => rule.from = Some("10.0.0.1/8".parse().unwrap()),
        }
        let desired = Desired::default()
            .with_links([link])
            .with_addresses([address])
            .with_neighbours([neighbour])
            .with_routes([route])
            .with_rules(Collection::from([rule.clone()]).with_adopted([rule.canonical_key()]));
        let settings = Settings::default();
        let toml = to_toml(&settings, &desired);
        prop_assert_eq!(toml.matches("\n# not here: ").count(), 4, "{}", toml);
        prop_assert_eq!(counts(&read("written", &toml).desired), [0, 1, 0, 0, 0]);
        let json = to_json(&settings, &desired);
        prop_assert_eq!(counts(&read("written.json", &json).desired), [0, 1, 0, 0, 0]);
    }

    #[test]
    fn a_link_of_a_kind_that_no_file_knows_must_exist(mut link in link()) {
        link.index = 7;
        link.kind = Some(LinkKind::Other("wireguard".into()));
        let desired = Desired::default().with_links([link.clone()]);
        let back = read("written", &to_toml(&Settings::default(), &desired)).desired.links.unwrap();
        (link.kind, link.index) = (None, 0);
        prop_assert_eq!(back, Collection::from([link]));
    }

    /// A key means the same in any spelling, with headers or nested tables.
    #[test]
    fn sysctls_read_the_same_in_every_form(
        each in sysctls(), forms in prop::collection::vec(0..4u8, 12), nested in any::<bool>(),
    ) {
        let mut lines = Vec::new();
        let mut members = Vec::new();
        for ((path, value), form) in each.iter().zip(forms) {
            let slashes = path.join("/");
            let key = match form {
                0 => format!("\"{slashes}\""),
                1 => {
                    let path: Vec<_> = path.iter().map(|part| part.replace('.', "/")).collect();
                    format!("'{}'", path.join("."))
                }
                2 => {
                    let path: Vec<_> = path.iter().map(|part| format!("\"{part}\"")).collect();
                    path.join(" . ")
                }
                _ => format!("net.{}.\"{}\".{}", path[1], path[2], path[3]),
            };
            lines.push(format!("{key} = {value}"));
            members.push(format!("\"{slashes}\": {value}"));
        }
        let toml = match nested {
            true => format!("sysctl = {{ {} }}", lines.join(", ")),
            false => format!("[sysctl]\n{}\n", lines.join("\n")),
        };
        let file = read("f.toml", &toml);
        let sysctls = file.sysctl.clone().unwrap();
        prop_assert_eq!(sysctls.len(), each.len());
        let json = format!("{{ \"sysctl\": {{ {} }} }}", members.join(","));
        prop_assert_eq!(read("f.json", &json).sysctl, file.sysctl);
        for (path, value) in &each {
            let key = path.join("/").parse().unwrap();
            let text = match value.as_str() {
                "true" => "1".to_owned(),
                "false" => "0".to_owned(),
                text => text.trim_matches('"').split_whitespace().collect::<Vec<_>>().join(" "),
            };
            prop_assert_eq!(sysctls.get(&key).unwrap().as_str(), text);
            prop_assert!(file.locations.of_sysctl(&key).is_some());
        }
    }

    /// If a text is accepted as a file with sysctls, other parsers accept it as TOML, too.
    #[test]
    fn no_text_of_sysctls_makes_it_panic(
        text in r#"(\[sysctl\]\n)?(sysctl|(net|"net"|'a.b')?[.]?[a-c]?[.]?(x|"y/z"|\{|\}|,)? ?= ?(1|\{|true|""|\{\})[\n,}]{0,2}){0,6}"#,
    ) {
        for name in ["f.toml", "f.json"] {
            let file = File::parse(name, text.as_bytes(), &TableNames::default());
            if file.is_ok() && name == "f.toml" {
                prop_assert!(toml::from_str::<toml::Table>(&text).is_ok(), "{}", text);
            }
        }
    }

    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        for name in ["f.toml", "f.json"] {
            let _ = File::parse(name, &bytes, &TableNames::default());
        }
    }

    #[test]
    fn no_text_of_its_own_letters_makes_it_panic(text in r#"([\[\]{}",.=\n#: '0-9a-z\\-]|route|dst|via|nexthops|grace|adopt|ownership|sysctl|net){0,60}"#) {
        for name in ["f.toml", "f.json"] {
            let _ = File::parse(name, text.as_bytes(), &TableNames::default());
        }
    }

    /// If a text is accepted as TOML, it is TOML. A reported location lies in the file.
    #[test]
    fn no_change_of_a_good_file_makes_it_panic(
        desired in desired(),
        settings in settings(),
        is_json in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), 0..4u8, any::<u8>()), 1..6),
    ) {
        let (name, text) = if is_json {
            ("f.json", to_json(&settings, &desired))
        } else {
            ("f.toml", to_toml(&settings, &desired))
        };
        let mut bytes = text.into_bytes();
        for (at, how, byte) in changes {
            if bytes.is_empty() {
                break;
            }
            let at = at.index(bytes.len());
            match how {
                0 => bytes[at] = byte,
                1 => bytes.insert(at, byte),
                2 => _ = bytes.remove(at),
                _ => bytes.truncate(at + 1),
            }
        }
        let file = File::parse(name, &bytes, &TableNames::default());
        if file.is_ok() && !is_json {
            let text = std::str::from_utf8(&bytes).unwrap();
            prop_assert!(toml::from_str::<toml::Table>(text).is_ok(), "{}", text);
        }
        if let Err(error) = file {
            let lines = 1 + bytes.iter().filter(|byte| **byte == b'\n').count();
            for diagnostic in error.diagnostics() {
                let location = diagnostic.location.unwrap();
                prop_assert!((1..=lines).contains(&(location.line as usize)), "{}", error);
                prop_assert!(location.column >= 1);
            }
        }
    }
}

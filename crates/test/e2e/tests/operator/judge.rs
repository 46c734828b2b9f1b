//! Compares the declaration with the kernel, as `ip` shows it, and with the files.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;

use serde_json::Value;
use trueup_testkit::ip_json;

use crate::declared::Declared;
use crate::network::OURS;

/// Returns all differences from the declaration. `source` is the source's content.
pub(crate) fn differences(declared: &Declared, root: &Path, source: &str) -> Vec<String> {
    let mut found = Differences::default();
    found.links(declared);
    found.addresses(declared);
    found.routes(declared);
    found.rules(declared);
    found.settings(declared);
    found.files(declared, root, source);
    found.0
}

#[derive(Default)]
struct Differences(Vec<String>);

type Set = BTreeSet<String>;

fn set<'a>(words: impl IntoIterator<Item = &'a str>) -> Set {
    words.into_iter().map(str::to_owned).collect()
}

fn text<'a>(row: &'a Value, field: &str) -> &'a str {
    row[field].as_str().unwrap_or("-")
}

impl Differences {
    fn compare<T: PartialEq + Debug>(&mut self, what: &str, is: T, declared: T) {
        if is != declared {
            let line = format!("{what}: is {is:?}, declared {declared:?}");
            self.0.push(line);
        }
    }

    fn links(&mut self, declared: &Declared) {
        let rows: Vec<Value> = ip_json(&["link", "show"]);
        let link = |row: &Value| {
            let is_up =
                row["flags"].as_array().is_some_and(|flags| flags.iter().any(|flag| flag == "UP"));
            let kind = text(&row["linkinfo"], "info_kind");
            let master = text(row, "master");
            format!("{} {kind} up {is_up} master {master}", text(row, "ifname"))
        };
        let ours = rows.iter().filter(|row| OURS.contains(&text(row, "ifname")));
        let mut expected = set([
            "obr bridge up true master -",
            "oa veth up true master -",
            "ob veth up true master obr",
        ]);
        if declared.has_second_pair {
            expected.extend(set(["oc veth up true master -", "od veth up true master -"]));
        }
        self.compare("links", ours.map(link).collect(), expected);
    }

    fn addresses(&mut self, declared: &Declared) {
        let rows: Vec<Value> = ip_json(&["address", "show"]);
        let mut is = Set::new();
        for row in rows.iter().filter(|row| OURS.contains(&text(row, "ifname"))) {
            for address in row["addr_info"].as_array().into_iter().flatten() {
                let local = text(address, "local");
                // Link-local addresses are the kernel's own.
                if !local.starts_with("fe80:") {
                    let length = &address["prefixlen"];
                    is.insert(format!("{local}/{length} {}", text(row, "ifname")));
                }
            }
        }
        let mut expected = set(["10.66.0.1/24 obr", "fd00:66::1/64 obr", "10.67.0.1/24 oa"]);
        if declared.has_second_pair {
            expected.extend(set(["10.68.0.1/24 oc"]));
        }
        self.compare("addresses", is, expected);
    }

    fn routes(&mut self, declared: &Declared) {
        let mut is = Set::new();
        for family in ["-4", "-6"] {
            let words = [family, "route", "show", "table", "all", "proto", "116"];
            for row in ip_json::<Vec<Value>>(&words) {
                let [kind, dst, gateway] =
                    ["type", "dst", "gateway"].map(|field| text(&row, field));
                is.insert(format!("{kind} {dst} via {gateway}"));
            }
        }
        let mut expected = set(["unicast fd00:99::/64 via fd00:66::2"]);
        let gateway = declared.gateway;
        expected.insert(format!("unicast 10.99.1.0/24 via 10.66.0.{gateway}"));
        if declared.has_second_pair {
            expected.extend(set(["unicast 10.99.3.0/24 via 10.68.0.2"]));
        }
        if declared.has_blackhole {
            expected.extend(set(["blackhole 10.99.2.0/24 via -"]));
        }
        self.compare("routes", is, expected);
    }

    fn rules(&mut self, declared: &Declared) {
        let mut is = Set::new();
        for family in ["-4", "-6"] {
            for row in ip_json::<Vec<Value>>(&[family, "rule", "show"]) {
                if text(&row, "protocol") == "116" {
                    is.insert(format!("{} table {}", row["priority"], text(&row, "table")));
                }
            }
        }
        let mut expected = set(["6666 table 66"]);
        if declared.has_second_rule {
            expected.extend(set(["6667 table 67"]));
        }
        self.compare("rules", is, expected);
    }

    fn settings(&mut self, declared: &Declared) {
        for (key, value) in [
            ("ipv4/ip_forward", 1),
            ("ipv4/conf/all/rp_filter", declared.rp_filter),
            ("ipv4/conf/obr/proxy_arp", declared.proxy_arp),
        ] {
            let is = fs::read_to_string(format!("/proc/sys/net/{key}"));
            self.compare(key, is.unwrap_or_default().trim(), &*value.to_string());
        }
    }

    fn files(&mut self, declared: &Declared, root: &Path, source: &str) {
        let conf = format!("{}\n", declared.word());
        let mut file = |name: &str, declared: Option<(&str, u32)>| {
            let path = root.join("files").join(name);
            let is = fs::symlink_metadata(&path).ok().map(|found| {
                let content = match found.is_file() {
                    true => fs::read_to_string(&path).unwrap_or_default(),
                    false => format!("{:?}", found.file_type()),
                };
                (content, found.permissions().mode() & 0o7777)
            });
            let is = is.as_ref().map(|(content, mode)| (&**content, *mode));
            self.compare(name, is, declared);
        };
        file("etc/conf", Some((&conf, 0o644)));
        file("deep/a/b/conf", Some(("deep\n", 0o640)));
        file("plain/copy", Some((source, 0o644)));
        let extra = declared.has_extra_file.then_some(("extra\n", 0o644));
        file("plain/extra", extra);
        let log = fs::read_to_string(root.join("log")).unwrap_or_default();
        let has_run = log.lines().any(|line| line == declared.word());
        self.compare("the command of this version has run", has_run, true);
        self.compare("the checked file", root.join("made").exists(), true);
    }
}

//! `trueup why`: each proof, each kind, both families; as text and as JSON.

use serde_json::{Value, json};
use trueup_testkit::{Snapshot, ip, ip_batch, uplinks, veth_pair, without_net_admin};

use crate::agent::{Agent, FAMILIES, Ran, Words, route, via};

const PAGE: &str = include_str!("../../../../agent/cli/README.md");
const EXAMPLE: &str = include_str!("../../../../../docs/examples/edge.toml");

/// Runs `why` with these words.
fn why(agent: &Agent, words: &str) -> Ran {
    let args: Vec<&str> = ["why"].into_iter().chain(words.split(' ')).collect();
    agent.run(&args)
}

/// Returns the answers for all objects asked about, given a file.
#[track_caller]
fn all(agent: &Agent, file: &str, words: &str) -> Vec<Value> {
    agent.write("f.toml", file);
    let ran = why(agent, &format!("{words} --file f.toml --format json"));
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{words}: {ran:?}");
    ran.json()["objects"].as_array().unwrap().clone()
}

/// Returns the answer for the only object asked about.
#[track_caller]
fn one(agent: &Agent, file: &str, words: &str) -> Value {
    let mut objects = all(agent, file, words);
    assert_eq!(objects.len(), 1, "{words}: {objects:#?}");
    objects.remove(0)
}

/// Returns the proofs of the kernel's objects, and the next pass's acts.
fn short(object: &Value) -> (Vec<&str>, Vec<&str>) {
    fn each<'a>(list: &'a Value, word: impl Fn(&'a Value) -> &'a Value) -> Vec<&'a str> {
        let list = list.as_array().unwrap().iter();
        list.map(|each| word(each).as_str().unwrap()).collect()
    }
    let next = each(&object["next"], |step| match step["op"].as_str() {
        Some("nothing") => &step["reason"],
        _ => &step["op"],
    });
    (each(&object["kernel"], |row| &row["proof"]), next)
}

#[track_caller]
fn assert_short(object: &Value, proof: &str, next: &str) {
    assert_eq!(short(object), (vec![proof], vec![next]), "{object:#}");
}

const NOTHING: &str = "link = []\naddress = []\nneighbour = []\nroute = []\nrule = []\n";

const BY_LEDGER: &str = "ownership = { address = \"ledger\", neighbour = \"ledger\", route = \"ledger\", rule = \"ledger\" }\n";

/// Returns a file with an object of each kind in a family, and the words to ask for each.
fn each_kind(words: Words) -> (String, [String; 5]) {
    let Words { family, dst, other, gateways: [_, neighbour], .. } = words;
    let address = match family {
        "inet" => "10.66.0.1/24",
        _ => "fd00:66::1/64",
    };
    let file = format!(
        r#"
        [[link]]
        name = "ours"
        kind = "veth"
        peer = "ours-p"
        [[address]]
        dev = "up0"
        address = "{address}"
        [[neighbour]]
        dev = "up0"
        dst = "{neighbour}"
        lladdr = "02:00:00:00:00:09"
        [[route]]
        dst = "{dst}"
        type = "blackhole"
        metric = 7
        [[rule]]
        priority = 1000
        to = "{other}"
        table = 100
        "#
    );
    let asked = [
        "link ours".to_owned(),
        format!("address {address}"),
        format!("neighbour {neighbour} dev up0"),
        format!("route {dst} metric 7"),
        format!("rule 1000 {}", words.flag),
    ];
    (file, asked)
}

pub(crate) fn what_is_ours_is_told_with_its_proof_for_each_kind() {
    uplinks(1);
    for words in FAMILIES {
        let (file, asked) = each_kind(words);
        for (head, proof) in [("", "marker"), (BY_LEDGER, "ledger")] {
            let agent = Agent::new();
            let (full, none) = (format!("{head}{file}"), format!("{head}{NOTHING}"));
            for asked in &asked {
                let object = one(&agent, &full, asked);
                assert_eq!(short(&object), (vec![], vec!["create"]), "{object:#}");
            }
            agent.settle(&full);
            for asked in &asked {
                let link = asked.starts_with("link");
                let proof = if link { "ledger" } else { proof };
                let object = one(&agent, &full, asked);
                assert_short(&object, proof, "as_declared");
                assert_eq!(object["kernel"][0]["ours"], true);
                let protocol = if link { Value::Null } else { json!(116) };
                assert_eq!(object["kernel"][0]["protocol"], protocol);
                let origin = if proof == "ledger" { json!("made") } else { Value::Null };
                assert_eq!(object["ledger"]["origin"], origin, "{object:#}");
                let object = one(&agent, "route = []", asked);
                let next = if asked.starts_with("route") { "delete" } else { "unmanaged" };
                // Without `[ownership]` the marker is the proof again.
                assert_short(&object, if link { "ledger" } else { "marker" }, next);
                assert_short(&one(&agent, &none, asked), proof, "delete");
            }
            agent.settle(&none);
            for asked in &asked {
                let ran = why(&agent, &format!("{asked} --file f.toml"));
                let expected = "not in the kernel, not declared, and not in the ledger\n";
                assert!(ran.code == 0 && ran.out.ends_with(expected), "{ran:?}");
                let asked = asked.trim_end_matches([' ', '-', '4', '6']);
                assert!(ran.out.starts_with(asked), "{ran:?}");
            }
        }
    }
}

pub(crate) fn a_foreign_object_is_shown_with_its_proof() {
    uplinks(1);
    veth_pair("theirs", "theirs-p");
    for words in FAMILIES {
        let agent = Agent::new();
        let Words { flag, dst, other, gateways: [one_hop, other_hop], .. } = words;
        ip_batch([format!("route add {dst} via {one_hop} proto static")]);
        let object = one(&agent, &via(dst, other_hop), &format!("route {dst}"));
        assert_short(&object, "protocol", "conflict");
        assert_eq!(object["kernel"][0]["protocol_name"], "static");
        assert!(object["next"][0]["reason"].as_str().unwrap().contains(one_hop));
        assert_eq!(object["declared"]["file"], "f.toml");
        assert_eq!(object["declared"]["line"], 1);
        let object = one(&agent, &via(dst, one_hop), &format!("route {dst}"));
        assert_short(&object, "protocol", "satisfied_by_foreign");
        let object = one(&agent, "route = []", &format!("route {dst}"));
        assert_short(&object, "protocol", "foreign");
        let adopted = format!("adopt = true\n{}", via(dst, one_hop));
        let object = one(&agent, &adopted, &format!("route {dst}"));
        assert_short(&object, "protocol", "adopt");

        // The route has our marker, but the file does not use markers.
        ip_batch([format!("route add {other} via {one_hop} proto 116")]);
        let forced = format!("{BY_LEDGER}route = []");
        let object = one(&agent, &forced, &format!("route {other}"));
        assert_short(&object, "unproven_marker", "foreign");

        ip_batch([
            format!("neigh add {one_hop} lladdr 02:00:00:00:00:66 dev up0 nud permanent"),
            format!("neigh add {other_hop} lladdr 02:00:00:00:00:66 dev up0 nud stale"),
        ]);
        let neighbour = |dst: &str| format!("neighbour {dst}");
        let object = one(&agent, NOTHING, &neighbour(one_hop));
        assert_short(&object, "unmarked", "foreign");
        let object = one(&agent, NOTHING, &neighbour(other_hop));
        assert_short(&object, "passing", "foreign");

        // Several rules may share a priority, some of them in one family.
        ip(&[flag, "rule", "add", "pref", "700", "to", dst, "lookup", "9", "protocol", "bird"]);
        ip(&[flag, "rule", "add", "pref", "700", "to", other, "lookup", "9"]);
        let rules = all(&agent, NOTHING, &format!("rule 700 {flag}"));
        let proofs: Vec<_> = rules.iter().map(|rule| short(rule).0[0]).collect();
        assert!(rules.len() == 2 && proofs.contains(&"protocol"), "{rules:#?}");
    }
    assert_eq!(all(&Agent::new(), NOTHING, "rule 700").len(), 4);
    let agent = Agent::new();
    assert_short(&one(&agent, NOTHING, "link theirs"), "unmarked", "foreign");
    assert_short(&one(&agent, NOTHING, "rule 0 -6"), "kernel", "foreign");
    assert_short(&one(&agent, NOTHING, "route 10.200.0.0/24 table main"), "kernel", "foreign");
    let made = one(&agent, NOTHING, "route fe80::/64");
    let proofs = short(&made).0;
    assert!(!proofs.is_empty() && proofs.iter().all(|proof| *proof == "kernel"), "{made:#}");
    // The device may be omitted.
    let addresses = all(&agent, NOTHING, "address 10.200.0.1");
    assert_eq!(addresses.len(), 1);
    assert!(all(&agent, NOTHING, "address 10.200.0.1/25").is_empty());
    assert!(all(&agent, NOTHING, "address 10.200.0.1 dev theirs").is_empty());
}

pub(crate) fn what_was_adopted_or_taken_is_told_with_what_it_was() {
    uplinks(1);
    for words in FAMILIES {
        let agent = Agent::new();
        let Words { dst, other, gateways: [one_hop, other_hop], .. } = words;
        ip_batch([
            format!("route add {dst} via {one_hop} proto static"),
            format!("route add {other} via {one_hop} proto bird"),
        ]);
        let file = format!(
            "adopt = true\non_conflict = \"take\"\n{}{}",
            via(dst, one_hop),
            via(other, other_hop)
        );
        let object = one(&agent, &file, &format!("route {other}"));
        assert_short(&object, "protocol", "update");
        let reason = object["next"][0]["reason"].as_str().unwrap().to_owned();
        assert!(reason.starts_with("overridden: "), "{reason}");
        agent.settle(&file);

        let object = one(&agent, &file, &format!("route {dst}"));
        assert_short(&object, "ledger", "as_declared");
        assert_eq!(object["kernel"][0]["protocol"], 4);
        assert_eq!(object["ledger"]["origin"], "adopted");
        assert_short(&one(&agent, "route = []", &format!("route {dst}")), "ledger", "delete");
        let object = one(&agent, &file, &format!("route {other}"));
        assert_short(&object, "marker", "as_declared");
        assert_eq!(object["ledger"]["origin"], "overridden");
        let former = object["ledger"]["former"].as_str().unwrap();
        assert!(former.contains(one_hop) && former.contains("proto 12"), "{former}");
        let text = why(&agent, &format!("route {other} --file f.toml")).out;
        assert!(text.contains("in the ledger: overridden; restored"), "{text}");
        let object = one(&agent, "route = []", &format!("route {other}"));
        assert_short(&object, "marker", "update");
        assert!(object["next"][0]["reason"].as_str().unwrap().starts_with("restored"));

        // Another writer changes the adopted route.
        ip_batch([format!("route replace {dst} via {other_hop} proto zebra")]);
        let object = one(&agent, &file.replace("take", "report"), &format!("route {dst}"));
        assert_short(&object, "rewritten", "conflict");
        let text = why(&agent, &format!("route {dst}")).out;
        let expected = "the ledger has it with protocol 4 (static), and another writer has changed it since, with protocol 11 (zebra)";
        assert!(text.contains(expected), "{text}");
        agent.settle("route = []");
        ip_batch([format!("route del {dst}"), format!("route del {other}")]);
    }
    // A link is proven by its index.
    let agent = Agent::new();
    let file = "[[link]]\nname = \"ours\"\nkind = \"veth\"\npeer = \"ours-p\"\n";
    agent.settle(file);
    assert_short(&one(&agent, file, "link ours"), "ledger", "as_declared");
    assert_eq!(one(&agent, file, "link ours-p")["ledger"]["origin"], "made");
    assert_short(&one(&agent, file, "link ours-p"), "ledger", "other_end");
    assert_short(&one(&agent, "link = []", "link ours-p"), "ledger", "along");
    ip_batch(["link del ours"]);
    veth_pair("ours", "ours-p");
    let object = one(&agent, file, "link ours");
    assert_short(&object, "rewritten", "satisfied_by_foreign");
    ip_batch(["link del ours"]);
    // Links that existed before.
    veth_pair("theirs", "theirs-p");
    let file = "adopt = true\n[[link]]\nname = \"theirs\"\nkind = \"veth\"\npeer = \"theirs-p\"\n";
    agent.settle(file);
    let object = one(&agent, file, "link theirs");
    assert_short(&object, "ledger", "as_declared");
    assert_eq!(object["ledger"]["origin"], "adopted");
}

pub(crate) fn what_is_held_and_what_waits_is_told() {
    uplinks(1);
    let agent = Agent::new();
    let file = "[[link]]\nname = \"ours\"\nkind = \"veth\"\npeer = \"ours-p\"\nup = true\n";
    agent.settle(file);
    // The link has another writer's address.
    ip_batch(["address add 10.77.0.1/24 dev ours"]);
    let object = one(&agent, "link = []", "link ours");
    assert_short(&object, "ledger", "delete");
    assert_eq!(object["next"][0]["held"], true);
    assert!(object["next"][0]["reason"].as_str().unwrap().contains("10.77.0.1"));
    let text = why(&agent, "link ours --file f.toml").out;
    assert!(
        text.contains("\n  next pass: ! - link ours   (ours, no longer desired; held: "),
        "{text}"
    );

    // The link cannot be made, as another has the name of its other end. Objects on it wait.
    let file = "[[link]]\nname = \"p7\"\nkind = \"veth\"\npeer = \"up0\"\n\
                [[address]]\ndev = \"p7\"\naddress = \"10.78.0.1/24\"\n";
    agent.write("f.toml", file);
    let ran = why(&agent, "address 10.78.0.1 --file f.toml --format json");
    let next = &ran.json()["objects"][0]["next"][0];
    assert_eq!(next["op"], "create", "{ran:?}");
    assert!(next["waits_for"].as_str().unwrap().contains("p7"), "{next}");
    let text = why(&agent, "address 10.78.0.1 --file f.toml").out;
    assert!(text.contains("; waits for what is held: + link p7"), "{text}");
}

pub(crate) fn the_text_of_a_route_that_is_ours() {
    uplinks(1);
    let agent = Agent::new();
    let file = route("10.2.0.0/16", "via = \"10.200.0.9\"\nmetric = 100");
    agent.settle(&file);
    let words = "route 10.2.0.0/16 -4 table main metric 100 tos 0";
    let object = "10.2.0.0/16 via 10.200.0.9 dev up0 proto 116 metric 100 table 254";
    let known = format!(
        "route 10.2.0.0/16 metric 100 table 254\n  in the kernel: {object}\n    \
         ours: it bears our marker, protocol 116\n  in the ledger: nothing\n"
    );
    let asked = why(&agent, &format!("{words} --file f.toml"));
    let declared = object.replace(" dev up0", "");
    let more =
        format!("  declared: f.toml:1:1: {declared}\n  next pass: nothing: it is as declared\n");
    assert_eq!(asked.out, format!("{known}{more}"));
    let asked = why(&agent, words);
    assert_eq!(asked.out, format!("{known}  next pass: name what is declared with --file FILE\n"));
    let asked = why(&agent, &format!("{words} --format json"));
    let object = &asked.json()["objects"][0];
    assert_eq!((&object["declared"], &object["next"]), (&Value::Null, &Value::Null));
    // The marker belongs to another agent.
    let asked = why(&agent, &format!("{words} --protocol 117"));
    assert!(asked.out.contains("foreign: it bears protocol 116\n"), "{asked:?}");
    for other in ["metric 101", "tos 4", "table 7"] {
        let asked = why(&agent, &format!("route 10.2.0.0/16 {other}"));
        assert!(asked.out.contains("not in the kernel, and not in the ledger"), "{asked:?}");
    }
}

pub(crate) fn the_text_on_the_page_is_what_is_printed() {
    let agent = Agent::new();
    agent.write("edge.toml", EXAMPLE);
    assert_eq!(agent.run(&["apply", "edge.toml"]).code, 0);
    let shown = why(&agent, "route 10.2.0.0/16 --file edge.toml").out;
    assert!(PAGE.contains(&format!("```text\n{shown}```\n")), "{shown}");
}

pub(crate) fn a_question_changes_nothing_and_takes_no_privilege() {
    uplinks(1);
    let agent = Agent::new();
    agent.write("f.toml", &via("10.97.0.0/16", "10.200.0.8"));
    let before = Snapshot::settled();
    std::thread::scope(|scope| {
        // On its own thread: a thread cannot regain a capability.
        let poor = scope.spawn(|| {
            without_net_admin();
            let words = "--file f.toml";
            let kinds = ["route 10.97.0.0/16", "neighbour 10.200.0.7", "rule 9", "link up0"];
            kinds.map(|asked| why(&agent, &format!("{asked} {words}")))
        });
        for ran in poor.join().unwrap() {
            assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{ran:?}");
        }
    });
    before.assert_same(&Snapshot::settled());
    assert!(!agent.state().exists(), "not even a state file");
}

pub(crate) fn what_cannot_be_told_exits_with_one() {
    let agent = Agent::new();
    agent.write("f.toml", "protocol = 7\nroute = []");
    agent.write(
        "broken.toml",
        "[[link]]\nname = \"a\"\nkind = \"vlan\"\nlink = \"b\"\nid = 1\n\
             [[link]]\nname = \"b\"\nkind = \"vlan\"\nlink = \"a\"\nid = 1",
    );
    for (words, expected) in [
        ("tunnel x", "`tunnel` is no kind of object"),
        ("route 10.2.0.1/16", "write 10.2.0.0/16"),
        ("route default --format ip", "--format is text or json"),
        ("route default --protocol 4", "cannot mark what is ours"),
        ("route default --file f.toml --protocol 7", "cannot be used with"),
        ("route default --file none.toml", "no such file"),
        ("route default --file broken.toml", "broken.toml:1:1"),
        ("route default --netns no-such-namespace", "no-such-namespace"),
        ("route default -4 -6", "cannot be used with"),
    ] {
        why(&agent, words).assert_refused(&[expected]);
    }
}

//! The exchange between hosts: `[world]`, `[[export]]` and `[[collect]]`.

use std::time::Duration;

use trueup_file::{File, TableNames};
use trueup_world::Hosts;

fn read(text: &str) -> File {
    let file = File::parse("f", text.as_bytes(), &TableNames::default());
    file.unwrap_or_else(|error| panic!("{error}"))
}

const EMBEDDED: &str = "[world]\nstore = \"embedded\"\nhost = \"me\"\n";

#[test]
fn all_keys_are_read() {
    let file = read(
        "[world]\n\
         endpoints = [\"http://10.0.0.1:2379\"]   # or store = \"embedded\"\n\
         host = \"a\"\n\
         prefix = \"/trueup\"                      # this unless said otherwise\n\
         ttl = 5                                 # seconds\n\
         user = \"a\"\n\
         password_file = \"/etc/trueup/world\"     # and ca_file, cert_file, key_file\n\
         allow_clear_password = true             # as the endpoints are http\n\
         partition = \"keep\"                      # or \"drop\", or seconds\n\
         [[export]]\n\
         name = \"pods\"\n\
         to = \"any\"                              # or a host's name\n\
         route = { dst = \"10.20.1.0/24\", via = \"10.0.0.11\" }\n\
         [[collect]]\n\
         kind = \"route\"\n\
         from = \"any\"\n\
         within = [\"10.20.0.0/16\"]\n\
         limit = 100\n\
         metric = 7\n\
         table = 100\n\
         dev = \"eth0\"\n",
    );
    let world = file.settings.world.unwrap();
    let urls = vec!["http://10.0.0.1:2379".to_owned()];
    assert_eq!(world.endpoints, Some(urls));
    assert_eq!((&*world.host, &*world.prefix), ("a", "/trueup"));
    assert_eq!(world.ttl, Duration::from_secs(5));
    let credentials = ("a".into(), "/etc/trueup/world".into());
    assert_eq!(world.credentials, Some(credentials));
    assert!(world.allow_clear_password);
    assert_eq!(world.partition, None);
    let [export] = &file.exports.unwrap()[..] else { panic!() };
    assert_eq!((&*export.name, &export.to), ("pods", &Hosts::Any));
    let data = r#"{ "dst": "10.20.1.0/24", "via": "10.0.0.11" }"#;
    assert_eq!(export.data(), data);
    let [collect] = &file.collects.unwrap()[..] else { panic!() };
    assert_eq!((&collect.from, collect.limit), (&Hosts::Any, 100));
    assert_eq!((collect.metric, collect.table), (Some(7), Some(100)));
}

#[test]
fn what_is_left_out_has_its_default() {
    let world = |keys: &str| read(&format!("export = []\n{keys}")).settings.world.unwrap();
    let embedded = world(EMBEDDED);
    assert_eq!(embedded.endpoints, None);
    assert_eq!((&*embedded.prefix, embedded.ttl.as_secs()), ("/trueup", 5));
    assert_eq!(embedded.partition, None);
    assert_eq!(embedded.grace, Duration::ZERO);
    assert_eq!(embedded.damping, Duration::from_secs(10));
    let undamped = world(&format!("{EMBEDDED}damping = 0"));
    assert_eq!(undamped.damping, Duration::ZERO);
    let graceful = world(&format!("{EMBEDDED}grace = 2.5"));
    assert_eq!(graceful.grace, Duration::from_millis(2500));
    for (word, partition) in [
        ("\"drop\"", Duration::ZERO),
        ("0.5", Duration::from_millis(500)),
        ("60", Duration::from_secs(60)),
    ] {
        let text = format!("{EMBEDDED}partition = {word}");
        assert_eq!(world(&text).partition, Some(partition));
    }
    let file = read(&format!("{EMBEDDED}[[collect]]\nkind = \"route\"\nwithin = [\"::/0\"]"));
    let [collect] = &file.collects.unwrap()[..] else { panic!() };
    assert_eq!((&collect.from, collect.limit), (&Hosts::Any, 1_000));
    assert_eq!(file.exports, None, "unmanaged");
    assert_eq!(read(&format!("export = []\n{EMBEDDED}")).exports, Some(Vec::new()));
}

/// The host's own exports are checked when the file is read.
#[test]
fn an_export_that_no_host_would_take_is_refused_with_its_place() {
    let text = format!(
        "{EMBEDDED}[[export]]\nname = \"x\"\nroute = {{ dst = \"10.2.0.0/16\", via = \
         \"127.0.0.1\" }}\n"
    );
    let error = File::parse("f", text.as_bytes(), &TableNames::default()).unwrap_err();
    let error = error.to_string();
    assert!(error.contains("f:6:") && error.contains("127.0.0.1 is no gateway"), "{error}");
}

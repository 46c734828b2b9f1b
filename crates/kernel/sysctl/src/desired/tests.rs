use super::*;

#[test]
fn two_spellings_of_a_key_are_an_error_that_names_both() {
    let (one, other) = ("net/ipv4/conf/a.b/tag", "net.ipv4.conf.a/b.tag");
    let error = Desired::parse([(one, "1"), (other, "1")]).unwrap_err().to_string();
    assert!(error.contains(one) && error.contains(other), "{error}");
    let error = Desired::parse([(one, "1"), (one, "2")]).unwrap_err();
    assert_eq!(error.to_string(), format!("{one} is given twice"));
}

#[test]
fn one_switch_of_two_names_has_one_value() {
    let names = ["net.ipv4.ip_forward", "net.ipv4.conf.all.forwarding"];
    let error = Desired::parse([(names[0], "1"), (names[1], "0")]).unwrap_err().to_string();
    assert!(names.iter().all(|name| error.contains(name)), "{error}");
    assert_eq!(Desired::parse([(names[0], "1"), (names[1], "0x1")]).unwrap().len(), 2);
}

#[test]
fn a_key_of_another_part_is_refused() {
    let key: Key = "net.ipv4.conf.a.tag".parse().unwrap();
    let (mut of_devices, mut others) = Desired::default().split(["a"]);
    assert!(others.insert(key.clone(), true.into()).is_err());
    of_devices.insert(key, true.into()).unwrap();
}

#[test]
fn a_value_that_is_none_is_told_with_its_key() {
    let error = Desired::parse([("net.ipv4.ip_forward", "1\n2")]).unwrap_err();
    assert!(error.to_string().starts_with("net.ipv4.ip_forward: "), "{error}");
    assert_eq!(error.kind(), crate::ErrorKind::Value);
}

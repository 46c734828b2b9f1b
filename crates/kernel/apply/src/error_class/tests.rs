use trueup_net::{Address, Dev, Family, Link, NextHop, NextHops, Route, Rule, RuleAction};

use super::*;

fn classify(action: Action, object: &Object, errno: i32) -> ErrorClass {
    super::classify(action, object, &KernelError::from_errno(errno))
}

fn route(dst: &str) -> Object {
    Route::new(dst.parse().unwrap(), NextHops::One(NextHop::dev(Dev::index(2)))).into()
}

#[test]
fn deleting_what_is_gone_is_done() {
    let rule = Rule::new(Family::Inet, 7, RuleAction::Lookup(100)).into();
    let address = Address::new(Dev::index(2), "10.0.0.1/24".parse().unwrap()).into();
    let cases = [
        (&route("10.0.0.0/8"), libc::ESRCH),
        (&rule, libc::ENOENT),
        (&address, libc::EADDRNOTAVAIL),
        (&address, libc::ENODEV),
    ];
    for (object, errno) in cases {
        assert_eq!(classify(Action::Delete, object, errno), ErrorClass::DoneAlready);
        assert_ne!(classify(Action::Create, object, errno), ErrorClass::DoneAlready);
    }
}

#[test]
fn one_errno_means_different_things() {
    let rule = Rule::new(Family::Inet, 7, RuleAction::Lookup(100)).into();
    assert_eq!(classify(Action::Create, &rule, libc::EEXIST), ErrorClass::DoneAlready);
    let plain = route("2001:db8::/32");
    assert_eq!(classify(Action::Create, &plain, libc::EEXIST), ErrorClass::Conflict);
    assert_eq!(classify(Action::Create, &plain, libc::EINVAL), ErrorClass::Invalid);
    let mut sourced = plain;
    if let Object::Route(route) = &mut sourced {
        route.src = Some("2001:db8::1".parse().unwrap());
    }
    assert_eq!(classify(Action::Create, &sourced, libc::EINVAL), ErrorClass::Dependency);
    assert_eq!(classify(Action::Create, &sourced, libc::ENOBUFS), ErrorClass::Busy);
}

#[test]
fn an_address_that_the_device_cannot_have_is_invalid() {
    let name = "eth0".parse().unwrap();
    let link = Link::must_exist(name).with_address("01:00:5e:00:00:01".parse().unwrap());
    let address = Address::new(Dev::index(2), "::1/128".parse().unwrap());
    for object in [Object::from(link), address.into()] {
        for action in [Action::Create, Action::Update] {
            let class = classify(action, &object, libc::EADDRNOTAVAIL);
            assert_eq!(class, ErrorClass::Invalid, "{object:?}");
        }
    }
}

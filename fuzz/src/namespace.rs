//! Names of namespaces, from any bytes.

use trueup_netlink::Namespace;

/// Parses the name of a namespace. It is shown as written, and without a slash it names no path.
pub fn namespace(data: &[u8]) {
    let Ok(text) = std::str::from_utf8(data) else {
        return;
    };
    let Ok(namespace) = text.parse::<Namespace>() else {
        assert!(!text.contains('/'), "a path is taken as it is: {text:?}");
        return;
    };
    let shown = namespace.to_string();
    let again = shown
        .parse::<Namespace>()
        .unwrap_or_else(|error| panic!("{text:?} became {shown:?}: {error}"));
    assert_eq!(again.to_string(), shown);
    match text.strip_prefix("pid:") {
        Some(number) if !text.contains('/') => {
            assert_eq!(shown, format!("pid:{}", number.parse::<u32>().expect("a number")));
        }
        _ => assert_eq!(shown, text),
    }
    if !text.contains('/') {
        assert!(!text.is_empty() && text != "." && text != ".." && !text.contains('\0'));
    }
}

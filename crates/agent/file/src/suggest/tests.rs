use super::*;

#[test]
fn the_nearest_word_is_suggested_and_far_ones_are_not() {
    fn message(word: &str) -> String {
        unknown("key", word, "a route", &["dst", "metric", "nexthops"])
    }
    assert_eq!(message("metrc"), "unknown key `metrc` of a route; did you mean `metric`?");
    assert!(message("dts").ends_with("did you mean `dst`?"));
    assert!(message("fastest").ends_with("write one of dst, metric, nexthops"));
    let gateway = message("gateway");
    assert_eq!(gateway, "unknown key `gateway` of a route: write `via`");
    assert_eq!(message("next-hop"), gateway.replace("gateway", "next-hop"));
    assert!(message(&"x".repeat(1000)).len() < 120);
}

#[test]
fn distance_counts_edits() {
    for (a, b, expected) in [("", "abc", 3), ("abc", "abc", 0), ("abc", "xbcd", 2), ("ab", "ba", 1)]
    {
        assert_eq!((distance(a, b), distance(b, a)), (expected, expected));
    }
}

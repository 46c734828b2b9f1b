use super::*;

#[test]
fn a_word_is_one_word_to_ip_batch_and_never_another() {
    fn word(bytes: &[u8]) -> String {
        Word(bytes).to_string()
    }
    assert_eq!(word(b"br0"), "br0");
    assert_eq!(word(b""), "\"\"");
    assert_eq!(word(b"two words"), "\"two words\"");
    assert_eq!(word(b"it's"), "\"it's\"");
    assert_eq!(word(b"say \"hi\""), "'say \"hi\"'");
    assert_eq!(word(b"a'\""), "a'\"");
    assert_eq!(word(b"end\\"), "\"end\\\"", "not a continued line");
    for said in [&b"br0"[..], b"", b"two words", b"it's", b"say \"hi\"", b"end\\", b"a'\""] {
        assert!(is_sayable(&word(said)));
    }
}

#[test]
fn a_word_that_ip_batch_would_read_as_another_is_escaped() {
    for (bytes, shown) in [
        (&b"'\""[..], r#"$'\'"'"#),
        (b"a 'b \"c", r#"$'a \'b "c'"#),
        (b"a'\"\\", r#"$'a\'"\\'"#),
        (b"x\nlink del dev eth0", r"$'x\nlink del dev eth0'"),
        (b"eth0#", "$'eth0#'"),
        (&[b'a', 0xff, b'b'], r"$'a\xffb'"),
        ("\u{202e}0rb".as_bytes(), r"$'\u202e0rb'"),
        (b"\x1b[2J", r"$'\x1b[2J'"),
        (b"$'x'", r"$'$\'x\''"),
    ] {
        assert_eq!(Word(bytes).to_string(), shown);
        assert!(!is_sayable(shown));
    }
}

#[test]
fn nothing_that_a_terminal_obeys_is_left() {
    for (text, shown) in [
        ("br0 \u{e4}", "br0 \u{e4}"),
        ("failed\nconverged", "failed\\nconverged"),
        ("\x1b]0;owned\x07", "\\x1b]0;owned\\x07"),
        ("\u{9b}2J", "\\u009b2J"),
        ("a\rb\tc\u{7f}", "a\\x0db\\x09c\\x7f"),
        ("\u{202e}0rb", "\\u202e0rb"),
    ] {
        assert_eq!(clean(text), shown);
    }
}

use super::*;

#[test]
fn each_problem_is_a_line_in_the_order_of_the_file_and_the_rest_is_mentioned() {
    let diagnostics = (1..=22).rev().map(|line| Diagnostic {
        location: Some(Location { line, column: 1 }),
        message: "no".to_owned(),
    });
    let error = Error::new("f", diagnostics.collect());
    let text = error.to_string();
    assert!(text.starts_with("f:1:1: no\nf:2:1: no\n"), "{text}");
    assert!(text.ends_with("\nf:20:1: no\nf: and more errors"), "{text}");
}

//! Messages about unknown words, with the nearest known one.

use crate::other_words;

/// Returns the message about an unknown `word`, with what to write instead of a word of another
/// tool, or the nearest of the known words. `of` may be empty.
pub(crate) fn unknown(sort: &str, word: &str, of: &str, known: &[&str]) -> String {
    let nearest = nearest(word, known.iter().copied());
    let remedy = other_words::remedy(of, word);
    let shown: String = word.chars().take(40).collect();
    let of = match of {
        "" => String::new(),
        of => format!(" of {of}"),
    };
    if let Some(remedy) = remedy {
        return format!("unknown {sort} `{shown}`{of}: {remedy}");
    }
    match nearest {
        Some(nearest) => format!("unknown {sort} `{shown}`{of}; did you mean `{nearest}`?"),
        None => format!("unknown {sort} `{shown}`{of}; write one of {}", known.join(", ")),
    }
}

/// Returns the known word that was probably meant, if one is near enough.
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let known = known.into_iter();
    let (distance, nearest) =
        known.map(|candidate| (distance(word, candidate), candidate)).min()?;
    (distance <= (nearest.len() / 3).max(1)).then_some(nearest)
}

/// The number of insertions, deletions, exchanges and swaps of neighbours between two words.
fn distance(a: &str, b: &str) -> usize {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    // No candidate is near a word of this length.
    if a.len() > 40 {
        return usize::MAX;
    }
    let mut rows = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            rows[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let change = rows[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let shift = rows[i - 1][j].min(rows[i][j - 1]) + 1;
                let swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
                let swap = if swapped { rows[i - 2][j - 2] + 1 } else { change };
                change.min(shift).min(swap)
            };
        }
    }
    rows[a.len()][b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_word_is_suggested_and_far_ones_are_not() {
        let known = ["dst", "metric", "nexthops"];
        let message = |word: &str| unknown("key", word, "a route", &known);
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
        for (a, b, expected) in
            [("", "abc", 3), ("abc", "abc", 0), ("abc", "xbcd", 2), ("ab", "ba", 1)]
        {
            assert_eq!((distance(a, b), distance(b, a)), (expected, expected));
        }
    }
}

use super::*;

/// Repeatedly removes nodes without edges. The remaining nodes are on a cycle, or lead to one.
fn has_cycle(edges: &[Vec<usize>]) -> bool {
    let mut left: Vec<usize> = (0..edges.len()).collect();
    loop {
        let before = left.clone();
        left.retain(|node| edges[*node].iter().any(|next| before.contains(next)));
        if left == before {
            return !left.is_empty();
        }
    }
}

proptest::proptest! {
    #[test]
    fn a_cycle_is_found_if_there_is_one(
        edges in proptest::collection::vec(proptest::collection::vec(0..6usize, 0..3), 6),
    ) {
        let found = find_cycle(&edges);
        assert_eq!(found.is_some(), has_cycle(&edges));
        if let Some(cycle) = found {
            let next = cycle.iter().cycle().skip(1);
            assert!(cycle.iter().zip(next).all(|(from, to)| edges[*from].contains(to)));
        }
    }
}

#[test]
fn a_million_nodes_in_a_row_are_searched() {
    let mut edges: Vec<Vec<usize>> = (0..1_000_000).map(|node| vec![node + 1]).collect();
    edges.push(Vec::new());
    assert_eq!(find_cycle(&edges), None);
    edges[1_000_000].push(999_999);
    assert_eq!(find_cycle(&edges), Some(vec![999_999, 1_000_000]));
}

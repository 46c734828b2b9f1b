use super::*;

#[test]
fn scattering_loses_nothing_and_halves_gaps() {
    for len in [0, 1, 63, 64, 65, 256, 1_000, 4_096, 99_999] {
        let mut run: Vec<usize> = (0..len).collect();
        scatter(&mut run, &mut Vec::new());
        let mut sorted = run.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq(0..len), "{len}");
        for rounds in [1, 2, 4, 8, 16, 32] {
            let gap = ROUNDS / rounds;
            let mut early = run[..len.div_ceil(gap)].to_vec();
            early.sort_unstable();
            assert!(early.into_iter().eq((0..len).step_by(gap)), "{len}: {gap}");
        }
    }
}

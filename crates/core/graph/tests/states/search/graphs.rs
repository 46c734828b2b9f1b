//! All graphs of a size.

use super::Edge;
use super::world::Shape;

/// Returns all graphs of a number of vertices, with edges of these kinds from lower to higher
/// numbers.
pub(super) fn graphs(vertices: usize, kinds: &[Edge]) -> Vec<Vec<(usize, usize, Edge)>> {
    let mut graphs = vec![Vec::new()];
    for child in 0..vertices {
        for parent in 0..child {
            let with = |graph: &Vec<_>, edge| {
                let mut graph = graph.clone();
                graph.extend((edge != Edge::None).then_some((parent, child, edge)));
                graph
            };
            let each = kinds.iter().copied();
            let all = graphs.iter();
            let all = all.flat_map(|it| each.clone().map(move |edge| with(it, edge)));
            graphs = all.collect();
        }
    }
    graphs
}

/// True unless the same graph with other vertex numbers comes first. Vertices with different
/// semaphores, groups or records differ; so does the first vertex, which has drifted.
pub(super) fn is_first_of_its_kind(shape: &Shape) -> bool {
    let sorted = |numbers: &[usize]| {
        let renamed =
            shape.edges.iter().map(|(one, other, edge)| (numbers[*one], numbers[*other], *edge));
        let mut renamed: Vec<_> = renamed.collect();
        renamed.sort_unstable();
        renamed
    };
    let kind = |at: usize| {
        let is_recorded = shape.budget.recorded[at];
        let announces = shape.budget.announcing[at];
        (at == 0, shape.semaphores[at], shape.groups[at], is_recorded, announces)
    };
    let numbers: Vec<usize> = (0..shape.vertices).collect();
    let own = sorted(&numbers);
    let leads_up = |edges: &[(usize, usize, Edge)]| edges.iter().all(|it| it.0 < it.1);
    let is_same = |others: &[usize]| (0..shape.vertices).all(|it| kind(it) == kind(others[it]));
    let others = permutations(&numbers).into_iter().filter(|it| is_same(it));
    let mut others = others.map(|it| sorted(&it));
    others.all(|it| !leads_up(&it) || own <= it)
}

fn permutations(numbers: &[usize]) -> Vec<Vec<usize>> {
    if numbers.is_empty() {
        return vec![Vec::new()];
    }
    let each = numbers.iter().flat_map(|first| {
        let rest: Vec<usize> = numbers.iter().copied().filter(|it| it != first).collect();
        let rest = permutations(&rest).into_iter();
        rest.map(|rest| [&[*first], &rest[..]].concat())
    });
    each.collect()
}

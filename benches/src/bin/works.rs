//! The floor and trueup, one piece of work in each process. A separate program, so that the other
//! benchmarks' memory does not count.

fn main() -> anyhow::Result<()> {
    trueup_benches::works()
}

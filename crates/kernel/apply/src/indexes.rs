//! The interface indexes of new links.

use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher as _, DefaultHasher, Hash as _, Hasher as _, RandomState};
use std::ops::Range;

use trueup_net::{Dev, Plan};

/// The range of the indexes that trueup draws. The kernel numbers interfaces from 1 and does not
/// reach it.
const INDEXES: Range<u32> = 1 << 24..1 << 31;

/// Draws the index of each interface that a plan will create: at random, from 2^24 to 2^31 - 1.
///
/// The caller can record an index before the kernel is asked. If a link then has this name and this
/// index, one of some two thousand million, trueup created it. The kernel refuses to create a link
/// with an index in use.
///
/// ```
/// use trueup_apply::{draw_indexes, is_drawn_index};
/// use trueup_net::{BridgeAttrs, Desired, Link, LinkKind, Observed, Owned, plan};
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let bridge = Link::new("br0".parse()?, LinkKind::Bridge(BridgeAttrs::default()));
/// let desired = Desired::default().with_links([bridge]);
/// let plan = plan(&desired, &Observed::default(), &Owned::default(), 116)?;
/// let indexes = draw_indexes(&plan);
/// assert_eq!(indexes.len(), 1);
/// assert!(indexes.values().all(|index| is_drawn_index(*index)));
/// # Ok(())
/// # }
/// ```
pub fn draw_indexes(plan: &Plan) -> BTreeMap<Dev, u32> {
    let mut drawn = BTreeSet::new();
    plan.devices
        .planned()
        .map(|(dev, _)| {
            let mut index = random(INDEXES);
            while !drawn.insert(index) {
                index = random(INDEXES);
            }
            (dev, index)
        })
        .collect()
}

thread_local! {
    /// The seed of this thread's random numbers, and their count so far.
    static SEED: Cell<Option<(u64, u64)>> = const { Cell::new(None) };
}

/// Makes the calling thread's random numbers depend only on a seed from now on, for simulation.
#[doc(hidden)]
pub fn seed_random(seed: u64) {
    SEED.set(Some((seed, 0)));
}

/// Returns a random number in a range.
pub(crate) fn random(among: Range<u32>) -> u32 {
    let random = match SEED.get() {
        Some((seed, drawn)) => {
            SEED.set(Some((seed, drawn + 1)));
            let mut hasher = DefaultHasher::new();
            (seed, drawn).hash(&mut hasher);
            hasher.finish()
        }
        // Each `RandomState` has its own keys, from the operating system.
        None => RandomState::new().build_hasher().finish(),
    };
    let span = u64::from(among.end - among.start);
    among.start + (random % span) as u32
}

/// Returns true if an index was [drawn](draw_indexes), by this trueup or by another.
///
/// ```
/// assert!(trueup_apply::is_drawn_index(1 << 24));
/// assert!(!trueup_apply::is_drawn_index(7)); // one of the kernel's own
/// ```
pub fn is_drawn_index(index: u32) -> bool {
    INDEXES.contains(&index)
}

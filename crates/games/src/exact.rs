//! Solutions with a proof: computed in integers and fractions, checked by what shares nothing with the solver.

mod ball;
mod equilibrium;
mod integer;
mod lemke_howson;
mod polytope;
mod tableau;
mod vertices;

pub use equilibrium::{Equilibrium, verify};
pub use lemke_howson::{lemke_howson, lemke_howson_all};
pub use vertices::{MAX_BASES, MAX_EQUILIBRIA, MAX_LABELS, all_equilibria, components};

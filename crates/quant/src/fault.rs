//! Deliberate faults for tests: each must be detected by the checks of the layers.

use std::cell::Cell;

/// A deliberate fault of a layer in training.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// The output has the levels of the new basis.
    NewBasis,
    /// The derivative of an activation is 1 above the highest level, too.
    UnclippedGradient,
    /// The new basis replaces the average.
    NoAverage,
    /// The factors of ABC-Net have derivatives with respect to the weights.
    DifferentiatedFactors,
}

thread_local! {
    static ENABLED: Cell<Option<Fault>> = const { Cell::new(None) };
}

/// Runs `f` with the fault enabled on this thread.
pub(crate) fn with_fault<T>(fault: Fault, f: impl FnOnce() -> T) -> T {
    /// A guard that disables the fault on drop, also after a panic.
    struct DisableOnDrop;

    impl Drop for DisableOnDrop {
        fn drop(&mut self) {
            ENABLED.set(None);
        }
    }

    let _disable = DisableOnDrop;
    ENABLED.set(Some(fault));
    f()
}

/// Returns whether the fault is enabled on this thread.
pub(crate) fn is_enabled(fault: Fault) -> bool {
    ENABLED.get() == Some(fault)
}

//! Permission for the experimental features of wgpu.
//!
//! Role: the only `unsafe` code of the crate. Only devices that a caller opens with cooperative
//! matrices use it.

#![expect(
    unsafe_code,
    reason = "wgpu requires an unsafe token for experimental features"
)]

/// Returns the token with which wgpu enables experimental features.
pub(super) fn permission() -> wgpu::ExperimentalFeatures {
    // SAFETY: the token has no condition that code could check; its caller acknowledges that wgpu's
    // implementation of the features may have bugs. The documentation of `Gpu::open_with_matrices`
    // states this risk, and the function compares products with exact results before it returns a
    // device.
    unsafe { wgpu::ExperimentalFeatures::enabled() }
}

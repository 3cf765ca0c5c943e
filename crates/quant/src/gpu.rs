//! Packed layers on a GPU (feature `gpu`).
//!
//! Role: wraps the kernels `bit_conv_…` and `byte_conv_…`. No other module of the crate uses a
//! device.
//! Layout: that of [`PlaneLayout`](crate::PlaneLayout).

mod network;
mod packed_conv;

pub use network::DeviceNetwork;
pub use packed_conv::{
    CodedConv, PackedConv, PackedConvBorder, PackedConvCodes, PackedConvData, PackedConvGeometry,
};

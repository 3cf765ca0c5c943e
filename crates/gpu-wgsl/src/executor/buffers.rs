//! Tensors as buffers of hand-written kernels, and buffers as tensors, without a copy.
//!
//! Role: the bridge between [`Executor`](tensor_core::exec::Executor) and [`Gpu::dispatch`].
//! Layout: as in [`executor`](super): `bool` takes 1 bit and `f16` 2 bytes of a `u32` word, the
//! first element in the lowest bits.
//! Limits: a tensor never changes, so kernels cannot write the buffer of a tensor, and a buffer
//! becomes a tensor only if no other handle to the buffer exists.

use std::sync::Arc;

use shaders::Element;
use tensor_core::{DType, Tensor};

use super::Array;
use crate::device::AnyBuffer;
use crate::{Error, Gpu};

impl Gpu {
    /// Returns the memory of a tensor that is on this device, as an input of [`Gpu::dispatch`]. The
    /// elements are in row-major order. If a gather contributed to the tensor, the call waits for
    /// the result of the gather's check. Blocks in this case, so the call is not available in a
    /// browser.
    ///
    /// # Errors
    /// The error of an error node; [`tensor_core::Error::NotRealized`] if the tensor is not in
    /// memory; [`tensor_core::Error::ForeignStorage`] if it is not on this device;
    /// [`tensor_core::Error::IndexOutOfRange`] of a gather; an error of the device.
    pub fn buffer_from_tensor(&self, tensor: &Tensor) -> tensor_core::Result<AnyBuffer> {
        let operation = "buffer_from_tensor";
        tensor.shape()?;
        let storage = tensor.storage();
        let storage = storage.ok_or(tensor_core::Error::NotRealized { operation })?;
        let array = Array::downcast(storage.as_ref()).filter(|array| array.is_on(self));
        let array = array.ok_or(tensor_core::Error::ForeignStorage)?;
        pollster::block_on(array.settle())?;
        Ok(array.buffer().clone().into_read_only())
    }

    /// Returns a tensor whose elements are in a buffer of this device, in row-major order. The
    /// buffer holds scalars of the type (`f32`, `f64`, `i32`, `u32`), or words for `bool` and
    /// `f16`; further scalars after the last element are ignored.
    ///
    /// # Errors
    /// [`tensor_core::Error::Device`] with [`Error::ElementMismatch`] if the buffer holds scalars
    /// of another type, [`Error::LengthMismatch`] if it is too short, [`Error::SharedBuffer`] if
    /// another handle to the buffer exists, or [`Error::ForeignBuffer`];
    /// [`tensor_core::Error::TooLarge`] for more elements than a tensor can have.
    ///
    /// # Examples
    /// ```
    /// use gpu_wgsl::{Gpu, Select};
    /// use shaders::layout;
    /// use shaders::params::BufferCopyParams;
    /// use tensor_core::{DType, Tensor};
    ///
    /// # if gpu_wgsl::adapters().is_empty() { return Ok(()) }
    /// let gpu = Gpu::open(Select::Best)?;
    /// let x = Tensor::from_vec(&[2, 4], vec![1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
    /// let x = (x * 2).realize(&gpu)?;
    /// // A hand-written kernel reads the tensor, four scalars at a time. A tensor program reads
    /// // the kernel's result.
    /// let copy = gpu.alloc::<f32>("copy", &[8])?;
    /// let input = gpu.buffer_from_tensor(&x)?;
    /// gpu.dispatch(&layout::BUFFER_COPY, &BufferCopyParams::new(2), &[&input, &copy])?;
    /// let copy = gpu.tensor_from_buffer(DType::F32, &[2, 4], copy.into_any())?;
    /// assert_eq!(copy.sum(..).item::<f32>(&gpu)?, 72.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn tensor_from_buffer(
        &self,
        dtype: DType,
        shape: &[usize],
        buffer: AnyBuffer,
    ) -> tensor_core::Result<Tensor> {
        let operation = "tensor_from_buffer";
        let len = tensor_core::shape::element_count(operation, shape)?;
        let (element, n_scalars) = match dtype {
            DType::F32 => (Element::F32, len),
            DType::I32 => (Element::I32, len),
            DType::F64 => (Element::F64, len),
            DType::U32 => (Element::U32, len),
            DType::Bool => (Element::U32, len.div_ceil(32)),
            DType::F16 => (Element::U32, len.div_ceil(2)),
        };
        let name = buffer.name().to_owned();
        let fault = if buffer.element() != element {
            Some(Error::ElementMismatch {
                operation,
                name,
                holds: buffer.element(),
                wanted: element,
            })
        } else if buffer.len() < n_scalars {
            Some(Error::LengthMismatch {
                operation,
                name,
                shape: shape.to_vec(),
                found: buffer.len(),
            })
        } else if !buffer.is_only_handle() {
            Some(Error::SharedBuffer { operation, name })
        } else {
            self.check_owner(operation, &buffer).err()
        };
        match fault {
            Some(fault) => Err(self.executor_error(fault)),
            None => {
                let array = Array::new(self, dtype, len, buffer.into_read_only());
                Ok(Tensor::from_storage(Arc::new(array), shape))
            }
        }
    }
}

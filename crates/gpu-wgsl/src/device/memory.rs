//! Buffers on a device: allocation from the pool, and upload.

use super::{Gpu, ResourceError, Shared, lock};
use crate::pool::Pool;
use crate::{Error, Result};
use shaders::Element;
use std::marker::PhantomData;
use std::ops::{Deref, Range};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, Weak};
use tensor_core::compare;

/// Bytes of one part of an upload.
const UPLOAD_BYTES: usize = 64 << 20;

/// A scalar type of storage buffers.
pub trait Scalar: bytemuck::Pod + compare::Element + Send + Sync {
    /// The element type of this scalar in the description of a kernel.
    const ELEMENT: Element;
}

impl Scalar for f32 {
    const ELEMENT: Element = Element::F32;
}

impl Scalar for u32 {
    const ELEMENT: Element = Element::U32;
}

impl Scalar for i32 {
    const ELEMENT: Element = Element::I32;
}

impl Scalar for f64 {
    const ELEMENT: Element = Element::F64;
}

/// A named, shaped buffer on a device, of any scalar type; clones share the memory.
#[derive(Clone, Debug)]
pub struct AnyBuffer {
    memory: Arc<Memory>,
    /// Whether the memory belongs to a tensor, which never changes.
    is_read_only: bool,
}

/// A buffer on a device that holds scalars of type `T` in row-major order.
#[derive(Clone, Debug)]
pub struct Buffer<T: Scalar> {
    any: AnyBuffer,
    scalar: PhantomData<T>,
}

/// The memory of a buffer, which returns to the pool when its last owner is dropped.
#[derive(Debug)]
struct Memory {
    name: Arc<str>,
    /// The number of the allocation in the pool.
    number: u64,
    shape: Vec<usize>,
    element: Element,
    len: usize,
    bytes: u64,
    class_bytes: u64,
    buffer: Option<wgpu::Buffer>,
    /// The reason why the contents are stale: work that should have written them never ran.
    stale: Mutex<Option<String>>,
    /// The device. The reference is weak, so a buffer does not keep the device open.
    shared: Weak<Shared>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        // If the device is gone, there is no pool to return the buffer to.
        if let (Some(buffer), Some(shared)) = (self.buffer.take(), self.shared.upgrade()) {
            lock(&shared.pool).release(self.number, self.class_bytes, buffer);
        }
    }
}

impl AnyBuffer {
    /// Returns the name under which the buffer was allocated.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.memory.name
    }

    /// Returns the buffer's shape.
    #[must_use]
    pub fn shape(&self) -> &[usize] {
        &self.memory.shape
    }

    /// Returns the number of scalars.
    #[must_use]
    pub fn len(&self) -> usize {
        self.memory.len
    }

    /// Returns whether the buffer has no scalars.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the type of the scalars.
    #[must_use]
    pub fn element(&self) -> Element {
        self.memory.element
    }

    /// Returns whether both buffers share the same memory.
    #[must_use]
    pub fn is_same_buffer(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.memory, &other.memory)
    }

    /// Returns whether the buffer belongs to a tensor, so that it can be read but not written.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.is_read_only
    }

    /// Returns the buffer as the memory of a tensor: kernels can no longer write it.
    pub(crate) fn into_read_only(self) -> Self {
        Self {
            is_read_only: true,
            ..self
        }
    }

    /// Returns whether this handle is the only one.
    pub(crate) fn is_only_handle(&self) -> bool {
        Arc::strong_count(&self.memory) == 1
    }

    pub(super) fn shared(&self) -> &Weak<Shared> {
        &self.memory.shared
    }

    /// Returns a handle to this buffer for recorded work.
    pub(super) fn bound(&self) -> BufferHandle {
        BufferHandle {
            buffer: self.handle().clone(),
            bytes: self.memory.bytes,
            class_bytes: self.memory.class_bytes,
            memory: Arc::downgrade(&self.memory),
        }
    }

    /// Returns the reason why the contents are stale; `None` if they are not.
    pub(super) fn staleness(&self) -> Option<String> {
        lock(&self.memory.stale).clone()
    }

    /// Returns the size of the contents, in bytes.
    pub(super) fn bytes(&self) -> u64 {
        self.memory.bytes
    }

    pub(super) fn handle(&self) -> &wgpu::Buffer {
        self.memory
            .buffer
            .as_ref()
            .expect("the buffer is taken only in drop")
    }
}

/// Handle of recorded work to a buffer. It keeps the wgpu buffer alive, but not the allocation in
/// the pool.
#[derive(Debug)]
pub(super) struct BufferHandle {
    buffer: wgpu::Buffer,
    bytes: u64,
    class_bytes: u64,
    memory: Weak<Memory>,
}

impl BufferHandle {
    /// Returns whether the handle refers to this buffer.
    pub(super) fn is_same_buffer(&self, buffer: &wgpu::Buffer) -> bool {
        self.buffer == *buffer
    }

    /// Marks the contents as stale; the next read returns the reason as an error.
    pub(super) fn mark_stale(&self, why: &str) {
        if let Some(memory) = self.memory.upgrade() {
            *lock(&memory.stale) = Some(why.to_owned());
        }
    }

    /// Returns the reason why the contents are stale; `None` if they are not.
    pub(super) fn staleness(&self) -> Option<String> {
        let memory = self.memory.upgrade()?;
        lock(&memory.stale).clone()
    }

    /// Returns the binding of the whole buffer: its own bytes, and at least one element of
    /// `stride_bytes`.
    pub(super) fn whole(&self, stride_bytes: u32) -> wgpu::BindingResource<'_> {
        // The wgpu buffer has the size of its class, so the binding is limited to the buffer's own
        // bytes.
        let bytes = self.bytes.max(stride_bytes.into());
        self.range(&(0..bytes.next_multiple_of(wgpu::COPY_BUFFER_ALIGNMENT)))
    }

    /// Returns the binding of a byte range.
    pub(super) fn range(&self, bytes: &Range<u64>) -> wgpu::BindingResource<'_> {
        let end = bytes.end.min(self.class_bytes);
        wgpu::BindingResource::Buffer(wgpu::BufferBinding {
            buffer: &self.buffer,
            offset: bytes.start,
            size: std::num::NonZero::new(end.saturating_sub(bytes.start)),
        })
    }
}

impl<T: Scalar> Buffer<T> {
    /// Returns the buffer without its scalar type.
    #[must_use]
    pub fn into_any(self) -> AnyBuffer {
        self.any
    }
}

impl<T: Scalar> Deref for Buffer<T> {
    type Target = AnyBuffer;

    fn deref(&self) -> &AnyBuffer {
        &self.any
    }
}

impl<T: Scalar> TryFrom<AnyBuffer> for Buffer<T> {
    type Error = Error;

    /// Returns the buffer with the scalar type `T`; [`Error::ElementMismatch`] if it has another
    /// type.
    fn try_from(any: AnyBuffer) -> Result<Self> {
        if any.element() == T::ELEMENT {
            Ok(Self {
                any,
                scalar: PhantomData,
            })
        } else {
            Err(Error::ElementMismatch {
                operation: "try_from",
                name: any.name().to_owned(),
                holds: any.element(),
                wanted: T::ELEMENT,
            })
        }
    }
}

impl Gpu {
    /// Allocates a buffer of `shape`. Its contents are unspecified until they are written.
    ///
    /// Zero sizes and rank 0 are valid. Sizes whose product overflows are rejected even if another
    /// size is zero, as in `tensor-core` and NumPy. `name` appears in every error about the buffer.
    ///
    /// # Errors
    /// [`Error::TooLarge`] beyond the adapter's limit for one buffer (nothing is allocated),
    /// [`Error::OutOfMemory`] beyond the budget or if the driver has no memory left,
    /// [`Error::Lost`].
    pub fn alloc<T: Scalar>(&self, name: &str, shape: &[usize]) -> Result<Buffer<T>> {
        self.alive("alloc")?;
        let len = self.checked_len::<T>(name, shape)?;
        let bytes = (len * size_of::<T>()) as u64;
        let class_bytes = Pool::<()>::class_bytes(bytes, self.max_buffer_bytes());
        let name: Arc<str> = name.into();
        let acquired = match self.acquire(&name, bytes, class_bytes) {
            Err(ResourceError::OutOfMemory(_))
                if self.pool().reserved_bytes() > self.pool().live_bytes() =>
            {
                // Free buffers of other classes may occupy the memory that is needed.
                self.trim();
                self.acquire(&name, bytes, class_bytes)
            }
            other => other,
        };
        let (buffer, number) = acquired.map_err(|fault| match fault {
            ResourceError::OutOfMemory(reason) | ResourceError::OverBudget(reason) => {
                let pool = lock(&self.shared.pool);
                Error::OutOfMemory {
                    name: name.to_string(),
                    shape: shape.to_vec(),
                    bytes,
                    live_bytes: pool.counters().live_bytes(),
                    reason,
                    holders: pool.largest_holders(),
                }
            }
            ResourceError::Rejected(message) => Error::Device {
                operation: "alloc",
                message,
            },
        })?;
        // From here on, an error returns the buffer to the pool.
        let memory = Memory {
            name,
            number,
            shape: shape.to_vec(),
            element: T::ELEMENT,
            len,
            bytes,
            class_bytes,
            buffer: Some(buffer),
            stale: Mutex::default(),
            shared: Arc::downgrade(&self.shared),
        };
        let any = AnyBuffer {
            memory: Arc::new(memory),
            is_read_only: false,
        };
        if self.shared.marks_unwritten.load(Ordering::Relaxed) {
            let marks = compare::sentinel_filled::<T>(len);
            // A recorded run may still read the previous contents of this memory.
            if self.is_recorded(any.handle()) {
                self.flush()?;
            }
            let queue = &self.shared.queue;
            queue.write_buffer(any.handle(), 0, bytemuck::cast_slice(&marks));
        }
        Ok(Buffer {
            any,
            scalar: PhantomData,
        })
    }

    /// Takes a buffer of this size class from the pool, or creates a buffer. The pool stays locked
    /// from the budget check until the buffer is counted, so that two threads cannot both take the
    /// last bytes.
    fn acquire(
        &self,
        name: &Arc<str>,
        bytes: u64,
        class_bytes: u64,
    ) -> std::result::Result<(wgpu::Buffer, u64), ResourceError> {
        let mut pool = lock(&self.shared.pool);
        if let Some(budget) = pool.exceeded_budget(bytes) {
            return Err(ResourceError::OverBudget(format!(
                "budget exceeded (limit {budget} bytes)"
            )));
        }
        if let Some(taken) = pool.take(name, bytes, class_bytes) {
            return Ok(taken);
        }
        let usage = wgpu::BufferUsages::STORAGE
            | wgpu::BufferUsages::COPY_SRC
            | wgpu::BufferUsages::COPY_DST;
        let buffer = self.scoped(|device| create_buffer(device, name, class_bytes, usage))?;
        let number = pool.created(name, bytes, class_bytes);
        Ok((buffer, number))
    }

    /// Allocates a buffer of `shape` and fills it with `data`, in row-major order.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`] if `data` has another number of elements; otherwise as
    /// [`Gpu::alloc`].
    pub fn upload<T: Scalar>(&self, name: &str, shape: &[usize], data: &[T]) -> Result<Buffer<T>> {
        let buffer = self.alloc(name, shape)?;
        self.write(&buffer, data)?;
        Ok(buffer)
    }

    /// Overwrites a whole buffer. Work recorded earlier reads the old contents.
    ///
    /// # Errors
    /// [`Error::LengthMismatch`], [`Error::ForeignBuffer`], [`Error::Lost`]; [`Error::ReadOnly`]
    /// for the buffer of a tensor.
    pub fn write<T: Scalar>(&self, buffer: &Buffer<T>, data: &[T]) -> Result<()> {
        self.check_owner("write", buffer)?;
        if buffer.is_read_only() {
            return Err(Error::ReadOnly {
                operation: "write",
                name: buffer.name().to_owned(),
            });
        }
        if data.len() != buffer.len() {
            return Err(Error::LengthMismatch {
                operation: "write",
                name: buffer.name().to_owned(),
                shape: buffer.shape().to_vec(),
                found: data.len(),
            });
        }
        // wgpu executes writes before the next submission, so recorded runs that use this memory
        // are submitted first. They may use it under another buffer, because the pool reuses
        // memory.
        if self.is_recorded(buffer.handle()) {
            self.flush()?;
        }
        self.alive("write")?;
        // Uploads in parts, each in a submission of its own, so that staging memory of finished
        // parts can be reused.
        let parts = bytemuck::cast_slice(data).chunks(UPLOAD_BYTES);
        for (part, offset) in parts.zip((0..).step_by(UPLOAD_BYTES)) {
            self.shared
                .queue
                .write_buffer(buffer.handle(), offset, part);
            if part.len() == UPLOAD_BYTES {
                self.shared.queue.submit([]);
            }
        }
        *lock(&buffer.memory.stale) = None;
        self.sound("write")
    }

    /// Waits until all submitted work has run, and returns errors that occurred meanwhile.
    pub(super) fn wait(&self, operation: &'static str) -> Result<()> {
        self.wait_for(operation, None)
    }

    /// Waits until `submission` has run, or all submissions if `None`, and returns errors that
    /// occurred meanwhile.
    pub(super) fn wait_for(
        &self,
        operation: &'static str,
        submission: Option<wgpu::SubmissionIndex>,
    ) -> Result<()> {
        let polled = self.shared.device.poll(wgpu::PollType::Wait {
            submission_index: submission,
            timeout: None,
        });
        self.sound(operation)?;
        polled.map(|_| ()).map_err(|error| Error::Device {
            operation,
            message: error.to_string(),
        })
    }

    /// Returns the maximum size of one buffer, in bytes: kernels count words in 32 bits, and copies
    /// need a multiple of 4 bytes.
    fn max_buffer_bytes(&self) -> u64 {
        let countable = u64::from(u32::MAX) * wgpu::COPY_BUFFER_ALIGNMENT;
        let bytes = self.adapter().limits.max_buffer_size.min(countable);
        bytes - bytes % wgpu::COPY_BUFFER_ALIGNMENT
    }

    /// Checks that a buffer of this size is within the limits.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub(crate) fn check_buffer_bytes(&self, name: &str, len: usize, bytes: u64) -> Result<()> {
        if bytes <= self.max_buffer_bytes() {
            return Ok(());
        }
        Err(Error::TooLarge {
            operation: "alloc",
            name: name.to_owned(),
            shape: vec![len as u64],
            needed: bytes,
            unit: "bytes",
            limit_name: "maxBufferSize",
            limit: self.max_buffer_bytes(),
        })
    }

    /// Returns the number of scalars of `shape`, checked against overflow and the limits.
    fn checked_len<T: Scalar>(&self, name: &str, shape: &[usize]) -> Result<usize> {
        let len = tensor_core::shape::allocatable_count::<T>("alloc", shape).ok();
        let needed = len.map_or(u64::MAX, |len| (len * size_of::<T>()) as u64);
        match len {
            Some(len) if needed <= self.max_buffer_bytes() => Ok(len),
            _ => Err(Error::TooLarge {
                operation: "alloc",
                name: name.to_owned(),
                shape: shape.iter().map(|&side| side as u64).collect(),
                needed,
                unit: "bytes",
                limit_name: "maxBufferSize",
                limit: self.max_buffer_bytes(),
            }),
        }
    }
}

pub(super) fn create_buffer(
    device: &wgpu::Device,
    name: &str,
    size: u64,
    usage: wgpu::BufferUsages,
) -> wgpu::Buffer {
    device.create_buffer(&wgpu::BufferDescriptor {
        label: Some(name),
        size,
        usage,
        mapped_at_creation: false,
    })
}

//! Transfer of buffer contents to the host.
//!
//! Method: a buffer is copied in pieces to staging buffers that can be mapped. Up to `RING` pieces
//! are in flight while the host copies finished pieces. Staging buffers are then reused for the
//! next read. All transfers are asynchronous. On native platforms nothing else drives the device,
//! so awaiting a piece blocks; in a browser it returns to the event loop.

use super::memory::create_buffer;
use super::{AnyBuffer, Buffer, Gpu, Scalar, lock};
use crate::pool::Pool;
use crate::{Error, Result};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// Maximum size of a piece of a read, in bytes.
const PIECE_BYTES: u64 = 16 << 20;
/// Maximum number of pieces of one read in flight, and of cached staging buffers.
const RING: usize = 4;

/// Unused staging buffers.
#[derive(Debug, Default)]
pub(super) struct Staging(Vec<wgpu::Buffer>);

/// A copy in flight.
#[derive(Debug)]
struct PendingCopy {
    staging: wgpu::Buffer,
    bytes: u64,
    submission: wgpu::SubmissionIndex,
    mapped: Arc<Signal>,
}

/// Whether a staging buffer is mapped, and the waker of the waiting task.
#[derive(Debug, Default)]
struct Signal(Mutex<(bool, Option<Waker>)>);

impl Signal {
    fn raise(&self) {
        let waker = {
            let mut state = lock(&self.0);
            state.0 = true;
            state.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    fn is_raised(&self) -> bool {
        lock(&self.0).0
    }
}

/// A read in progress: the contents of a buffer at the time when the read began.
///
/// # Examples
/// ```
/// # use gpu_wgsl::{Error, Gpu, Select};
/// # fn main() -> Result<(), Error> {
/// # if gpu_wgsl::adapters().is_empty() { return Ok(()) }
/// let gpu = Gpu::open(Select::Best)?;
/// let x = gpu.upload("x", &[2], &[1.0_f32, 2.0])?;
/// let read = gpu.start_read(&x)?; // returns at once
/// gpu.write(&x, &[3.0, 4.0])?;
/// assert_eq!(read.wait()?, [1.0, 2.0]);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "the contents are returned by `wait` or `finish`"]
pub struct Read<T: Scalar> {
    pending: PendingRead,
    scalar: PhantomData<T>,
}

/// A read in progress, without the type of the scalars.
#[derive(Debug)]
pub(crate) struct PendingRead {
    gpu: Gpu,
    len: usize,
    pieces: VecDeque<PendingCopy>,
}

impl<T: Scalar> Read<T> {
    /// Returns whether all contents have arrived, without waiting.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        // An error is returned when the contents are read.
        let _ = self.pending.gpu.shared.device.poll(wgpu::PollType::Poll);
        let mut pieces = self.pending.pieces.iter();
        pieces.all(|piece| piece.mapped.is_raised())
    }

    /// Waits for the contents and returns them in row-major order.
    ///
    /// # Errors
    /// As [`Gpu::read`].
    pub fn wait(self) -> Result<Vec<T>> {
        pollster::block_on(self.finish())
    }

    /// Returns the contents in row-major order, without blocking in a browser.
    ///
    /// # Errors
    /// As [`Gpu::read`].
    pub async fn finish(self) -> Result<Vec<T>> {
        self.pending.finish().await
    }
}

impl PendingRead {
    /// Waits for the contents and returns them as `T`, which must be the buffer's scalar type.
    pub(crate) async fn finish<T: Scalar>(self) -> Result<Vec<T>> {
        let mut out = vec![T::zeroed(); self.len];
        let mut left: &mut [u8] = bytemuck::cast_slice_mut(&mut out);
        for piece in self.pieces {
            left = self.gpu.take_out(piece, left).await?;
        }
        Ok(out)
    }
}

impl Gpu {
    /// Submits the recorded work and returns the contents of a buffer in row-major order.
    ///
    /// # Errors
    /// [`Error::ForeignBuffer`], [`Error::Lost`]; [`Error::Device`] for errors that the driver
    /// reported so far, and if work that should have written the buffer was lost.
    pub fn read<T: Scalar>(&self, buffer: &Buffer<T>) -> Result<Vec<T>> {
        pollster::block_on(self.read_async(buffer))
    }

    /// Returns the contents of a buffer without blocking in a browser; see [`Gpu::read`].
    ///
    /// # Errors
    /// As [`Gpu::read`].
    pub async fn read_async<T: Scalar>(&self, buffer: &Buffer<T>) -> Result<Vec<T>> {
        self.ready_to_read(buffer)?;
        let mut out = vec![T::zeroed(); buffer.len()];
        let bytes = bytemuck::cast_slice_mut(&mut out);
        self.read_bytes(buffer.handle(), buffer.bytes(), bytes)
            .await?;
        Ok(out)
    }

    /// Starts to read a buffer and returns at once. Work that is recorded later does not change the
    /// contents read. The read needs staging memory of the buffer's size.
    ///
    /// # Errors
    /// As [`Gpu::read`].
    pub fn start_read<T: Scalar>(&self, buffer: &Buffer<T>) -> Result<Read<T>> {
        Ok(Read {
            pending: self.start(buffer)?,
            scalar: PhantomData,
        })
    }

    /// Starts to read a buffer of at most [`RING`] pieces; returns `None` for a longer buffer.
    pub(crate) fn start_if_short(&self, buffer: &AnyBuffer) -> Result<Option<PendingRead>> {
        let is_short = buffer.bytes() <= RING as u64 * PIECE_BYTES;
        is_short.then(|| self.start(buffer)).transpose()
    }

    fn start(&self, buffer: &AnyBuffer) -> Result<PendingRead> {
        self.ready_to_read(buffer)?;
        let mut pieces = VecDeque::new();
        let bytes = buffer.bytes();
        for start in starts(bytes) {
            pieces.push_back(self.stage(buffer.handle(), start, bytes)?);
        }
        Ok(PendingRead {
            gpu: self.clone(),
            len: buffer.len(),
            pieces,
        })
    }

    /// Submits the recorded work, and checks that the buffer is not stale.
    fn ready_to_read(&self, buffer: &AnyBuffer) -> Result<()> {
        self.check_owner("read", buffer)?;
        self.flush()?;
        match buffer.staleness() {
            None => Ok(()),
            Some(message) => Err(Error::Device {
                operation: "read",
                message,
            }),
        }
    }

    /// Copies the first `bytes` bytes of `source` into `out`.
    pub(super) async fn read_bytes(
        &self,
        source: &wgpu::Buffer,
        bytes: u64,
        out: &mut [u8],
    ) -> Result<()> {
        let mut starts = starts(bytes);
        let mut under_way = VecDeque::with_capacity(RING);
        let mut left = out;
        loop {
            // Keep up to `RING` copies in flight, and take out the oldest.
            while under_way.len() < RING
                && let Some(start) = starts.next()
            {
                under_way.push_back(self.stage(source, start, bytes)?);
            }
            let Some(piece) = under_way.pop_front() else {
                return Ok(());
            };
            left = self.take_out(piece, left).await?;
        }
    }

    /// Submits a copy of the piece of `source` that begins at byte `start`.
    fn stage(&self, source: &wgpu::Buffer, start: u64, end: u64) -> Result<PendingCopy> {
        let bytes = (end - start).min(PIECE_BYTES);
        let staging = self.staging(bytes)?;
        let device = &self.shared.device;
        let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(source, start, &staging, 0, bytes);
        let submission = self.shared.queue.submit([encoder.finish()]);
        let mapped = Arc::new(Signal::default());
        let signal = Arc::clone(&mapped);
        // An error of the mapping shows when the mapped range is accessed.
        staging
            .slice(..bytes)
            .map_async(wgpu::MapMode::Read, move |_| signal.raise());
        Ok(PendingCopy {
            staging,
            bytes,
            submission,
            mapped,
        })
    }

    /// Returns a staging buffer of at least `bytes` bytes, from the cache if possible.
    fn staging(&self, bytes: u64) -> Result<wgpu::Buffer> {
        {
            let mut unused = lock(&self.shared.staging);
            let fits = |buffer: &wgpu::Buffer| buffer.size() >= bytes;
            if let Some(place) = unused.0.iter().position(fits) {
                return Ok(unused.0.swap_remove(place));
            }
        }
        let size = Pool::<()>::class_bytes(bytes, PIECE_BYTES);
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        self.scoped(|device| create_buffer(device, "staging", size, usage))
            .map_err(|fault| Error::Device {
                operation: "read",
                message: fault.into_message(),
            })
    }

    /// Waits for a piece, copies it to the beginning of `out`, and returns the remaining part of
    /// `out`.
    async fn take_out<'o>(&self, piece: PendingCopy, out: &'o mut [u8]) -> Result<&'o mut [u8]> {
        Mapped {
            gpu: self,
            piece: &piece,
        }
        .await?;
        let slice = piece.staging.slice(..piece.bytes);
        let mapped = slice.get_mapped_range().map_err(|error| Error::Device {
            operation: "read",
            message: error.to_string(),
        })?;
        let (own, left) = out.split_at_mut(mapped.len());
        own.copy_from_slice(&mapped);
        drop(mapped);
        piece.staging.unmap();
        let mut unused = lock(&self.shared.staging);
        if unused.0.len() == RING {
            // Drops the smallest buffer, because it fits the fewest reads.
            let smallest = (0..RING).min_by_key(|&place| unused.0[place].size());
            unused.0.swap_remove(smallest.unwrap_or(0));
        }
        unused.0.push(piece.staging);
        Ok(left)
    }
}

/// Returns the start of each piece, in bytes.
fn starts(bytes: u64) -> impl Iterator<Item = u64> {
    (0..bytes.div_ceil(PIECE_BYTES)).map(|piece| piece * PIECE_BYTES)
}

/// A future that is ready when a piece is mapped, or when mapping has failed.
struct Mapped<'a> {
    gpu: &'a Gpu,
    piece: &'a PendingCopy,
}

impl Future for Mapped<'_> {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let PendingCopy {
            submission, mapped, ..
        } = self.piece;
        {
            let mut state = lock(&mapped.0);
            if !state.0 && cfg!(target_arch = "wasm32") {
                state.1 = Some(context.waker().clone());
                return Poll::Pending;
            }
            if state.0 {
                return Poll::Ready(self.gpu.sound("read"));
            }
        }
        Poll::Ready(self.gpu.wait_for("read", Some(submission.clone())))
    }
}

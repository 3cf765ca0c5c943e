//! Contents of buffers on their way to the host.
//!
//! Method: a buffer is copied piece by piece into staging buffers that can be mapped, some of which are under way while the host takes
//! out what has come; then they wait for the next read. Everything is asynchronous inside. Where nobody but the caller drives the
//! device, as on all native platforms, awaiting a piece waits for it; in a browser it returns to the event loop.

use super::memory::create_buffer;
use super::{AnyBuffer, Buffer, Gpu, Scalar, lock};
use crate::pool::Pool;
use crate::{Error, Result};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};

/// Bytes of the largest piece.
const PIECE_BYTES: u64 = 16 << 20;
/// Pieces of one read that are under way at a time, and staging buffers that wait for the next.
const RING: usize = 4;

/// Staging buffers that nobody uses.
#[derive(Debug, Default)]
pub(super) struct Staging(Vec<wgpu::Buffer>);

/// A copy that is under way.
#[derive(Debug)]
struct Piece {
    staging: wgpu::Buffer,
    bytes: u64,
    submission: wgpu::SubmissionIndex,
    mapped: Arc<Signal>,
}

/// Whether a buffer is mapped, and whom to tell.
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

/// The contents of a buffer as they were when the read began, on their way to the host.
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
#[must_use = "what is read comes with `wait` or `finish`"]
pub struct Read<T: Scalar> {
    coming: Coming,
    scalar: PhantomData<T>,
}

/// The same, whatever it is.
#[derive(Debug)]
pub(crate) struct Coming {
    gpu: Gpu,
    len: usize,
    pieces: VecDeque<Piece>,
}

impl<T: Scalar> Read<T> {
    /// Tells whether all of it has come, without waiting.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        // A fault shows when the contents are taken.
        let _ = self.coming.gpu.shared.device.poll(wgpu::PollType::Poll);
        let mut pieces = self.coming.pieces.iter();
        pieces.all(|piece| piece.mapped.is_raised())
    }

    /// Waits for the contents, row-major.
    ///
    /// # Errors
    /// As [`Gpu::read`].
    pub fn wait(self) -> Result<Vec<T>> {
        pollster::block_on(self.finish())
    }

    /// Gives the contents, row-major.
    ///
    /// # Errors
    /// As [`Gpu::read`].
    pub async fn finish(self) -> Result<Vec<T>> {
        self.coming.finish().await
    }
}

impl Coming {
    /// The contents, as scalars of the type that the buffer holds.
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
    /// Runs what is recorded and gives the contents of a buffer, row-major.
    ///
    /// # Errors
    /// [`Error::ForeignBuffer`], [`Error::Lost`], [`Error::Device`] for whatever the driver reported on the
    /// way, and where work that should have written the buffer was lost.
    pub fn read<T: Scalar>(&self, buffer: &Buffer<T>) -> Result<Vec<T>> {
        pollster::block_on(self.read_async(buffer))
    }

    /// Gives the contents of a buffer without blocking in a browser; see [`Gpu::read`].
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

    /// Starts to read a buffer, and returns at once. What is recorded later does not change what comes. As much memory as the
    /// buffer has is taken to hold it meanwhile.
    ///
    /// # Errors
    /// As [`Gpu::read`].
    pub fn start_read<T: Scalar>(&self, buffer: &Buffer<T>) -> Result<Read<T>> {
        Ok(Read {
            coming: self.start(buffer)?,
            scalar: PhantomData,
        })
    }

    /// The same, if the buffer is no longer than what is under way of a long one at a time.
    pub(crate) fn start_if_short(&self, buffer: &AnyBuffer) -> Result<Option<Coming>> {
        let is_short = buffer.bytes() <= RING as u64 * PIECE_BYTES;
        is_short.then(|| self.start(buffer)).transpose()
    }

    fn start(&self, buffer: &AnyBuffer) -> Result<Coming> {
        self.ready_to_read(buffer)?;
        let mut pieces = VecDeque::new();
        let bytes = buffer.bytes();
        for start in starts(bytes) {
            pieces.push_back(self.stage(buffer.handle(), start, bytes)?);
        }
        Ok(Coming {
            gpu: self.clone(),
            len: buffer.len(),
            pieces,
        })
    }

    /// Sends what is recorded, and checks that a buffer holds what it should.
    fn ready_to_read(&self, buffer: &AnyBuffer) -> Result<()> {
        self.check_owner("read", buffer)?;
        self.flush()?;
        match buffer.staleness() {
            None => Ok(()),
            Some(message) => Err(Error::Device {
                op: "read",
                message,
            }),
        }
    }

    /// Copies the first `bytes` of `source` into `out`.
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

    /// Sends a copy of the piece of `source` that begins at `start`.
    fn stage(&self, source: &wgpu::Buffer, start: u64, end: u64) -> Result<Piece> {
        let bytes = (end - start).min(PIECE_BYTES);
        let staging = self.staging(bytes)?;
        let device = &self.shared.device;
        let mut encoder = device.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
        encoder.copy_buffer_to_buffer(source, start, &staging, 0, bytes);
        let submission = self.shared.queue.submit([encoder.finish()]);
        let mapped = Arc::new(Signal::default());
        let signal = Arc::clone(&mapped);
        // Whether it went well is seen when the mapped range is asked for.
        staging
            .slice(..bytes)
            .map_async(wgpu::MapMode::Read, move |_| signal.raise());
        Ok(Piece {
            staging,
            bytes,
            submission,
            mapped,
        })
    }

    /// A staging buffer with room for so many bytes.
    fn staging(&self, bytes: u64) -> Result<wgpu::Buffer> {
        {
            let mut waiting = lock(&self.shared.staging);
            let fits = |buffer: &wgpu::Buffer| buffer.size() >= bytes;
            if let Some(place) = waiting.0.iter().position(fits) {
                return Ok(waiting.0.swap_remove(place));
            }
        }
        let size = Pool::<()>::class_bytes(bytes, PIECE_BYTES);
        let usage = wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST;
        self.scoped(|device| create_buffer(device, "staging", size, usage))
            .map_err(|fault| Error::Device {
                op: "read",
                message: fault.into_message(),
            })
    }

    /// Takes a piece out into the beginning of `out` once it has come, and gives what is left of that.
    async fn take_out<'o>(&self, piece: Piece, out: &'o mut [u8]) -> Result<&'o mut [u8]> {
        Mapped {
            gpu: self,
            piece: &piece,
        }
        .await?;
        let slice = piece.staging.slice(..piece.bytes);
        let mapped = slice.get_mapped_range().map_err(|error| Error::Device {
            op: "read",
            message: error.to_string(),
        })?;
        // Scalars of a buffer end where its last word does.
        let n_bytes = mapped.len().min(out.len());
        let (own, left) = out.split_at_mut(n_bytes);
        own.copy_from_slice(&mapped[..n_bytes]);
        drop(mapped);
        piece.staging.unmap();
        let mut waiting = lock(&self.shared.staging);
        if waiting.0.len() == RING {
            // The smallest serves fewest reads.
            let smallest = (0..RING).min_by_key(|&place| waiting.0[place].size());
            waiting.0.swap_remove(smallest.unwrap_or(0));
        }
        waiting.0.push(piece.staging);
        Ok(left)
    }
}

/// Where the pieces of so many bytes begin.
fn starts(bytes: u64) -> impl Iterator<Item = u64> {
    (0..bytes.div_ceil(PIECE_BYTES)).map(|piece| piece * PIECE_BYTES)
}

/// Ready when a piece is mapped, or never will be.
struct Mapped<'a> {
    gpu: &'a Gpu,
    piece: &'a Piece,
}

impl Future for Mapped<'_> {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        let Piece {
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

//! Arrays on a device, and pending errors of their computation.

use std::any::Any;
use std::borrow::Cow;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use half::f16;
use tensor_core::exec::{Pending, Storage};
use tensor_core::plan::Origin;
use tensor_core::{DType, HostData};

use crate::device::{AnyBuffer, Buffer, PendingRead, Scalar};
use crate::{Gpu, Result};

/// The number of `bool`s in a word.
pub(super) const WORD_BITS: usize = u32::BITS as usize;

/// An array on a device.
#[derive(Debug)]
pub(crate) struct Array {
    gpu: Gpu,
    dtype: DType,
    len: usize,
    buffer: AnyBuffer,
    /// Pending errors of all gathers that contributed to the array.
    faults: Vec<Arc<Faults>>,
}

/// The positions out of range that the gathers of a step read, as recorded by the kernel.
#[derive(Debug)]
pub(super) struct Faults {
    /// For each gather, two words: 1 if a position was out of range, and this position.
    buffer: Buffer<u32>,
    gathers: Vec<Gathered>,
    location: Option<&'static Location<'static>>,
    /// Whether the buffer was read and contained no error, so that it need not be read again.
    was_clean: AtomicBool,
}

/// The record of a gather, and the read of the record.
type Check = (Arc<Faults>, Result<Option<PendingRead>>);

/// The axis that a gather reads along, and the type of its positions.
#[derive(Debug, Clone, Copy)]
pub(super) struct Gathered {
    pub(super) extent: usize,
    pub(super) is_signed: bool,
}

impl Array {
    /// Returns the array behind a storage; `None` for a storage of another executor.
    pub(super) fn downcast(storage: &dyn Storage) -> Option<&Self> {
        let any: &dyn Any = storage;
        any.downcast_ref()
    }

    pub(super) fn is_on(&self, gpu: &Gpu) -> bool {
        self.gpu.is_same_device(gpu)
    }

    /// Allocates an array whose name is the operation of `origin` and its source line.
    pub(super) fn alloc(
        gpu: &Gpu,
        origin: Option<&Origin>,
        dtype: DType,
        len: usize,
    ) -> Result<Self> {
        let name =
            &*origin.map_or_else(|| Cow::Borrowed("array"), |origin| described(origin).into());
        let buffer = match dtype {
            DType::F32 => gpu.alloc::<f32>(name, &[len])?.into_any(),
            DType::I32 => gpu.alloc::<i32>(name, &[len])?.into_any(),
            DType::U32 => gpu.alloc::<u32>(name, &[len])?.into_any(),
            DType::Bool => gpu
                .alloc::<u32>(name, &[len.div_ceil(WORD_BITS)])?
                .into_any(),
            DType::F16 => gpu.alloc::<u32>(name, &[len.div_ceil(2)])?.into_any(),
            DType::F64 => gpu.alloc::<f64>(name, &[len])?.into_any(),
        };
        Ok(Self::new(gpu, dtype, len, buffer))
    }

    pub(crate) fn upload(gpu: &Gpu, data: &HostData) -> Result<Self> {
        let name = "data";
        let words = |words: &[u32]| Ok(gpu.upload(name, &[words.len()], words)?.into_any());
        let buffer = match data {
            HostData::F32(data) => gpu.upload(name, &[data.len()], data)?.into_any(),
            HostData::I32(data) => gpu.upload(name, &[data.len()], data)?.into_any(),
            HostData::U32(data) => words(data)?,
            HostData::Bool(data) => words(&packed(data, 1, |bit| u32::from(*bit)))?,
            HostData::F16(data) => words(&packed(data, 16, |half| half.to_bits().into()))?,
            HostData::F64(data) => gpu.upload(name, &[data.len()], data)?.into_any(),
        };
        Ok(Self::new(gpu, data.dtype(), data.len(), buffer))
    }

    pub(super) fn new(gpu: &Gpu, dtype: DType, len: usize, buffer: AnyBuffer) -> Self {
        Self {
            gpu: gpu.clone(),
            dtype,
            len,
            buffer,
            faults: Vec::new(),
        }
    }

    /// Returns the words of an array of `bool`s, in the same memory.
    pub(super) fn as_words(&self) -> Self {
        let n_words = self.len.div_ceil(WORD_BITS);
        let mut words = Self::new(&self.gpu, DType::U32, n_words, self.buffer.clone());
        words.inherit(self);
        words
    }

    pub(super) fn buffer(&self) -> &AnyBuffer {
        &self.buffer
    }

    /// Waits for the computation of the array, if it contains a gather.
    ///
    /// # Errors
    /// [`tensor_core::Error::IndexOutOfRange`] of the gather; an error of the device.
    pub(super) async fn settle(&self) -> tensor_core::Result<()> {
        self.finish_checks(self.begin_checks()).await
    }

    /// Starts to read the records of all gathers that were not read before.
    fn begin_checks(&self) -> Vec<Check> {
        let open = self.faults.iter();
        let open = open.filter(|faults| !faults.was_clean.load(Ordering::Relaxed));
        open.map(|faults| {
            let pending = self.gpu.start_if_short(&faults.buffer);
            (Arc::clone(faults), pending)
        })
        .collect()
    }

    /// Waits for the records, and returns the error of the first gather that failed.
    async fn finish_checks(&self, checks: Vec<Check>) -> tensor_core::Result<()> {
        for (faults, pending) in checks {
            let happened = faults.happened(pending).await;
            if let Some(error) = happened.map_err(|error| self.gpu.executor_error(error))? {
                return Err(error);
            }
        }
        Ok(())
    }

    /// Adds the pending errors of `input`, from which the array is computed.
    pub(super) fn inherit(&mut self, input: &Self) {
        for faults in &input.faults {
            if !faults.was_clean.load(Ordering::Relaxed)
                && !self.faults.iter().any(|own| Arc::ptr_eq(own, faults))
            {
                self.faults.push(Arc::clone(faults));
            }
        }
    }

    pub(super) fn fail_with(&mut self, faults: Option<Arc<Faults>>) {
        self.faults.extend(faults);
    }

    /// Waits for the computation and returns the elements.
    pub(crate) fn into_data(self) -> tensor_core::Result<HostData> {
        pollster::block_on(Arc::new(self).read())
    }

    /// Waits for the computation and returns the elements of an `f32` array.
    pub(crate) fn f32s(&self) -> Result<Vec<f32>> {
        pollster::block_on(self.scalars(None))
    }

    async fn elements(&self, pending: Option<PendingRead>) -> Result<HostData> {
        let words = match self.dtype {
            DType::F32 => return Ok(HostData::F32(self.scalars(pending).await?)),
            DType::I32 => return Ok(HostData::I32(self.scalars(pending).await?)),
            DType::F64 => return Ok(HostData::F64(self.scalars(pending).await?)),
            DType::U32 | DType::Bool | DType::F16 => self.scalars::<u32>(pending).await?,
        };
        Ok(match self.dtype {
            DType::Bool => HostData::Bool(unpacked(&words, 1, self.len, |bit| bit == 1)),
            DType::F16 => HostData::F16(unpacked(&words, 16, self.len, f16::from_bits)),
            _ => HostData::U32(words),
        })
    }

    async fn scalars<T: Scalar>(&self, pending: Option<PendingRead>) -> Result<Vec<T>> {
        if let Some(pending) = pending {
            return pending.finish().await;
        }
        let buffer = Buffer::try_from(self.buffer.clone())?;
        self.gpu.read_async(&buffer).await
    }
}

impl Faults {
    pub(super) fn alloc(gpu: &Gpu, gathers: &[Gathered], origin: Option<&Origin>) -> Result<Self> {
        let none = vec![0_u32; 2 * gathers.len()];
        Ok(Self {
            buffer: gpu.upload("faults", &[none.len()], &none)?,
            gathers: gathers.to_vec(),
            was_clean: AtomicBool::new(false),
            location: origin.map(|origin| origin.location),
        })
    }

    pub(super) fn buffer(&self) -> &AnyBuffer {
        &self.buffer
    }

    /// Reads the record and returns the error of the first gather that failed.
    async fn happened(
        &self,
        pending: Result<Option<PendingRead>>,
    ) -> Result<Option<tensor_core::Error>> {
        let words: Vec<u32> = match pending? {
            Some(pending) => pending.finish().await?,
            // The buffer of faults is always short enough for a direct read.
            None => Vec::new(),
        };
        let mut noted = words.chunks_exact(2).zip(&self.gathers);
        let found = noted.find(|(words, _)| words[0] != 0);
        self.was_clean.store(found.is_none(), Ordering::Relaxed);
        Ok(found.map(|(words, gather)| {
            let index = match gather.is_signed {
                true => f64::from(words[1].cast_signed()),
                false => f64::from(words[1]),
            };
            let error = tensor_core::Error::IndexOutOfRange {
                index,
                extent: gather.extent,
            };
            match self.location {
                Some(location) => error.at(location),
                None => error,
            }
        }))
    }
}

impl Storage for Array {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn len(&self) -> usize {
        self.len
    }

    fn read(self: Arc<Self>) -> Pending<'static, tensor_core::Result<HostData>> {
        // Starts all reads immediately, so that a caller that awaits several arrays waits for all
        // of them at once.
        let checks = self.begin_checks();
        let pending = self.gpu.start_if_short(&self.buffer);
        Box::pin(async move {
            self.finish_checks(checks).await?;
            let elements = match pending {
                Ok(pending) => self.elements(pending).await,
                Err(error) => Err(error),
            };
            elements.map_err(|error| self.gpu.executor_error(error))
        })
    }
}

/// Returns the text `operation (file:line)`.
fn described(origin: &Origin) -> String {
    let Origin {
        operation,
        location,
    } = origin;
    format!("{operation} ({}:{})", location.file(), location.line())
}

/// Packs elements of `bits` bits into words, the first element in the lowest bits.
fn packed<T>(elements: &[T], bits: usize, of: impl Fn(&T) -> u32) -> Vec<u32> {
    let word = |elements: &[T]| {
        let placed = elements.iter().enumerate();
        placed.fold(0, |word, (n, element)| word | of(element) << (n * bits))
    };
    elements.chunks(32 / bits).map(word).collect()
}

/// Unpacks the first `len` elements of `bits` bits from words.
fn unpacked<T>(words: &[u32], bits: usize, len: usize, of: impl Fn(u16) -> T) -> Vec<T> {
    let mask = (1_u32 << bits) - 1;
    let element = |at: usize| {
        let (word, place) = (at * bits / 32, at * bits % 32);
        let bits = (words[word] >> place) & mask;
        // At most 16 bits remain after the mask.
        of(u16::try_from(bits).unwrap_or_default())
    };
    (0..len).map(element).collect()
}

//! Tests of the loops over pairs at every level of the CPU, compared with the reference executor.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::super::Host;
use super::super::level::Level;
use super::super::machine::Machine;
use super::super::program::Bytecode;
use super::ROWS;
use crate::compare::{Tolerance, compare};
use crate::dtype::{DType, HostData, with_element};
use crate::error::Result;
use crate::exec::reference::host_inputs;
use crate::exec::{Executor, HostStorage, Reference, Storage};
use crate::plan::{Step, Target};
use crate::rng::Philox;
use crate::storage::Pool;
use crate::tensor::Tensor;

/// The host executor on one thread at one level, without a cache.
#[derive(Debug)]
struct AtLevel {
    level: Level,
    /// The number of steps that were reductions over pairs.
    n_pairs: AtomicUsize,
}

impl Executor for AtLevel {
    fn name(&self) -> &'static str {
        "host at one level"
    }

    fn target(&self) -> Target {
        Host::new().target()
    }

    fn owns(&self, storage: &dyn Storage) -> bool {
        HostStorage::downcast(storage).is_some()
    }

    fn upload(&self, data: HostData) -> Result<Arc<dyn Storage>> {
        Ok(Arc::new(HostStorage::foreign(data)))
    }

    fn run(&self, step: &Step, inputs: &[Arc<dyn Storage>]) -> Result<Arc<dyn Storage>> {
        let data = host_inputs(inputs)?;
        let program = Bytecode::compile(&step.nest);
        let is_pairs = usize::from(program.pairs.is_some());
        self.n_pairs.fetch_add(is_pairs, Ordering::Relaxed);
        let mut machine = Machine::new(&program, &data);
        machine.level = self.level;
        let pool = Arc::new(Pool::default());
        let mut out = pool.take(step.nest.dtype(), step.nest.output_len())?;
        with_element!(step.nest.dtype(), T => machine.fill::<T>(0, out.elements_mut())?);
        Ok(Arc::new(out))
    }
}

/// Returns the levels that the CPU has, and prints those that it lacks.
fn levels() -> Vec<(&'static str, Level)> {
    let mut levels = Vec::new();
    for (name, level) in Level::all() {
        match level {
            Some(level) => levels.push((name, level)),
            None => eprintln!("not tested: the CPU lacks the level {name}"),
        }
    }
    levels
}

/// Computes named reductions over pairs at every level, and compares each with the reference.
fn check(cases: &[(String, Tensor)]) {
    let levels = levels();
    for (name, tensor) in cases {
        let expected = tensor.eval::<u32>(&Reference).unwrap();
        for &(level_name, level) in &levels {
            let executor = AtLevel {
                level,
                n_pairs: AtomicUsize::new(0),
            };
            let actual = tensor.eval::<u32>(&executor).unwrap();
            if let Err(mismatch) = compare(actual, &expected, &Tolerance::exact()) {
                panic!("{name}, {level_name}: {mismatch}");
            }
            let n_pairs = executor.n_pairs.into_inner();
            assert_eq!(n_pairs, 1, "{name}: steps with a loop over pairs");
        }
    }
}

/// Returns words of random bits in memory, so that the tensor is a plain input.
fn words(shape: &[usize], stream: u64, dtype: DType) -> Tensor {
    let stream = Philox::new(5).stream(stream);
    let n = shape.iter().product::<usize>() as u64;
    let words: Vec<u32> = (0..n).map(|i| stream.word(i)).collect();
    let words = Tensor::from_vec(shape, words).cast(dtype);
    words.realize(&Host::new()).unwrap()
}

#[test]
fn matrices_of_every_length_are_folded_at_every_level() {
    let mut cases = Vec::new();
    // Rows that fill no tile, lanes around the width of tiles and of a block, words around the
    // capacity of counters of one byte.
    for (rows, lanes) in [(1, 64), (3, 65), (4, 127), (9, 130), (13, 1100)] {
        for n in [2, 31, 32, 63, 145] {
            for dtype in [DType::U32, DType::I32] {
                let x = words(&[rows, n], 1, dtype).expand_dims(2);
                let y = words(&[n, lanes], 2, dtype).expand_dims(0);
                let name = |what| format!("{what}, {dtype}, {rows} x {lanes} x {n}");
                let count = |x: Tensor| x.count_ones().sum(1).cast(DType::U32);
                cases.push((name("xor"), count(&x ^ &y)));
                cases.push((name("and"), count(&x & &y)));
                if rows >= ROWS {
                    let dot = x.dot4_i8(&y).sum(1).cast(DType::U32);
                    cases.push((name("products of bytes"), dot));
                }
            }
        }
    }
    check(&cases);
}

#[test]
fn windows_with_padding_are_folded_at_every_level() {
    let mut cases = Vec::new();
    for (taps, step, padding) in [(1, 1, 0), (3, 1, 1), (3, 2, 1), (3, 1, 3), (2, 3, 2)] {
        let image = words(&[2, 5, 9, 3], 1, DType::U32);
        let weights = words(&[taps, taps, 3, 66], 2, DType::U32);
        let padded = image
            .pad(1, padding, padding, 0)
            .pad(2, padding, padding, 0);
        let windows = padded.window(1, taps, step).window(2, taps, step);
        // [batch, height, width, taps down, taps across, words, lanes]
        let windows = windows.permute(&[0, 1, 2, 4, 5, 3]).expand_dims(-1);
        let name = |what| format!("{what} of {taps} taps, step {step}, padding {padding}");
        let axes = [3, 4, 5];
        let count = |x: Tensor| x.count_ones().sum(axes);
        cases.push((name("xor"), count(&windows ^ &weights)));
        cases.push((name("and"), count(&windows & &weights)));
        let flipped = windows.flip(3).flip(5);
        cases.push((name("flipped"), count(&flipped ^ &weights)));
        // Loops that do not count ones are compiled for the same levels.
        cases.push((name("maximum"), (&windows + &weights).max(axes)));
        cases.push((
            name("products of bytes"),
            windows.dot4_i8(&weights).sum(axes),
        ));
    }
    check(&cases);
}

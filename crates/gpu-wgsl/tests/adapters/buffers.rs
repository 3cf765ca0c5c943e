//! Tensors as buffers of kernels, and buffers as tensors.

use crate::errors::device_error;
use gpu_wgsl::check::every_adapter;
use gpu_wgsl::{Buffer, Error, Gpu, Select};
use shaders::layout;
use shaders::params::BufferCopyParams;
use tensor_core::compare::{Tolerance, assert_close};
use tensor_core::{DType, Host, Tensor};

#[test]
fn a_kernel_reads_a_tensor_and_a_tensor_program_reads_the_result() {
    for gpu in every_adapter() {
        // The kernel copies four scalars at a time.
        for len in [0_usize, 4, 32, 100] {
            let x = Tensor::arange(len).cast(DType::F32).realize(gpu).unwrap();
            let copy = gpu.alloc::<f32>("copy", &[len]).unwrap();
            let input = gpu.buffer_from_tensor(&x).unwrap();
            let params = BufferCopyParams::new(u32::try_from(len / 4).unwrap());
            gpu.dispatch(&layout::BUFFER_COPY, &params, &[&input, &copy])
                .unwrap();
            let y = gpu
                .tensor_from_buffer(DType::F32, &[len], copy.into_any())
                .unwrap();
            let doubled = (y * 2).eval::<f32>(gpu).unwrap();
            let expected = (x * 2).eval::<f32>(&Host::new()).unwrap();
            assert_close(doubled, expected, Tolerance::exact().allow_empty());
        }
    }
}

#[test]
fn words_become_bools_and_halves() {
    for gpu in every_adapter() {
        let words = gpu.upload("words", &[2], &[0x3c00_0001_u32, 0x6]).unwrap();
        let flags = gpu
            .tensor_from_buffer(DType::Bool, &[5, 7], words.into_any())
            .unwrap();
        let ones = flags.sum(1).eval::<u32>(gpu).unwrap();
        // Bits 0, 26 to 29, 33 and 34.
        assert_close(ones, [1_u32, 0, 0, 2, 4], Tolerance::exact());
        let words = gpu
            .upload("words", &[2], &[0x3c00_0001_u32, 0x4000])
            .unwrap();
        let halves = gpu
            .tensor_from_buffer(DType::F16, &[3], words.into_any())
            .unwrap();
        let floats = halves.cast(DType::F32).eval::<f32>(gpu).unwrap();
        assert_close(floats, [5.960_464_5e-8_f32, 1.0, 2.0], Tolerance::exact());
    }
}

#[test]
fn the_memory_of_a_tensor_is_never_written() {
    for gpu in every_adapter() {
        let x = Tensor::arange(8).cast(DType::F32).realize(gpu).unwrap();
        let memory = gpu.buffer_from_tensor(&x).unwrap();
        let other = gpu.upload("other", &[8], &[0.0_f32; 8]).unwrap();
        let params = BufferCopyParams::new(2);
        let written = gpu.dispatch(&layout::BUFFER_COPY, &params, &[&other, &memory]);
        let message = written.unwrap_err().to_string();
        assert!(message.ends_with("belongs to a tensor"), "{message}");
        let memory = Buffer::<f32>::try_from(memory).unwrap();
        let written = gpu.write(&memory, &[9.0; 8]);
        assert!(matches!(written, Err(Error::ReadOnly { .. })));
        let unchanged = x.to_host::<f32>().unwrap().into_raw_vec_and_offset().0;
        assert_eq!(unchanged, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]);

        let second = other.clone();
        let shared = gpu.tensor_from_buffer(DType::F32, &[8], other.into_any());
        assert!(matches!(
            device_error(&shared.unwrap_err()),
            Some(Error::SharedBuffer { .. })
        ));
        let fine = gpu.tensor_from_buffer(DType::F32, &[2, 4], second.into_any());
        assert_eq!(fine.unwrap().shape().unwrap(), [2, 4]);
    }
}

#[test]
fn what_does_not_fit_is_an_error() {
    for gpu in every_adapter() {
        let host = Tensor::from_vec(&[2], vec![1.0_f32, 2.0]);
        assert!(matches!(
            gpu.buffer_from_tensor(&host),
            Err(tensor_core::Error::ForeignStorage)
        ));
        assert!(matches!(
            gpu.buffer_from_tensor(&(&host + 1)),
            Err(tensor_core::Error::NotRealized { .. })
        ));
        assert!(
            gpu.buffer_from_tensor(&(&host + &host.expand_dims(1).t().t().reshape(&[3])))
                .is_err()
        );
        let index = Tensor::from_vec(&[1], vec![7_i32]);
        for checked in [
            host.gather(&index, 0),
            host.scatter_add(&index, &Tensor::scalar(1.0_f32), 0),
            index.bincount(7),
        ] {
            let checked = checked.realize(gpu);
            let checked = checked.and_then(|tensor| gpu.buffer_from_tensor(&tensor));
            let message = checked.unwrap_err().to_string();
            assert!(message.contains("index 7 is out of range"), "{message}");
        }

        let buffer = || gpu.upload("x", &[3], &[1.0_f32; 3]).unwrap().into_any();
        let fault = |dtype, shape: &[usize]| {
            let error = gpu.tensor_from_buffer(dtype, shape, buffer()).unwrap_err();
            device_error(&error).cloned()
        };
        assert!(matches!(
            fault(DType::U32, &[3]),
            Some(Error::ElementMismatch { .. })
        ));
        assert!(matches!(
            fault(DType::F32, &[2, 2]),
            Some(Error::LengthMismatch { .. })
        ));
        let huge = gpu.tensor_from_buffer(DType::F32, &[usize::MAX, 2], buffer());
        assert!(matches!(huge, Err(tensor_core::Error::TooLarge { .. })));
        let other = Gpu::open(Select::Index(gpu.adapter().index)).unwrap();
        let foreign = other.tensor_from_buffer(DType::F32, &[3], buffer());
        assert!(matches!(
            device_error(&foreign.unwrap_err()),
            Some(Error::ForeignBuffer { .. })
        ));
    }
}

#[test]
fn packed_bits_and_their_products_are_equal_to_those_of_the_host() {
    // Other tests compile kernels and allocate memory on the shared devices.
    for shared in every_adapter() {
        let gpu = &shared.reopen().unwrap();
        for n in [1_usize, 32, 70, 96] {
            let numbers: Vec<f32> = (0..5 * n).map(|i| ((i * 7919) % 13) as f32 - 6.0).collect();
            let x = Tensor::from_vec(&[5, n], numbers);
            let words = x.gt(0).pack_bits();
            let check = |tensor: &Tensor| {
                let device = tensor.eval::<u32>(gpu).unwrap();
                let host = tensor.eval::<u32>(&Host::new()).unwrap();
                assert_close(device, host, Tolerance::exact());
            };
            check(&words);
            check(&words.unpack_bits(n).sum(1));
            let pairs = words.expand_dims(0) ^ words.expand_dims(1);
            check(&pairs.count_ones().sum(-1));
            // The words of a tensor that is on the device already. Whole rows of words are its own
            // memory: no kernel, no bytes.
            let signs = x.gt(0).realize(gpu).unwrap();
            let (n_kernels, n_bytes) = (gpu.compiled_kernels(), gpu.pool().live_bytes());
            let words = signs.pack_bits().realize(gpu).unwrap();
            let has_own_memory = gpu.pool().live_bytes() > n_bytes;
            let has_kernel = gpu.compiled_kernels() > n_kernels;
            let is_copied = n % 32 != 0;
            assert_eq!([has_own_memory, has_kernel], [is_copied; 2], "{n} bits");
            drop(signs);
            check(&words);
        }
    }
}

//! The GPU functions on every adapter of the machine, against the f64 functions.

use crate::f32_plane::{distributions, kolmogorov, points, share_of_bound};
use distributions::gpu::{Batch, Function};
use distributions::{Error, InverseGaussian};
use gpu_wgsl::check::every_adapter;
use std::ops::Range;
use tensor_core::compare::{Tolerance, assert_close};

/// Number of random distributions.
const N_DISTRIBUTIONS: u64 = 400;

#[test]
fn every_function_keeps_its_bound_on_every_adapter() {
    for gpu in every_adapter() {
        // SwiftShader replaces subnormal numbers by 0, which limits the range of accurate results.
        let has_subnormals = !gpu.adapter().driver.contains("SwiftShader");
        let is_accurate = |x: &f32| has_subnormals || (1e-33..=1e33).contains(x);
        for function in Function::ALL {
            let mut values = Vec::new();
            for distribution in distributions(N_DISTRIBUTIONS) {
                let mut xs = points(&distribution);
                xs.retain(is_accurate);
                let ys = Batch::new(gpu, distribution)
                    .unwrap()
                    .eval(function, &xs)
                    .unwrap();
                values.extend(xs.into_iter().zip(ys).map(|(x, y)| (distribution, x, y)));
            }
            let share = share_of_bound(function, &values);
            eprintln!(
                "{function:?} on {}: largest error is {share:.2} of the tolerance",
                gpu.adapter().name
            );
        }
    }
}

#[test]
fn named_functions_are_those_of_slices_and_of_buffers() {
    let distribution = InverseGaussian::new(2.0, 3.0).unwrap();
    let xs = [0.5_f32, 1.0, 2.0, 7.0];
    for gpu in every_adapter() {
        let batch = Batch::new(gpu, distribution).unwrap();
        let buffer = gpu.upload("xs", &[2, 2], &xs).unwrap();
        let named = [
            (Function::Pdf, batch.pdf(&xs), batch.pdf_buffer(&buffer)),
            (
                Function::LnPdf,
                batch.ln_pdf(&xs),
                batch.ln_pdf_buffer(&buffer),
            ),
            (Function::Cdf, batch.cdf(&xs), batch.cdf_buffer(&buffer)),
            (Function::Sf, batch.sf(&xs), batch.sf_buffer(&buffer)),
            (
                Function::LnCdf,
                batch.ln_cdf(&xs),
                batch.ln_cdf_buffer(&buffer),
            ),
            (
                Function::LnSf,
                batch.ln_sf(&xs),
                batch.ln_sf_buffer(&buffer),
            ),
        ];
        for (function, of_slice, of_buffer) in named {
            let (of_slice, of_buffer) = (of_slice.unwrap(), of_buffer.unwrap());
            assert_eq!(of_buffer.shape(), [2, 2]);
            assert_close(gpu.read(&of_buffer).unwrap(), &of_slice, Tolerance::bits());
            let values = xs.iter().zip(of_slice).map(|(x, y)| (distribution, *x, y));
            share_of_bound(function, &values.collect::<Vec<_>>());
        }
    }
}

#[test]
fn long_slices_and_ranges_go_in_parts_that_join() {
    let n = (1 << 20) + 3;
    let distribution = InverseGaussian::new(1.0, 2.0).unwrap();
    for gpu in every_adapter() {
        let batch = Batch::new(gpu, distribution).unwrap();
        let draws = batch.sample(3, 4, 5..5 + n).unwrap();
        let last = batch.sample(3, 4, n..5 + n).unwrap();
        assert_close(&draws[draws.len() - 5..], &last, Tolerance::bits());
        let cdf = batch.cdf(&draws).unwrap();
        assert_eq!(cdf.len(), n as usize);
        let end = batch.cdf(&last).unwrap();
        assert_close(&cdf[cdf.len() - 5..], &end, Tolerance::bits());
    }
}

#[test]
fn results_of_empty_input_are_empty() {
    for gpu in every_adapter() {
        let batch = Batch::new(gpu, InverseGaussian::new(1.0, 2.0).unwrap()).unwrap();
        assert!(batch.cdf(&[]).unwrap().is_empty());
        assert!(batch.sample(0, 0, 4..4).unwrap().is_empty());
        let backwards = Range { start: 4, end: 3 };
        assert!(batch.sample(0, 0, backwards).unwrap().is_empty());
    }
}

#[test]
fn draws_have_the_distribution_on_every_adapter() {
    for gpu in every_adapter() {
        for (mean, shape) in [(1.0, 2.0), (1e6, 1.0), (1e-9, 1e-3)] {
            let distribution = InverseGaussian::new(mean, shape).unwrap();
            let draws = Batch::new(gpu, distribution)
                .unwrap()
                .sample(11, 0, 0..100_000)
                .unwrap();
            assert!(
                draws.iter().all(|x| x.is_normal() && *x > 0.0),
                "{distribution:?}"
            );
            let statistic = kolmogorov(&distribution, draws);
            assert!(statistic < 2.3, "{distribution:?}: {statistic}");
        }
    }
}

#[test]
fn distributions_outside_the_range_of_f32_are_rejected_by_parameter() {
    let cases = [
        (1e31, 1e31, "mean"),
        (1e-31, 1e-31, "mean"),
        (1e20, 1e31, "shape"),
        (1.0, 1.1e12, "shape/mean"),
        (1.0, 0.9e-12, "shape/mean"),
        (1e-25, 1e-19, "shape/mean^2"),
    ];
    for gpu in every_adapter() {
        for (mean, shape, wrong) in cases {
            let distribution = InverseGaussian::new(mean, shape).unwrap();
            let error = Batch::new(gpu, distribution).unwrap_err();
            assert!(
                matches!(error, Error::OutsideF32 { quantity, .. } if quantity == wrong),
                "{error}"
            );
        }
    }
}

#[test]
fn a_buffer_of_another_device_is_rejected() {
    for gpu in every_adapter() {
        let other = gpu.reopen().unwrap();
        let xs = other.upload("xs", &[1], &[1.0_f32]).unwrap();
        let batch = Batch::new(gpu, InverseGaussian::new(1.0, 2.0).unwrap()).unwrap();
        let error = batch.cdf_buffer(&xs).unwrap_err();
        assert!(
            matches!(error, gpu_wgsl::Error::ForeignBuffer { .. }),
            "{error}"
        );
    }
}

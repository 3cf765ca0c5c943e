//! Quantisers of several channels.

use quant::{Error, LevelSet, Qem, Quantizer, Sample};
use tensor_core::compare::{Tolerance, assert_close};

#[test]
fn each_channel_has_the_levels_of_its_own_data() {
    let data: Vec<f32> = (0..60).map(|i| ((i * 37) % 23) as f32 - 9.5).collect();
    let scaled: Vec<f32> = data.iter().map(|x| 4.0 * x).collect();
    let both = [&data[..], &scaled].concat();
    for bits in 1..=3 {
        let qem = Qem::signs(bits).unwrap().affine();
        let quantizer = Quantizer::fit(&qem, &both, 2).unwrap();
        let alone = qem
            .fit(&Sample::new(&data).unwrap())
            .unwrap()
            .level_set()
            .unwrap();
        assert_eq!(quantizer.levels()[0], alone);
        let [first, second] = [0, 1].map(|channel| quantizer.levels()[channel].levels().to_vec());
        let scaled_levels: Vec<f32> = first.iter().map(|level| 4.0 * level).collect();
        assert_close(
            second,
            scaled_levels,
            Tolerance::relative(16).or_absolute(1e-5),
        );
        let (codes, n_nan) = quantizer.quantize(&both).unwrap();
        assert_eq!((codes[..60].to_vec(), n_nan), (alone.quantize(&data).0, 0));
        let restored = quantizer.dequantize(&codes).unwrap();
        assert_close(
            &restored[..60],
            alone.dequantize(&codes[..60]).unwrap(),
            Tolerance::exact(),
        );
    }
}

#[test]
fn what_does_not_fit_names_its_position() {
    let qem = Qem::signs(1).unwrap();
    let message = |error: Error| error.to_string();
    assert_eq!(
        message(Quantizer::fit(&qem, &[1.0; 7], 2).unwrap_err()),
        "Quantizer::fit: 7 elements cannot be divided into 2 channels"
    );
    assert_eq!(
        message(Quantizer::fit(&qem, &[1.0], 0).unwrap_err()),
        "Quantizer::fit: 1 elements cannot be divided into 0 channels"
    );
    assert_eq!(
        message(Quantizer::fit(&qem, &[1.0, 2.0, 3.0, f32::NAN], 2).unwrap_err()),
        "Quantizer::fit: element 3 is NaN"
    );
    assert!(matches!(
        Quantizer::fit(&qem, &[], 2),
        Err(Error::Empty { .. })
    ));
    assert!(matches!(Quantizer::new(vec![]), Err(Error::Empty { .. })));
    let quantizer = Quantizer::new(vec![LevelSet::ternary(1.0).unwrap(); 2]).unwrap();
    assert!(quantizer.quantize(&[0.0; 3]).is_err());
    assert_eq!(
        quantizer.quantize(&[f32::NAN, 0.0]).unwrap(),
        (vec![0, 1], 1)
    );
    assert_eq!(quantizer.quantize(&[]).unwrap(), (vec![], 0));
    assert_eq!(
        message(quantizer.dequantize(&[0, 1, 3, 2]).unwrap_err()),
        "Quantizer::dequantize: element 3 has code 2 (expected a code of the level set)"
    );
}
